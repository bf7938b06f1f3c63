// HTTP and HTTPS by libcurl: one request at a time, nothing followed, nothing tried again. See http_session.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/ballast/models/http_url.h"
#include "ballast/base/bytes.h"
#include "ballast/base/result.h"

namespace ballast::cli {

// What precedes the body of an answer.
struct HttpHead {
  long status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case

  // Empty where there is none.
  std::string_view header(std::string_view name) const;
  // A header that is a whole number.
  std::optional<uint64_t> number(std::string_view name) const;
};

// Receives the body of an answer with a status of 200 to 299; others are dropped.
class HttpBody {
 public:
  virtual ~HttpBody() = default;
  // Once, before any byte.
  virtual Status begin(const HttpHead& head) = 0;
  virtual Status write(ByteSpan bytes) = 0;
};

struct HttpRequest {
  Url url;
  bool head_only = false;
  std::vector<std::string> headers;  // "Name: value"
  uint64_t from = 0;                 // asks for the bytes from here on
  HttpBody* body = nullptr;
};

struct HttpOutcome {
  HttpHead head;
  std::optional<Error> failure;  // there was no whole answer, or the body was not taken
  bool is_transient = false;     // the failure is one that may be gone a little later
  bool is_unreachable = false;   // there was no connection at all
};

class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpOutcome send(const HttpRequest& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ballast::cli
