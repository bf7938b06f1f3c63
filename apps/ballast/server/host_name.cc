#include "apps/ballast/server/host_name.h"

#include <arpa/inet.h>

#include <algorithm>

namespace ballast::cli {

namespace {

constexpr size_t kLongestHost = 255;

char lower_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_digit_character(char c) { return c >= '0' && c <= '9'; }

bool is_host_character(char c) {
  return is_digit_character(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_';
}

template <typename Address>
bool parses_as(int family, std::string_view text) {
  Address address = {};
  return ::inet_pton(family, std::string(text).c_str(), &address) == 1;
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, is_digit_character);
}

std::string_view default_port(std::string_view scheme) { return scheme == "https" ? "443" : "80"; }

}  // namespace

std::optional<HostPort> parse_host(std::string_view text) {
  if (text.empty() || text.size() > kLongestHost) return std::nullopt;
  HostPort result;
  std::string_view rest;
  if (text.front() == '[') {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    result.host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
    if (!parses_as<in6_addr>(AF_INET6, result.host)) return std::nullopt;
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    result.host = text.substr(0, colon);
    rest = text.substr(colon);
  }
  std::ranges::transform(result.host, result.host.begin(), lower_letter);
  if (text.front() != '[' && (result.host.empty() || !std::ranges::all_of(result.host, is_host_character)))
    return std::nullopt;
  if (result.host.size() > 1 && result.host.back() == '.') result.host.pop_back();  // the same name, fully qualified
  if (rest.empty()) return result;
  if (rest.front() != ':' || !is_port(rest.substr(1))) return std::nullopt;
  result.port = rest.substr(1);
  return result;
}

bool is_ip_address(std::string_view host) {
  return parses_as<in_addr>(AF_INET, host) || parses_as<in6_addr>(AF_INET6, host);
}

bool is_loopback_host(std::string_view host) {
  if (host == "localhost" || host.ends_with(".localhost") || host == "::1") return true;
  return host.starts_with("127.") && parses_as<in_addr>(AF_INET, host);
}

bool is_same_origin(std::string_view origin, std::string_view host) {
  const size_t end = origin.find("://");
  if (end == std::string_view::npos) return false;
  const std::string_view scheme = origin.substr(0, end);
  if (scheme != "http" && scheme != "https") return false;
  auto from = parse_host(origin.substr(end + 3));
  auto to = parse_host(host);
  if (!from || !to || from->host != to->host) return false;
  if (from->port.empty()) from->port = default_port(scheme);
  if (to->port.empty()) to->port = default_port(scheme);
  return from->port == to->port;
}

}  // namespace ballast::cli
