#include "apps/ballast/models/hub_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/formats/container/zip.h"

namespace ballast::cli {

namespace {

constexpr size_t kLongestId = 96;
constexpr size_t kLongestPath = 1024;
constexpr size_t kLongestPart = 255;

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Letters, digits, and marks that are neither first nor last: "." and ".." are no names.
bool is_hub_word(std::string_view text) {
  if (text.empty() || text.size() > kLongestId) return false;
  if (!is_word_character(text.front()) || !is_word_character(text.back())) return false;
  return std::ranges::all_of(text, [](char c) { return is_word_character(c) || c == '.' || c == '-'; });
}

bool is_hub_id(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos || text.size() > kLongestId) return false;
  // The cache joins the parts by "--", so it must not be in them.
  if (text.find("--") != std::string_view::npos || text.find("..") != std::string_view::npos) return false;
  return is_hub_word(text.substr(0, slash)) && is_hub_word(text.substr(slash + 1));
}

bool is_hub_revision(std::string_view text) {
  return !text.empty() && unsafe_hub_path(text).empty() &&
         std::ranges::all_of(text, [](char c) { return is_word_character(c) || c == '.' || c == '-' || c == '/'; });
}

}  // namespace

std::string HubName::text() const {
  return fmt::format("{}{}{}", id, revision == "main" ? "" : "@" + revision, file.empty() ? "" : ":" + file);
}

std::optional<HubName> parse_hub_name(std::string_view text) {
  HubName name;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    name.file = text.substr(colon + 1);
    if (!unsafe_hub_path(name.file).empty()) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    name.revision = text.substr(at + 1);
    if (!is_hub_revision(name.revision)) return std::nullopt;
    text = text.substr(0, at);
  }
  if (!is_hub_id(text)) return std::nullopt;
  name.id = text;
  return name;
}

std::string_view unsafe_hub_path(std::string_view path) {
  if (path.empty()) return "it is empty";
  if (path.size() > kLongestPath) return "it is too long";
  if (!is_valid_utf8(path)) return "it is not UTF-8";
  if (std::ranges::any_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7F; })) {
    return "it contains control characters";
  }
  if (const std::string_view problem = unsafe_zip_name(path); !problem.empty()) return problem;
  for (size_t start = 0; start <= path.size();) {
    const size_t slash = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, slash - start);
    if (part.empty() || part == "." || part.size() > kLongestPart) return "a part of it is not a valid file name";
    start = slash + 1;
  }
  return {};
}

bool is_commit_name(std::string_view text) {
  return text.size() >= 7 && text.size() <= 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_blob_name(std::string_view text) { return is_hub_word(text) && std::ranges::find(text, '.') == text.end(); }

}  // namespace ballast::cli
