#include "apps/ballast/models/hub_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "apps/ballast/models/file_digest.h"
#include "apps/ballast/output/text.h"
#include "ballast/base/json.h"

namespace ballast::cli {

namespace {

constexpr size_t kLargestListing = size_t{32} << 20U;
constexpr size_t kMostFiles = 100'000;

// {"sha256": "...", "size": 1}: only for large files.
Status read_lfs(JsonReader& json, HubFile& file) {
  BALLAST_TRY(const JsonType type, json.peek());
  if (type != JsonType::kObject) return json.skip_value();
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return {};
    if (key == "sha256" || key == "oid") BALLAST_CHECK(assign(file.digest, json.read_string()));
    else if (key == "size") BALLAST_CHECK(assign(file.bytes, json.read_u64()));
    else BALLAST_CHECK(json.skip_value());
  }
}

Result<HubFile> read_listed_file(JsonReader& json) {
  HubFile file;
  std::string git_digest;
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    BALLAST_TRY(const JsonType type, json.peek());
    if (key == "rfilename") BALLAST_CHECK(assign(file.path, json.read_string()));
    else if (key == "size" && type == JsonType::kNumber) BALLAST_CHECK(assign(file.bytes, json.read_u64()));
    else if (key == "blobId" && type == JsonType::kString) BALLAST_CHECK(assign(git_digest, json.read_string()));
    else if (key == "lfs") BALLAST_CHECK(read_lfs(json, file));
    else BALLAST_CHECK(json.skip_value());
  }
  if (file.digest.empty()) file.digest = git_digest;
  if (FileDigest::of_blob_name(file.digest).kind == FileDigest::Kind::kNone) file.digest.clear();
  return file;
}

Status read_listed_files(JsonReader& json, HubListing& listing, const std::string& where) {
  std::set<std::string> seen;
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return {};
    BALLAST_TRY(HubFile file, read_listed_file(json));
    if (const std::string_view problem = unsafe_hub_path(file.path); !problem.empty()) {
      return make_error(ErrorCode::kCorrupt, fmt::format("{} lists the path \"{}\", which is refused: {}", where,
                                                         shorten(printable(file.path), 80), problem));
    }
    if (!seen.insert(file.path).second) {
      return make_error(ErrorCode::kCorrupt, fmt::format("{} lists \"{}\" twice", where, printable(file.path)));
    }
    if (seen.size() > kMostFiles) {
      return make_error(ErrorCode::kUnsupported, fmt::format("{} lists more than {} files", where, kMostFiles));
    }
    listing.files.push_back(std::move(file));
  }
}

// ETag: W/"abc" or "abc".
std::string plain_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.starts_with('"')) etag.remove_prefix(1);
  if (etag.ends_with('"')) etag.remove_suffix(1);
  return std::string(etag);
}

}  // namespace

Result<HubListing> parse_hub_listing(std::string_view text, const std::string& where) {
  HubListing listing;
  JsonReader json(text, where);
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == "sha") BALLAST_CHECK(assign(listing.commit, json.read_string()));
    else if (key == "siblings") BALLAST_CHECK(read_listed_files(json, listing, where));
    else BALLAST_CHECK(json.skip_value());
  }
  if (is_commit_name(listing.commit)) return listing;
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{}: the response names no commit; is this a Hugging Face hub?", where));
}

Result<Url> Hub::url_of(const HubName& name, const std::string& commit, const std::string& path) const {
  return parse_url(fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint.text, name.id,
                               percent_encoded(commit, /*keep_slashes=*/false), percent_encoded(path, true)));
}

Result<HubListing> Hub::list(const HubName& name) {
  BALLAST_TRY(const Url url, parse_url(fmt::format("{}/api/models/{}/revision/{}?blobs=true", settings_.endpoint.text,
                                                   name.id, percent_encoded(name.revision, false))));
  std::string text;
  BALLAST_TRY(const HttpAnswer answer, session_.get_text(url, {"Accept: application/json"}, kLargestListing, text));
  if (answer.head.status != 200) return refusal(answer.head, name, "");
  return parse_hub_listing(text, fmt::format("{}: {}", settings_.endpoint.origin(), name.id));
}

Result<HubFile> Hub::describe(const HubName& name, const std::string& commit, const std::string& path) {
  BALLAST_TRY(const Url url, url_of(name, commit, path));
  BALLAST_TRY(const HttpAnswer answer, session_.head(url, "x-linked-etag"));
  const HttpHead& head = answer.head;
  const std::string_view linked = head.header("x-linked-etag");
  const bool is_answer = (head.status >= 200 && head.status < 300) || !linked.empty();
  if (!is_answer) return refusal(head, name, path);
  HubFile file{path, head.number("x-linked-size"), plain_etag(linked.empty() ? head.header("etag") : linked)};
  if (!file.bytes && linked.empty()) file.bytes = head.number("content-length");
  if (is_blob_name(file.digest)) return file;
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{}: {}: the server gives no digest (ETag) for {}; is it a Hugging Face hub?",
                                settings_.endpoint.origin(), name.id, printable(path)));
}

Error Hub::refusal(const HttpHead& head, const HubName& name, const std::string& path) const {
  const std::string_view code = head.header("x-error-code");
  const std::string what = path.empty() ? name.id : fmt::format("{}:{}", name.id, printable(path));
  const auto say = [&](ErrorCode kind, const std::string& text) {
    return make_error(kind, fmt::format("{}: {}", what, text));
  };
  const std::string token =
      settings_.token.empty() ? "set HF_TOKEN to a token with access" : "the token in HF_TOKEN has no access to it";
  if (code == "GatedRepo" || (head.status == 403 && code.empty())) {
    return say(ErrorCode::kIo, fmt::format("access is restricted (status {}): accept its licence at {}, then {}",
                                           head.status, settings_.page_of(name.id), token));
  }
  if (code == "RevisionNotFound") {
    return say(ErrorCode::kNotFound, fmt::format("it has no revision \"{}\"", printable(name.revision)));
  }
  if (code == "EntryNotFound") return say(ErrorCode::kNotFound, "no such file; --list shows all files");
  if (head.status == 401 || head.status == 403) {
    return say(ErrorCode::kIo, fmt::format("{} refuses access (status {}): it does not exist, or it is private: {}",
                                           settings_.endpoint.origin(), head.status, token));
  }
  if (head.status == 404) {
    return say(ErrorCode::kNotFound, fmt::format("{} has no such model or revision; check the name: {}",
                                                 settings_.endpoint.origin(), settings_.page_of(name.id)));
  }
  if (head.status == 429) {
    return say(ErrorCode::kIo,
               fmt::format("{} limits requests (status 429); wait a while, or set HF_TOKEN for a higher limit",
                           settings_.endpoint.origin()));
  }
  return say(ErrorCode::kIo, fmt::format("{} responded with status {}", settings_.endpoint.origin(), head.status));
}

}  // namespace ballast::cli
