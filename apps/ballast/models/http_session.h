// Requests to one server and to where it sends us: redirects with a policy, credentials for one host alone, retries.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/models/http_client.h"

namespace ballast::cli {

// A body that can be continued: where a connection broke, the rest is asked for.
class ResumableBody : public HttpBody {
 public:
  // Bytes that need not be sent again.
  virtual uint64_t received() const = 0;
  // What was received is of no use to the server: from the beginning.
  virtual Status restart() = 0;
};

// How a request ended: an answer (of any status), or an error without one.
struct HttpAnswer {
  HttpHead head;
  Url url;  // the one that answered
};

class HttpSession {
 public:
  // `authorization` ("Bearer ...", may be empty) goes to the origin of `home` and to nobody else. Plain http is spoken
  // only where the user named such a home, and only with its host or this machine.
  HttpSession(Url home, std::string authorization) : home_(std::move(home)), authorization_(std::move(authorization)) {}

  // A HEAD request. Ends at the first answer that has the header `until`, redirect or not.
  Result<HttpAnswer> head(const Url& url, std::string_view until);
  // A whole small answer, at most `most` bytes of it.
  Result<HttpAnswer> get_text(const Url& url, const std::vector<std::string>& headers, size_t most, std::string& text);
  Result<HttpAnswer> get(const Url& url, ResumableBody& body);

  // The last error was that no connection could be made.
  bool was_unreachable() const { return was_unreachable_; }

 private:
  struct Work;
  Result<HttpAnswer> run(const Work& work);
  HttpOutcome follow(const Work& work, Url& url);
  bool may_talk_to(const Url& url) const;
  Result<Url> redirect_target(const Url& from, std::string_view location) const;

  HttpClient client_;
  Url home_;
  std::string authorization_;
  bool was_unreachable_ = false;
};

}  // namespace ballast::cli
