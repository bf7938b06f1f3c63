// What the server looks at before it reads a request's body: plain values, so that rules need no HTTP library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ballast::cli {

struct RequestHead {
  std::string method;
  std::string target;  // as it came: a path, with what follows a question mark, or a whole URL
  bool is_http_1_0 = false;
  size_t headers = 0;
  size_t hosts = 0;  // how many of them are Host
  std::optional<std::string> host{};
  std::optional<std::string> origin{};
  std::optional<std::string> authorization{};
  std::optional<std::string> api_key{};  // x-api-key
  std::optional<std::string> content_type{};
  std::optional<std::string> content_encoding{};
  std::optional<std::string> transfer_encoding{};
  std::optional<uint64_t> content_length{};
  std::optional<std::string> expect{};
  std::optional<std::string> if_none_match{};
  std::optional<std::string> range{};
  std::optional<std::string> if_range{};
  std::optional<std::string> requested_method{};   // access-control-request-method
  std::optional<std::string> requested_headers{};  // access-control-request-headers
  bool requests_private_network = false;
};

struct RequestTarget {
  std::string path;                 // "/v1/models", or "*"
  std::optional<std::string> host;  // of a whole URL, which then counts instead of the header
};

// nullopt for what is neither a path, nor a URL of http, nor "*".
std::optional<RequestTarget> split_target(std::string_view target);

bool same_letters(std::string_view a, std::string_view b);  // in any case

}  // namespace ballast::cli
