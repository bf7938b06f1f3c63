// Where the hub is, who we are there, and where its files are kept: the variables of huggingface_hub.
#pragma once

#include <string>

#include "apps/ballast/models/http_url.h"
#include "ballast/base/result.h"

namespace ballast::cli {

// HF_HUB_CACHE, else $HF_HOME/hub, else huggingface/hub in the user's cache folder.
Result<std::string> hub_cache_folder();

struct HubSettings {
  Url endpoint;       // HF_ENDPOINT, without a slash at its end
  std::string token;  // HF_TOKEN, else the file that `hf auth login` writes; empty: none
  bool offline = false;

  static Result<HubSettings> of_environment();

  // For HttpSession. A token is not sent over an open connection to another machine.
  std::string authorization() const;
  // The page that people open in a browser.
  std::string page_of(const std::string& id) const { return endpoint.text + "/" + id; }
};

}  // namespace ballast::cli
