// ORG/NAME[@REVISION][:FILE], as people name models of a Hugging Face hub, and paths in such a repository.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast::cli {

struct HubName {
  std::string id;  // ORG/NAME
  std::string revision = "main";
  std::string file;  // empty: what running needs

  // As it was given.
  std::string text() const;
};

// nullopt for a text that does not have this form at all: a path, a plain word.
std::optional<HubName> parse_hub_name(std::string_view text);

// Why a file of a repository must not be written under this path, or "" where it may.
std::string_view unsafe_hub_path(std::string_view path);
// A commit, as the hub names folders: hexadecimal digits.
bool is_commit_name(std::string_view text);
// A blob, as the cache names files: nothing that could be a path.
bool is_blob_name(std::string_view text);

}  // namespace ballast::cli
