// The two questions that a Hugging Face hub (or a mirror of it) is asked: what is in a repository, and what is a file.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/models/http_session.h"
#include "apps/ballast/models/hub_choice.h"
#include "apps/ballast/models/hub_name.h"
#include "apps/ballast/models/hub_settings.h"

namespace ballast::cli {

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};

class Hub {
 public:
  explicit Hub(HubSettings settings)
      : settings_(std::move(settings)), session_(settings_.endpoint, settings_.authorization()) {}

  Result<HubListing> list(const HubName& name);
  // Size and digest of a file, where the listing did not tell them.
  Result<HubFile> describe(const HubName& name, const std::string& commit, const std::string& path);
  Result<Url> url_of(const HubName& name, const std::string& commit, const std::string& path) const;
  // What an answer that is no success means to the user.
  Error refusal(const HttpHead& head, const HubName& name, const std::string& path) const;

  const HubSettings& settings() const { return settings_; }
  HttpSession& session() { return session_; }

 private:
  HubSettings settings_;
  HttpSession session_;
};

// The listing as the hub writes it. kCorrupt for one that is no listing, or that would write outside of its folder.
Result<HubListing> parse_hub_listing(std::string_view json, const std::string& where);

}  // namespace ballast::cli
