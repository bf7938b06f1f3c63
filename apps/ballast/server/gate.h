// Which requests are let in, by what stands in their heads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ballast/server/api_keys.h"
#include "apps/ballast/server/error_answer.h"
#include "apps/ballast/server/request_head.h"

namespace ballast::cli {

// Which names of this machine a browser may have been led here by. A page of anybody's can make a name of its own mean
// 127.0.0.1 (DNS rebinding), but it cannot choose what Host says then.
enum class HostRule : unsigned char {
  kLoopback,   // localhost, 127.0.0.0/8 and ::1
  kAddresses,  // these, and addresses in digits: no name that somebody else could point here
  kAny,        // a key is asked for, or only programs can connect
};

struct GateOptions {
  std::vector<std::string> hosts{};    // that are allowed besides
  std::vector<std::string> origins{};  // of pages that may call, as "https://chat.example"; "*" is any
  uint64_t headers = 100;              // at most
  uint16_t port = 0;                   // that Host must name; 0: any, as behind a proxy
  std::vector<std::string_view> methods{"GET", "HEAD", "POST", "DELETE", "OPTIONS"};
  bool has_flags = true;  // of the program that runs the server, for more hosts and origins: refusals name them
  // Paths that need no key: whether the server is well, and the page, which holds no secrets.
  std::vector<std::string> open_paths{"/health"};
};

// Of a body that no answer needs: clients send "{}" where they have nothing to say.
inline constexpr uint64_t kMostUnaskedBody = uint64_t{4} << 10U;

// What was found out about a request that is let in.
struct Admission {
  std::string path;
  std::string key;                          // its name; empty where no keys are asked for
  std::optional<std::string> origin;        // of a page of another origin that may read the answer
  std::optional<serve::HttpAnswer> answer;  // where it needs no more: OPTIONS
  bool wants_continue = false;
  bool may_have_body = true;  // off: at most kMostUnaskedBody
};

class Gate {
 public:
  explicit Gate(GateOptions options) : options_(std::move(options)) {}
  void set_keys(ApiKeys keys) { keys_ = std::move(keys); }
  const ApiKeys& keys() const { return keys_; }

  // Gives what is wrong with the request, or fills `admission`.
  std::optional<Refusal> check(const RequestHead& head, HostRule rule, Admission& admission) const;
  // Of how many headers a request has; those behind its body count too.
  std::optional<Refusal> check_count(size_t headers) const;

 private:
  std::optional<Refusal> check_host(const RequestHead& head, const RequestTarget& target, HostRule rule) const;
  std::optional<Refusal> check_origin(const RequestHead& head, const RequestTarget& target, Admission& admission) const;
  std::optional<Refusal> check_body(const RequestHead& head) const;
  std::optional<Refusal> check_length(const RequestHead& head, Admission& admission) const;
  bool is_open(const std::string& path) const;
  std::optional<Refusal> check_key(const RequestHead& head, Admission& admission) const;

  GateOptions options_;
  ApiKeys keys_;
};

// Headers for an answer that a page of this origin may read.
void add_cors_headers(std::vector<std::pair<std::string, std::string>>& headers, const std::string& origin);

}  // namespace ballast::cli
