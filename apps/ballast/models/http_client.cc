#include "apps/ballast/models/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <new>

#include "apps/ballast/terminal/interrupt.h"
#include "ballast/base/version.h"

namespace ballast::cli {

namespace {

constexpr size_t kMostHeaderBytes = 64 << 10;
constexpr uint64_t kMostDroppedBytes = 1 << 20;  // of an error page
constexpr long kConnectSeconds = 20;
constexpr long kSilentSeconds = 30;  // without a byte: the connection counts as lost

struct HeaderList {
  curl_slist* list = nullptr;

  HeaderList() = default;
  ~HeaderList() { curl_slist_free_all(list); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;

  bool add(const std::string& line) {
    curl_slist* const longer = curl_slist_append(list, line.c_str());
    if (longer == nullptr) return false;
    list = longer;
    return true;
  }
};

// What the callbacks of one request share. They are called from C, so nothing may be thrown through them.
struct Exchange {
  CURL* curl = nullptr;
  HttpBody* body = nullptr;
  HttpHead head;
  size_t header_bytes = 0;
  bool begun = false;
  uint64_t dropped = 0;
  std::optional<Error> failure;

  bool is_success() const { return head.status >= 200 && head.status < 300; }

  bool fail(Error error) {
    failure = std::move(error);
    return false;
  }

  bool begin() {
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &head.status);
    begun = true;
    if (body == nullptr || !is_success()) return true;
    const Status taken = body->begin(head);
    return taken ? true : fail(taken.error());
  }

  bool take(ByteSpan bytes) {
    if (!begun && !begin()) return false;
    if (body == nullptr || !is_success()) {
      dropped += bytes.size();
      return dropped <= kMostDroppedBytes;
    }
    const Status taken = body->write(bytes);
    return taken ? true : fail(taken.error());
  }

  bool take_header(std::string_view line) {
    // An interim answer (100 Continue) or a proxy's comes before the one that counts.
    if (line.starts_with("HTTP/")) head.headers.clear();
    header_bytes += line.size();
    if (header_bytes > kMostHeaderBytes) {
      return fail(
          make_error(ErrorCode::kCorrupt, fmt::format("the response headers exceed {} bytes", kMostHeaderBytes)));
    }
    while (line.ends_with('\n') || line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return true;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    line.remove_prefix(std::min(line.find_first_not_of(' ', colon + 1), line.size()));
    head.headers.emplace_back(std::move(name), line);
    return true;
  }
};

size_t on_http_header(char* data, size_t size, size_t count, void* exchange) {
  try {
    return static_cast<Exchange*>(exchange)->take_header({data, size * count}) ? size * count : 0;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

size_t on_http_body(char* data, size_t size, size_t count, void* exchange) {
  try {
    return static_cast<Exchange*>(exchange)->take(as_bytes({data, size * count})) ? size * count : 0;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

int on_http_progress(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) { return interrupted() ? 1 : 0; }

bool is_transient_code(CURLcode code) {
  constexpr CURLcode kCodes[] = {CURLE_OPERATION_TIMEDOUT, CURLE_RECV_ERROR, CURLE_SEND_ERROR,  CURLE_PARTIAL_FILE,
                                 CURLE_GOT_NOTHING,        CURLE_HTTP2,      CURLE_HTTP2_STREAM};
  return std::ranges::find(kCodes, code) != std::end(kCodes);
}

bool is_unreachable_code(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_PROXY;
}

// The variables that other programs take certificates from; libcurl itself knows only the system's.
const char* certificates_file() {
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && value[0] != '\0') return value;
  }
  return nullptr;
}

void only_web_protocols(CURL* curl) {
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
#endif
}

bool set_headers(CURL* curl, const HttpRequest& request, HeaderList& headers) {
  bool added = headers.add("Accept-Encoding: identity");  // sizes and digests are those of the plain bytes
  for (const std::string& line : request.headers) added = added && headers.add(line);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.list);
  return added;
}

void set_options(CURL* curl, const HttpRequest& request, Exchange& exchange, char* error_text) {
  curl_easy_reset(curl);  // keeps the connections
  only_web_protocols(curl);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.text.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NETRC, long{CURL_NETRC_IGNORED});
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  curl_easy_setopt(curl, CURLOPT_NOBODY, request.head_only ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_http_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_http_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_http_progress);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, fmt::format("ballast/{}", version()).c_str());
  if (const char* const file = certificates_file()) curl_easy_setopt(curl, CURLOPT_CAINFO, file);
  if (request.from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, fmt::format("{}-", request.from).c_str());
}

}  // namespace

struct HttpClient::State {
  CURL* curl = nullptr;
};

HttpClient::HttpClient() : state_(std::make_unique<State>()) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  state_->curl = curl_easy_init();
}

HttpClient::~HttpClient() {
  curl_easy_cleanup(state_->curl);
  curl_global_cleanup();
}

HttpOutcome HttpClient::send(const HttpRequest& request) {
  HttpOutcome outcome;
  Exchange exchange;
  HeaderList headers;
  char error_text[CURL_ERROR_SIZE] = {};
  exchange.curl = state_->curl;
  exchange.body = request.body;
  if (state_->curl != nullptr) set_options(state_->curl, request, exchange, error_text);
  if (state_->curl == nullptr || !set_headers(state_->curl, request, headers)) {
    outcome.failure = make_error(ErrorCode::kOutOfMemory, "out of memory");
    return outcome;
  }
  const CURLcode code = curl_easy_perform(state_->curl);
  // An error page that is too long is cut off, and its status says enough.
  const bool answered = code == CURLE_OK || (exchange.begun && !exchange.is_success() && !exchange.failure);
  if (answered && !exchange.begun) exchange.begin();
  outcome.head = std::move(exchange.head);
  outcome.failure = std::move(exchange.failure);
  if (answered || outcome.failure) return outcome;
  if (interrupted()) {
    outcome.failure = make_error(ErrorCode::kCancelled, "interrupted");
    return outcome;
  }
  outcome.is_transient = is_transient_code(code);
  outcome.is_unreachable = is_unreachable_code(code);
  outcome.failure = make_error(
      ErrorCode::kIo,
      fmt::format("{}: {}", request.url.origin(), error_text[0] != '\0' ? error_text : curl_easy_strerror(code)));
  return outcome;
}

std::string_view HttpHead::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

std::optional<uint64_t> HttpHead::number(std::string_view name) const {
  const std::string_view text = header(name);
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace ballast::cli
