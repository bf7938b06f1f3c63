#include "apps/ballast/models/package_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "apps/ballast/output/text.h"
#include "ballast/base/json.h"
#include "ballast/io/file.h"

namespace ballast::cli {

namespace {

constexpr const char* kPublicIndex = "https://pypi.org/simple";
constexpr size_t kLargestPage = size_t{16} << 20U;
constexpr size_t kMostPackageFiles = 100'000;
constexpr uint64_t kLargestPipConfig = 1 << 20;

std::string pip_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string_view trimmed_view(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r"), text.size());
  const size_t end = text.find_last_not_of(" \t\r") + 1;
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

// As pip reads them, the strongest first.
std::vector<std::string> pip_config_files() {
  std::vector<std::string> paths;
  const std::string given = pip_variable("PIP_CONFIG_FILE"), home = pip_variable("HOME");
  if (given == "/dev/null") return paths;
  if (!given.empty()) paths.push_back(given);
  const std::string config = pip_variable("XDG_CONFIG_HOME");
  if (!config.empty()) paths.push_back(config + "/pip/pip.conf");
  if (!home.empty()) {
    if (config.empty()) paths.push_back(home + "/.config/pip/pip.conf");
    paths.push_back(home + "/.pip/pip.conf");
  }
  paths.insert(paths.end(), {"/etc/xdg/pip/pip.conf", "/etc/pip.conf"});
  return paths;
}

std::string file_text(const std::string& path) {
  const auto source = open_file(path, FileAccess::kPositional);
  if (!source || (*source)->size() > kLargestPipConfig) return "";
  const auto bytes = read_bytes(**source, 0, (*source)->size());
  return bytes ? std::string(as_text(*bytes)) : "";
}

// Names of packages are equal in any case, with any of - _ . between their words.
std::string normal_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool separates = c == '-' || c == '_' || c == '.';
    if (separates && out.ends_with('-')) continue;
    out += separates ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

// name-version-python-abi-platform.whl
bool is_wheel_of(std::string_view file, std::string_view package, std::string_view version) {
  const size_t dash = std::min(file.find('-'), file.size());
  const std::string_view rest = file.substr(std::min(dash + 1, file.size()));
  return file.ends_with(".whl") && normal_name(file.substr(0, dash)) == normal_name(package) &&
         rest.substr(0, rest.find('-')) == version;
}

Status add_package_file(std::vector<PackageFile>& files, const Url& page, std::string_view reference,
                        std::string sha256) {
  if (files.size() >= kMostPackageFiles) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{} lists more than {} files", page.text, kMostPackageFiles));
  }
  BALLAST_TRY(Url url, resolve_url(page, reference));
  constexpr std::string_view kDigest = "sha256=";
  if (sha256.empty() && url.fragment.starts_with(kDigest)) sha256 = url.fragment.substr(kDigest.size());
  PackageFile file{url.path.substr(url.path.rfind('/') + 1), url, FileDigest::of_blob_name(sha256)};
  if (file.digest.kind == FileDigest::Kind::kGitBlob) file.digest = {};
  files.push_back(std::move(file));
  return {};
}

// {"url": "...", "hashes": {"sha256": "..."}}
Status read_json_file(JsonReader& json, std::vector<PackageFile>& files, const Url& page) {
  std::string reference, sha256, key;
  BALLAST_CHECK(json.enter_object());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == "url") {
      BALLAST_CHECK(assign(reference, json.read_string()));
    } else if (key == "hashes") {
      BALLAST_CHECK(json.enter_object());
      for (;;) {
        BALLAST_TRY(const bool more_hashes, json.next_key(key));
        if (!more_hashes) break;
        if (key == "sha256") BALLAST_CHECK(assign(sha256, json.read_string()));
        else BALLAST_CHECK(json.skip_value());
      }
    } else {
      BALLAST_CHECK(json.skip_value());
    }
  }
  return add_package_file(files, page, reference, std::move(sha256));
}

Result<std::vector<PackageFile>> parse_json_page(std::string_view text, const Url& page) {
  std::vector<PackageFile> files;
  JsonReader json(text, page.text);
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return files;
    if (key != "files") {
      BALLAST_CHECK(json.skip_value());
      continue;
    }
    BALLAST_CHECK(json.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more_files, json.next_element());
      if (!more_files) break;
      BALLAST_CHECK(read_json_file(json, files, page));
    }
  }
}

// All that pages of an index consist of: <a href="...">; of entities, only & occurs in addresses.
Result<std::vector<PackageFile>> parse_html_page(std::string_view text, const Url& page) {
  std::vector<PackageFile> files;
  constexpr std::string_view kHref = "href=\"";
  for (size_t at = text.find(kHref); at != std::string_view::npos; at = text.find(kHref, at)) {
    at += kHref.size();
    const size_t end = text.find('"', at);
    if (end == std::string_view::npos) break;
    std::string reference(text.substr(at, end - at));
    for (size_t entity = 0; (entity = reference.find("&amp;", entity)) != std::string::npos; ++entity) {
      reference.erase(entity + 1, 4);
    }
    BALLAST_CHECK(add_package_file(files, page, reference, ""));
  }
  return files;
}

std::string basic_authorization(const Url& index) {
  if (index.credentials.empty()) return "";
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out = "Basic ";
  const std::string& text = index.credentials;
  for (size_t at = 0; at < text.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) out += at + i <= text.size() ? kDigits[bits >> (18 - 6 * i) & 63U] : '=';
  }
  return out;
}

}  // namespace

std::string index_url_in(std::string_view pip_config) {
  std::string found;
  bool counts = false;
  for (const std::string_view line : lines_of(pip_config)) {
    const std::string_view text = trimmed_view(line);
    if (text.starts_with('[')) counts = text == "[global]" || text == "[download]" || text == "[install]";
    const size_t equals = text.find('=');
    if (!counts || text.starts_with('#') || text.starts_with(';') || equals == std::string_view::npos) continue;
    const std::string_view key = trimmed_view(text.substr(0, equals));
    if (key == "index-url" || key == "index_url") found = trimmed_view(text.substr(equals + 1));
  }
  return found;
}

Result<Url> package_index_url() {
  std::string address = pip_variable("PIP_INDEX_URL");
  for (const std::string& path : pip_config_files()) {
    if (address.empty()) address = index_url_in(file_text(path));
  }
  if (address.empty()) address = kPublicIndex;
  while (address.ends_with('/')) address.pop_back();
  return parse_url(address);
}

Result<std::vector<PackageFile>> parse_package_page(std::string_view text, const Url& page) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size())).starts_with('{')
             ? parse_json_page(text, page)
             : parse_html_page(text, page);
}

PackageIndex::PackageIndex(Url index) : index_(index), session_(index, basic_authorization(index)) {}

Result<PackageFile> PackageIndex::find_wheel(std::string_view package, std::string_view version) {
  BALLAST_TRY(const Url page, parse_url(fmt::format("{}/{}/", index_.text, normal_name(package))));
  std::string text;
  BALLAST_TRY(
      const HttpAnswer answer,
      session_.get_text(page, {"Accept: application/vnd.pypi.simple.v1+json, text/html;q=0.5"}, kLargestPage, text));
  if (answer.head.status != 200) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: the package index responded with status {}", page.text, answer.head.status));
  }
  BALLAST_TRY(const std::vector<PackageFile> files, parse_package_page(text, answer.url));
  for (const PackageFile& file : files) {
    if (is_wheel_of(file.name, package, version)) return file;
  }
  return make_error(ErrorCode::kNotFound, fmt::format("{}: has no wheel of version {}", page.text, version));
}

}  // namespace ballast::cli
