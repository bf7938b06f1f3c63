#include "apps/ballast/server/lens_site.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>

#include "apps/ballast/output/text.h"
#include "apps/ballast/server/byte_range.h"
#include "apps/ballast/server/error_answer.h"
#include "apps/ballast/server/secret.h"
#include "ballast/base/json.h"

namespace ballast::cli {

namespace {

// The page computes in WebAssembly, and draws pictures that it made itself. Nothing comes from elsewhere.
constexpr std::string_view kLensPagePolicy =
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; connect-src "
    "'self'; "
    "img-src 'self' data: blob:; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr std::string_view kFileList = "/files.json";
constexpr std::string_view kFilePrefix = "/files/";
constexpr std::string_view kFileListTag = R"(<meta name="ballast-files" content="files.json">)";

// "/files/12/STATE" below the secret.
struct FilePath {
  size_t number = 0;
  std::string_view version;
};

std::optional<FilePath> read_file_path(std::string_view path) {
  if (!path.starts_with(kFilePrefix)) return std::nullopt;
  path.remove_prefix(kFilePrefix.size());
  FilePath result;
  const auto [stop, failure] = std::from_chars(path.data(), path.data() + path.size(), result.number);
  const auto digits = static_cast<size_t>(stop - path.data());
  if (failure != std::errc() || digits == path.size() || path[digits] != '/') return std::nullopt;
  result.version = path.substr(digits + 1);
  return result;
}

std::string quoted(std::string_view version) { return fmt::format("\"{}\"", version); }

// Behind "<head>", which the page has as it was built.
std::string with_file_list(std::string html) {
  constexpr std::string_view kHead = "<head>";
  const size_t head = html.find(kHead);
  html.insert(head == std::string::npos ? 0 : head + kHead.size(), kFileListTag);
  return html;
}

class LensSite final : public Site {
 public:
  explicit LensSite(LensSiteOptions options) : options_(std::move(options)) {}

  std::optional<SiteAnswer> answer(const SiteRequest& request) override {
    std::string_view path = request.path;
    if (!path.starts_with('/')) return std::nullopt;
    path.remove_prefix(1);
    const std::string_view secret = path.substr(0, path.find('/'));
    path.remove_prefix(secret.size());
    const bool is_ticket = is_secret(secret, options_.ticket) && !options_.ticket.empty();
    if (is_ticket && path.empty()) return take_ticket();
    if (!is_secret(secret, options_.secret)) return std::nullopt;
    if (path.empty()) return redirect(308);  // addresses in the page begin at its folder
    return below_secret(path, request);
  }

 private:
  SiteAnswer redirect(int status) const {
    serve::HttpAnswer answer{.status = status, .content_type = {}, .body = {}};
    answer.headers.emplace_back("location", fmt::format("/{}/", options_.secret));
    return {std::move(answer)};
  }

  SiteAnswer take_ticket() {
    options_.ticket.clear();
    return redirect(303);
  }

  std::optional<SiteAnswer> below_secret(std::string_view path, const SiteRequest& request) const {
    if (const PageFile* const file = find_page_file(options_.page, path)) return page_file(*file, request);
    if (path == kFileList) return file_list();
    const auto file = read_file_path(path);
    if (!file || file->number >= options_.files.size()) return std::nullopt;
    return file_answer(options_.files[file->number], file->version, request);
  }

  // Told of the list, even of an empty one, the page offers no addresses of other hosts, which its policy refuses. That
  // is another text than the page as built, so it has another ETag.
  SiteAnswer page_file(PageFile file, const SiteRequest& request) const {
    const bool is_index = file.path == "/";
    const std::string etag = is_index ? fmt::format("\"files-{}", file.etag.substr(1)) : std::string(file.etag);
    file.etag = etag;
    serve::HttpAnswer answer = page_answer(file, request.if_none_match, kLensPagePolicy);
    if (is_index && answer.status == 200) answer.body = with_file_list(std::move(answer.body));
    return {std::move(answer)};
  }

  // As the files are now: whoever loads the page again sees what has changed. Those that are gone are left out.
  SiteAnswer file_list() const {
    JsonWriter json;
    json.begin_object().key("files").begin_array();
    for (size_t i = 0; i < options_.files.size(); ++i) {
      const auto version = lens_file_version(options_.files[i]);
      if (!version || leads_elsewhere(options_.files[i])) continue;
      json.begin_object();
      json.key("name").string(json_text(options_.files[i].name)).key("size").number(version->size);
      json.key("url").string(fmt::format("{}{}/{}", kFilePrefix.substr(1), i, version_text(*version)));
      json.end_object();
    }
    json.end_array().end_object();
    return {{.status = 200, .content_type = "application/json", .body = json.take()}};
  }

  SiteAnswer file_answer(const LensFile& file, std::string_view version, const SiteRequest& request) const {
    auto opened = open_lens_file(file);
    if (!opened) return unreadable(file, opened.error());
    std::optional<OpenLensFile>& open = *opened;
    if (!open || version != version_text(open->version)) return failed(409, "file_changed", changed_text(file));
    const std::string etag = quoted(version);
    serve::HttpAnswer answer{.status = 200, .content_type = "application/octet-stream", .body = {}};
    answer.headers = {{"accept-ranges", "bytes"}, {"etag", etag}};
    if (request.if_none_match.find(etag) != std::string::npos) {
      answer.status = 304;
      return {std::move(answer)};
    }
    const uint64_t size = open->version.size;
    const bool may_be_part = request.if_range.empty() || request.if_range == etag;
    ByteRange range = may_be_part ? read_byte_range(request.range, size) : ByteRange{};
    if (range.kind == ByteRange::Kind::kRefused) return no_range(size);
    if (range.kind == ByteRange::Kind::kWhole) {
      range.size = size;
    } else {
      answer.status = 206;
      answer.headers.emplace_back("content-range",
                                  fmt::format("bytes {}-{}/{}", range.first, range.first + range.size - 1, size));
    }
    return {std::move(answer), make_file_body(file, std::move(*open), range, options_.complain)};
  }

  static SiteAnswer no_range(uint64_t size) {
    SiteAnswer refused =
        failed(416, "range_not_satisfiable", fmt::format("the file has {} bytes; ask for one range inside it", size));
    refused.answer.headers.emplace_back("content-range", fmt::format("bytes */{}", size));
    return refused;
  }

  SiteAnswer unreadable(const LensFile& file, const Error& error) const {
    if (error.code == ErrorCode::kNotFound) return failed(410, "file_gone", changed_text(file));
    options_.complain(error.message);
    return failed(
        500, "file_unreadable",
        fmt::format("{}: the file cannot be read; the terminal that runs `ballast lens` says why", file.name));
  }

  static SiteAnswer failed(int status, std::string_view code, std::string message) {
    return {error_answer({status, "invalid_request_error", code, std::move(message)}, "/")};
  }

  LensSiteOptions options_;
};

}  // namespace

std::unique_ptr<Site> make_lens_site(LensSiteOptions options) { return std::make_unique<LensSite>(std::move(options)); }

}  // namespace ballast::cli
