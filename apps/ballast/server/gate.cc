#include "apps/ballast/server/gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/ballast/output/text.h"
#include "apps/ballast/server/host_name.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kInvalid = "invalid_request_error";
constexpr std::string_view kForbidden = "permission_error";
constexpr std::string_view kHttpPort = "80";  // of a host that names none
// What the clients that run in browsers send, besides x-stainless-*.
constexpr std::string_view kClientHeaders[] = {
    "authorization",       "content-type",   "x-api-key",
    "anthropic-version",   "anthropic-beta", "anthropic-dangerous-direct-browser-access",
    "openai-organization", "openai-project", "openai-beta"};

// What a client sent, in a message to it.
std::string shown(std::string_view text) { return shorten(printable(text), 100); }

std::string advice(std::string_view what, std::string_view flag, std::string_view value) {
  return fmt::format("; whoever runs it can allow {} with {} {}", what, flag, value);
}

bool is_json_type(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return same_letters(type, "application/json");
}

bool is_client_header(std::string_view name) {
  constexpr std::string_view kSdk = "x-stainless-";
  if (name.size() > kSdk.size() && same_letters(name.substr(0, kSdk.size()), kSdk)) return true;
  return std::ranges::any_of(kClientHeaders, [&](std::string_view known) { return same_letters(known, name); });
}

// Those of the headers that a page asks for which a client has use for.
std::string allowed_headers(std::string_view asked) {
  std::string allowed;
  while (!asked.empty()) {
    const size_t comma = std::min(asked.find(','), asked.size());
    std::string_view name = asked.substr(0, comma);
    asked.remove_prefix(std::min(comma + 1, asked.size()));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (is_client_header(name)) allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", name);
  }
  return allowed;
}

serve::HttpAnswer options_answer(const RequestHead& head, bool may_call) {
  serve::HttpAnswer answer{.status = 204, .content_type = {}, .body = {}};
  answer.headers.emplace_back("allow", "GET, HEAD, POST, DELETE, OPTIONS");
  if (!may_call || !head.requested_method) return answer;
  answer.headers.emplace_back("access-control-allow-methods", "GET, POST, DELETE");
  const std::string headers = allowed_headers(head.requested_headers.value_or(""));
  if (!headers.empty()) answer.headers.emplace_back("access-control-allow-headers", headers);
  if (head.requests_private_network) answer.headers.emplace_back("access-control-allow-private-network", "true");
  answer.headers.emplace_back("access-control-max-age", "600");
  return answer;
}

}  // namespace

std::optional<Refusal> Gate::check(const RequestHead& head, HostRule rule, Admission& admission) const {
  const auto target = split_target(head.target);
  if (!target) {
    return Refusal{400, kInvalid, "bad_target", "the request's first line names no path; it must begin with \"/\""};
  }
  admission.path = target->path;
  if (auto refusal = check_count(head.headers)) return refusal;
  if (auto refusal = check_host(head, *target, rule)) return refusal;
  if (auto refusal = check_origin(head, *target, admission)) return refusal;
  if (std::ranges::find(options_.methods, head.method) == options_.methods.end()) {
    return Refusal{405, kInvalid, "method_not_allowed",
                   fmt::format("the method {} is not known here", shown(head.method)),
                   fmt::format("{}", fmt::join(options_.methods, ", "))};
  }
  if (auto refusal = check_body(head)) return refusal;
  if (auto refusal = check_length(head, admission)) return refusal;
  admission.wants_continue = head.expect.has_value() && !head.is_http_1_0;  // HTTP/1.0 knows no such answer
  if (head.method != "OPTIONS") return check_key(head, admission);
  admission.answer = options_answer(head, admission.origin.has_value());
  return std::nullopt;
}

std::optional<Refusal> Gate::check_count(size_t headers) const {
  if (headers <= options_.headers) return std::nullopt;
  return Refusal{431, kInvalid, "too_many_headers",
                 fmt::format("the request has {} headers; at most {} are read", headers, options_.headers)};
}

std::optional<Refusal> Gate::check_host(const RequestHead& head, const RequestTarget& target, HostRule rule) const {
  if (head.hosts > 1 || (head.hosts == 0 && !head.is_http_1_0)) {
    return Refusal{400, kInvalid, "bad_host",
                   fmt::format("the request has {} Host headers instead of one", head.hosts)};
  }
  if (!head.host && !target.host) return std::nullopt;  // no browser leaves it out
  const std::string& given = target.host ? *target.host : *head.host;
  const auto host = parse_host(given);
  if (!host) {
    return Refusal{400, kInvalid, "bad_host", fmt::format("\"{}\" is not the name of a host", shown(given))};
  }
  const std::string_view port = host->port.empty() ? kHttpPort : std::string_view(host->port);
  if (options_.port != 0 && port != std::to_string(options_.port)) {
    return Refusal{
        403, kForbidden, "host_not_allowed",
        fmt::format("the host \"{}\" names another port than the server's, {}", shown(given), options_.port)};
  }
  if (rule == HostRule::kAny || is_loopback_host(host->host)) return std::nullopt;
  if (rule == HostRule::kAddresses && is_ip_address(host->host)) return std::nullopt;
  if (std::ranges::find(options_.hosts, host->host) != options_.hosts.end()) return std::nullopt;
  return Refusal{403, kForbidden, "host_not_allowed",
                 fmt::format("the host \"{}\" is not one that this server answers to{}", host->host,
                             options_.has_flags ? advice("it", "--allow-host", host->host) : "")};
}

std::optional<Refusal> Gate::check_origin(const RequestHead& head, const RequestTarget& target,
                                          Admission& admission) const {
  if (!head.origin) return std::nullopt;
  const std::string host = target.host ? *target.host : head.host.value_or("");
  if (!is_same_origin(*head.origin, host)) {
    const auto is_listed = [&](const std::string& origin) { return origin == "*" || origin == *head.origin; };
    if (!std::ranges::any_of(options_.origins, is_listed)) {
      return Refusal{403, kForbidden, "origin_not_allowed",
                     fmt::format("pages of {} may not use this server{}", shown(*head.origin),
                                 options_.has_flags ? advice("them", "--cors", shown(*head.origin)) : "")};
    }
    admission.origin = head.origin;
  }
  // A form of any page can post text without asking first, so only a type that must be asked for is taken.
  if (head.method == "POST" && !(head.content_type && is_json_type(*head.content_type))) {
    return Refusal{415, kInvalid, "unsupported_media_type", "pages must send their requests as application/json"};
  }
  return std::nullopt;
}

std::optional<Refusal> Gate::check_body(const RequestHead& head) const {
  if (head.transfer_encoding && head.is_http_1_0) {
    // A proxy that knows HTTP/1.0 only would find the end of the request elsewhere.
    return Refusal{400, kInvalid, "bad_request", "HTTP/1.0 has no transfer encodings; send a Content-Length"};
  }
  if (head.transfer_encoding && !same_letters(*head.transfer_encoding, "chunked")) {
    return Refusal{501, kInvalid, "unsupported_transfer_encoding",
                   "of the transfer encodings only \"chunked\" is read"};
  }
  if (head.content_encoding && !same_letters(*head.content_encoding, "identity")) {
    return Refusal{415, kInvalid, "unsupported_content_encoding",
                   "send the body uncompressed, without Content-Encoding"};
  }
  if (head.expect && !same_letters(*head.expect, "100-continue")) {
    return Refusal{417, kInvalid, "unsupported_expectation", "of the expectations only \"100-continue\" is known"};
  }
  return std::nullopt;
}

// Bodies are what requests take memory with. Whoever needs no key, or no body, gets none.
std::optional<Refusal> Gate::check_length(const RequestHead& head, Admission& admission) const {
  admission.may_have_body = head.method == "POST" && !is_open(admission.path);
  if (admission.may_have_body || head.content_length.value_or(0) <= kMostUnaskedBody) return std::nullopt;
  return Refusal{
      413, kInvalid, "request_too_large",
      fmt::format("{} {} takes no body of {} bytes", head.method, shown(admission.path), *head.content_length)};
}

bool Gate::is_open(const std::string& path) const {
  return std::ranges::find(options_.open_paths, path) != options_.open_paths.end();
}

std::optional<Refusal> Gate::check_key(const RequestHead& head, Admission& admission) const {
  if (keys_.empty() || is_open(admission.path)) return std::nullopt;
  std::string_view key;
  if (head.authorization) key = bearer_key(*head.authorization).value_or("");
  if (key.empty() && head.api_key) key = *head.api_key;
  if (key.empty()) {
    return Refusal{401, "authentication_error", "missing_api_key",
                   "this server asks for an API key: send it as \"Authorization: Bearer KEY\""};
  }
  if (auto name = keys_.find(key)) {
    admission.key = std::move(*name);
    return std::nullopt;
  }
  return Refusal{401, "authentication_error", "invalid_api_key", "the API key is not one of this server's"};
}

void add_cors_headers(std::vector<std::pair<std::string, std::string>>& headers, const std::string& origin) {
  headers.emplace_back("access-control-allow-origin", origin);
  headers.emplace_back("access-control-expose-headers", "x-request-id, retry-after");
  headers.emplace_back("vary", "origin");
}

}  // namespace ballast::cli
