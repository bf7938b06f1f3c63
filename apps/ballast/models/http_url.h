// Addresses, read by the same parser that later connects to them, so that both see the same host.
#pragma once

#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast::cli {

struct Url {
  std::string text;         // normalised, without credentials and fragment
  std::string scheme;       // lower case
  std::string host;         // lower case
  std::string port;         // always set for http and https
  std::string path;         // begins with /
  std::string credentials;  // "user:password", decoded; empty where there are none
  std::string fragment;

  bool is_same_origin(const Url& other) const {
    return scheme == other.scheme && host == other.host && port == other.port;
  }
  // This machine itself.
  bool is_loopback() const;
  // For messages: "https://host:8080", the port only where it is unusual.
  std::string origin() const;
};

// Absolute addresses only. Control characters and the like are kInvalidArgument.
Result<Url> parse_url(std::string_view text);
// What `reference` (absolute or not) means on the page at `base`.
Result<Url> resolve_url(const Url& base, std::string_view reference);

// For one part of a path; `keep_slashes`: for several.
std::string percent_encoded(std::string_view text, bool keep_slashes);

}  // namespace ballast::cli
