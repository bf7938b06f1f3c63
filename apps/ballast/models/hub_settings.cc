#include "apps/ballast/models/hub_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "apps/ballast/output/text.h"
#include "ballast/io/file.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPublicHub = "https://huggingface.co";
constexpr uint64_t kLongestToken = 4096;

// The first of these variables that is set and not empty.
std::string hub_variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && value[0] != '\0') return value;
  }
  return "";
}

bool is_switched_on(std::initializer_list<const char*> names) {
  std::string value = hub_variable(names);
  std::ranges::transform(value, value.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

fs::path expand_home(const std::string& path) {
  const std::string home = hub_variable({"HOME"});
  if (!home.empty() && (path == "~" || path.starts_with("~/"))) return home + path.substr(1);
  return path;
}

Result<fs::path> hub_home() {
  if (const std::string given = hub_variable({"HF_HOME"}); !given.empty()) return expand_home(given);
  if (const std::string given = hub_variable({"XDG_CACHE_HOME"}); !given.empty()) {
    return expand_home(given) / "huggingface";
  }
  if (const std::string home = hub_variable({"HOME"}); !home.empty()) return fs::path(home) / ".cache/huggingface";
  return make_error(ErrorCode::kNotFound, "cannot find the model cache: set HF_HOME, XDG_CACHE_HOME or HOME");
}

std::string trimmed_setting(std::string text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
  text.erase(text.find_last_not_of(kSpace) + 1);
  return text;
}

std::string token_of_file() {
  fs::path path = expand_home(hub_variable({"HF_TOKEN_PATH"}));
  if (path.empty()) {
    const auto home = hub_home();
    if (!home) return "";
    path = *home / "token";
  }
  const auto source = open_file(path.string(), FileAccess::kPositional);
  if (!source || (*source)->size() > kLongestToken) return "";
  const auto bytes = read_bytes(**source, 0, (*source)->size());
  return bytes ? trimmed_setting(std::string(as_text(*bytes))) : "";
}

Result<std::string> find_token() {
  if (is_switched_on({"HF_HUB_DISABLE_IMPLICIT_TOKEN"})) return std::string();
  std::string token = trimmed_setting(hub_variable({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (token.empty()) token = token_of_file();
  // A line break would begin another header.
  if (std::ranges::any_of(token, [](unsigned char c) { return c <= 0x20 || c >= 0x7F; })) {
    return make_error(ErrorCode::kInvalidArgument, "the hub token (HF_TOKEN) contains invalid characters");
  }
  return token;
}

}  // namespace

Result<std::string> hub_cache_folder() {
  fs::path folder = expand_home(hub_variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}));
  if (folder.empty()) {
    BALLAST_TRY(const fs::path home, hub_home());
    folder = home / "hub";
  }
  std::error_code failure;
  const fs::path absolute = fs::absolute(folder, failure);
  return (failure ? folder : absolute).string();
}

Result<HubSettings> HubSettings::of_environment() {
  HubSettings settings;
  std::string endpoint = trimmed_setting(hub_variable({"HF_ENDPOINT"}));
  if (endpoint.empty()) endpoint = kPublicHub;
  auto url = parse_url(endpoint);
  if (!url) return std::move(url).error().with_context("HF_ENDPOINT");
  if (url->scheme != "https" && url->scheme != "http") {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("HF_ENDPOINT: {} is not an https address", printable(url->text)));
  }
  if (!url->credentials.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "HF_ENDPOINT contains a password; put a token into HF_TOKEN instead");
  }
  while (url->text.ends_with('/')) url->text.pop_back();
  settings.endpoint = std::move(*url);
  BALLAST_CHECK(assign(settings.token, find_token()));
  settings.offline = is_switched_on({"HF_HUB_OFFLINE"});
  return settings;
}

std::string HubSettings::authorization() const {
  const bool is_private = endpoint.scheme == "https" || endpoint.is_loopback();
  return token.empty() || !is_private ? "" : "Bearer " + token;
}

}  // namespace ballast::cli
