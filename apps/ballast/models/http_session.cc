#include "apps/ballast/models/http_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/interrupt.h"

namespace ballast::cli {

namespace {

constexpr int kMostRedirects = 10;
constexpr int kMostAttempts = 5;              // without a byte of progress
constexpr uint64_t kLongestWaitSeconds = 60;  // that a server may ask for

bool is_redirect(const HttpHead& head) {
  constexpr long kStatuses[] = {301, 302, 303, 307, 308};
  return std::ranges::find(kStatuses, head.status) != std::end(kStatuses) && !head.header("location").empty();
}

bool is_worth_another_try(const HttpHead& head) {
  constexpr long kStatuses[] = {408, 425, 429, 500, 502, 503, 504};
  return std::ranges::find(kStatuses, head.status) != std::end(kStatuses);
}

// False where the wait was interrupted.
bool wait_seconds(uint64_t seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (interrupted()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return !interrupted();
}

class TextBody final : public ResumableBody {
 public:
  TextBody(std::string& text, size_t most) : text_(text), most_(most) {}

  Status begin(const HttpHead&) override {
    text_.clear();
    return {};
  }
  Status write(ByteSpan bytes) override {
    if (bytes.size() > most_ - text_.size()) {
      return make_error(ErrorCode::kCorrupt, fmt::format("the response is longer than {} bytes", most_));
    }
    text_ += as_text(bytes);
    return {};
  }
  uint64_t received() const override { return 0; }
  Status restart() override { return {}; }

 private:
  std::string& text_;
  size_t most_;
};

}  // namespace

struct HttpSession::Work {
  Url url;
  std::vector<std::string> headers;
  ResumableBody* body = nullptr;  // null: a HEAD request
  std::string_view until;
};

Result<HttpAnswer> HttpSession::head(const Url& url, std::string_view until) {
  return run({.url = url, .headers = {}, .body = nullptr, .until = until});
}

Result<HttpAnswer> HttpSession::get_text(const Url& url, const std::vector<std::string>& headers, size_t most,
                                         std::string& text) {
  TextBody body(text, most);
  return run({.url = url, .headers = headers, .body = &body, .until = {}});
}

Result<HttpAnswer> HttpSession::get(const Url& url, ResumableBody& body) {
  return run({.url = url, .headers = {}, .body = &body, .until = {}});
}

bool HttpSession::may_talk_to(const Url& url) const {
  if (url.scheme == "https") return true;
  return url.scheme == "http" && home_.scheme == "http" &&
         (url.host == home_.host || (url.is_loopback() && home_.is_loopback()));
}

// A server that is hijacked or merely confused must not lead us to files, to other protocols, or from an encrypted
// connection to an open one.
Result<Url> HttpSession::redirect_target(const Url& from, std::string_view location) const {
  auto to = resolve_url(from, location);
  const bool loses_encryption = from.scheme == "https" && to && to->scheme != "https";
  if (to && may_talk_to(*to) && !loses_encryption) return to;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} redirects to {}, which is refused: only https is followed", from.origin(),
                                shorten(printable(location), 100)));
}

HttpOutcome HttpSession::follow(const Work& work, Url& url) {
  HttpOutcome outcome;
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    HttpRequest request{
        .url = url, .head_only = work.body == nullptr, .headers = work.headers, .from = 0, .body = work.body};
    if (work.body != nullptr) request.from = work.body->received();
    if (!authorization_.empty() && url.is_same_origin(home_)) {
      request.headers.push_back("Authorization: " + authorization_);
    }
    outcome = client_.send(request);
    if (outcome.failure || !is_redirect(outcome.head)) return outcome;
    if (!work.until.empty() && !outcome.head.header(work.until).empty()) return outcome;
    auto next = redirect_target(url, outcome.head.header("location"));
    if (!next) {
      outcome.failure = std::move(next).error();
      return outcome;
    }
    url = std::move(*next);
  }
  outcome.failure = make_error(ErrorCode::kIo, fmt::format("{}: more than {} redirects", url.origin(), kMostRedirects));
  return outcome;
}

Result<HttpAnswer> HttpSession::run(const Work& work) {
  if (!may_talk_to(work.url)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: only https is allowed there", work.url.origin()));
  }
  was_unreachable_ = false;
  for (int attempt = 1;; ++attempt) {
    const uint64_t before = work.body == nullptr ? 0 : work.body->received();
    Url url = work.url;
    HttpOutcome outcome = follow(work, url);
    const uint64_t after = work.body == nullptr ? 0 : work.body->received();
    if (after > before) attempt = 1;
    was_unreachable_ = outcome.is_unreachable;
    // A name that does not resolve is most likely mistyped; in the middle of a download it is a network that comes
    // back.
    const bool is_transient = outcome.is_transient || (outcome.is_unreachable && after > 0);
    if (outcome.failure && (!is_transient || attempt >= kMostAttempts)) return *outcome.failure;
    if (!outcome.failure && outcome.head.status == 416 && after > 0) {  // what is here does not fit what is there
      BALLAST_CHECK(work.body->restart());
      continue;
    }
    if (!outcome.failure && (!is_worth_another_try(outcome.head) || attempt >= kMostAttempts)) {
      return HttpAnswer{std::move(outcome.head), std::move(url)};
    }
    const uint64_t backoff = after > before ? 0 : uint64_t{1} << (attempt - 1);
    const uint64_t seconds = outcome.head.number("retry-after").value_or(backoff);
    if (seconds > kLongestWaitSeconds) {
      return make_error(ErrorCode::kIo,
                        fmt::format("{}: responded with {} and asks to wait {} seconds; try again later", url.origin(),
                                    outcome.head.status, seconds));
    }
    if (!wait_seconds(seconds)) return make_error(ErrorCode::kCancelled, "interrupted");
  }
}

}  // namespace ballast::cli
