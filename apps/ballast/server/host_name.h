// Names of machines as they stand in addresses, in the header Host and in the header Origin.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ballast::cli {

struct HostPort {
  std::string host;  // in lower case; IPv6 without its brackets
  std::string port;  // digits; empty where none is given
};

// "localhost:8080", "10.0.0.1", "[::1]:80". nullopt for what is no name of a machine.
std::optional<HostPort> parse_host(std::string_view text);

// "localhost", names below it, 127.0.0.0/8 and ::1: nobody else can make these mean another machine.
bool is_loopback_host(std::string_view host);
bool is_ip_address(std::string_view host);

// Whether a page of `origin` ("https://chat.example:8443") comes from the machine and port that `host` names, with
// either scheme: behind a proxy that speaks TLS, only the origin says https.
bool is_same_origin(std::string_view origin, std::string_view host);

}  // namespace ballast::cli
