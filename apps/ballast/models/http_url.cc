#include "apps/ballast/models/http_url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

using CurlUrl = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

constexpr size_t kLongestUrl = 16 << 10;

std::string url_part(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK || text == nullptr) return "";
  std::string copy = text;
  curl_free(text);
  return copy;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

Error url_error(std::string_view text) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("\"{}\" is not a valid URL", shorten(printable(text), 120)));
}

// Takes the credentials and the fragment out, which must appear in no request line and in no message.
Result<Url> take_parts(CURLU* parsed, std::string_view text) {
  Url url;
  url.scheme = lower_case(url_part(parsed, CURLUPART_SCHEME));
  url.host = lower_case(url_part(parsed, CURLUPART_HOST));
  url.port = url_part(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  url.path = url_part(parsed, CURLUPART_PATH);
  url.fragment = url_part(parsed, CURLUPART_FRAGMENT);
  const std::string user = url_part(parsed, CURLUPART_USER, CURLU_URLDECODE);
  const std::string password = url_part(parsed, CURLUPART_PASSWORD, CURLU_URLDECODE);
  if (!user.empty() || !password.empty()) url.credentials = user + ':' + password;
  for (const CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_FRAGMENT}) {
    curl_url_set(parsed, part, nullptr, 0);
  }
  url.text = url_part(parsed, CURLUPART_URL);
  if (url.scheme.empty() || url.host.empty() || url.text.empty()) return url_error(text);
  return url;
}

Result<Url> parse_against(const std::string& base, std::string_view text) {
  const bool has_control = std::ranges::any_of(text, [](unsigned char c) { return c <= 0x20 || c == 0x7F; });
  if (text.empty() || text.size() > kLongestUrl || has_control) return url_error(text);
  const CurlUrl parsed(curl_url(), curl_url_cleanup);
  if (!parsed) return make_error(ErrorCode::kOutOfMemory, "out of memory");
  constexpr unsigned kFlags = CURLU_NON_SUPPORT_SCHEME;  // so that the message can name the scheme
  if (!base.empty() && curl_url_set(parsed.get(), CURLUPART_URL, base.c_str(), kFlags) != CURLUE_OK) {
    return url_error(base);
  }
  if (curl_url_set(parsed.get(), CURLUPART_URL, std::string(text).c_str(), kFlags) != CURLUE_OK) return url_error(text);
  return take_parts(parsed.get(), text);
}

}  // namespace

bool Url::is_loopback() const {
  return host == "localhost" || host == "[::1]" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

std::string Url::origin() const {
  const bool usual = (scheme == "https" && port == "443") || (scheme == "http" && port == "80");
  return usual ? fmt::format("{}://{}", scheme, host) : fmt::format("{}://{}:{}", scheme, host, port);
}

Result<Url> parse_url(std::string_view text) { return parse_against("", text); }
Result<Url> resolve_url(const Url& base, std::string_view reference) { return parse_against(base.text, reference); }

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes);
    if (plain) out += c;
    else out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace ballast::cli
