#include "apps/ballast/server/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <iterator>
#include <utility>

#include "apps/ballast/output/text.h"
#include "ballast/serve/refusal.h"

namespace ballast::cli {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

// Of requests behind the one that is being answered: more stay in the socket until it is done.
constexpr size_t kMostAhead = size_t{16} << 10;
constexpr size_t kMostBuffers = 16;
// Of a body that is read while it is sent: so much is in memory at a time, and after so many pieces at once it is the
// turn of others.
constexpr size_t kBodyPiece = size_t{256} << 10;
constexpr size_t kMostPieces = 4;
constexpr size_t kMostEmptyLines = 4;  // some clients end a body with an empty line too many
// A close with unread bytes resets the connection, and the client may lose the answer. So what it still sends is read
// and dropped for a while.
constexpr std::chrono::milliseconds kLingerTime{2000};

std::string_view text_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

// A header that comes twice is the list of both, which is what HTTP makes of it: whoever looks at it sees what a proxy
// saw.
template <typename Fields>
std::optional<std::string> header_value(const Fields& fields, boost::beast::string_view name) {
  const auto [begin, end] = fields.equal_range(name);
  if (begin == end) return std::nullopt;
  std::string value(text_of(begin->value()));
  for (auto at = std::next(begin); at != end; ++at) value.append(", ").append(text_of(at->value()));
  return value;
}

template <typename Message>
size_t header_count(const Message& message) {
  return static_cast<size_t>(std::distance(message.begin(), message.end()));
}

template <typename Parser>
RequestHead read_head(const Parser& parser) {
  const auto& message = parser.get();
  RequestHead head;
  head.method = text_of(message.method_string());
  head.target = text_of(message.target());
  head.is_http_1_0 = message.version() < 11;
  head.headers = header_count(message);
  head.hosts = message.count("host");
  head.host = header_value(message, "host");
  head.origin = header_value(message, "origin");
  head.authorization = header_value(message, "authorization");
  head.api_key = header_value(message, "x-api-key");
  head.content_type = header_value(message, "content-type");
  head.content_encoding = header_value(message, "content-encoding");
  head.transfer_encoding = header_value(message, "transfer-encoding");
  if (const auto length = parser.content_length()) head.content_length = *length;
  head.expect = header_value(message, "expect");
  head.if_none_match = header_value(message, "if-none-match");
  head.range = header_value(message, "range");
  head.if_range = header_value(message, "if-range");
  head.requested_method = header_value(message, "access-control-request-method");
  head.requested_headers = header_value(message, "access-control-request-headers");
  head.requests_private_network = message.count("access-control-request-private-network") != 0;
  return head;
}

Refusal stopping_refusal() {
  return {503, "unavailable_error", "server_stopping", "the server is stopping and takes no more requests"};
}

}  // namespace

std::string ConnectionHub::next_request_id() { return fmt::format("req_{:016x}{:08x}", id_prefix, ++ids); }

Connection::Connection(Socket socket, ConnectionHub& hub, HostRule rule, std::string group, bool is_extra)
    : socket_(std::move(socket)),
      hub_(hub),
      rule_(rule),
      group_(std::move(group)),
      is_extra_(is_extra),
      timer_(hub.io) {}

Connection::~Connection() = default;

void Connection::start() {
  start_request(hub_.limits.header_time);
  wait_readable();
}

// ---------------------------------------------------------------- reading

// A wait is always pending, also while a request is being answered: that is how a client that leaves is noticed.
void Connection::wait_readable() {
  if (state_ == State::kClosed || waiting_to_read_ || peer_ended_ || room_to_read() == 0) return;
  waiting_to_read_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const Code& code) {
    self->waiting_to_read_ = false;
    if (!code) self->read();
  });
}

// Many bytes at a time are for those who may send a body: what the others say stays in memory, or in the socket.
size_t Connection::room_to_read() const {
  if (state_ == State::kLingering || (state_ == State::kBody && admission_.may_have_body)) return hub_.scratch.size();
  if (state_ != State::kAnswering) return kMostAhead;
  return kMostAhead - std::min(inbox_.size(), kMostAhead);
}

void Connection::read() {
  if (state_ == State::kClosed || room_to_read() == 0) return;
  Code code;
  const size_t count = socket_.read_some(asio::buffer(hub_.scratch, room_to_read()), code);
  if (code == asio::error::would_block || code == asio::error::try_again) return wait_readable();
  if (code) return end_of_input(code);
  if (state_ == State::kLingering) {
    discarded_ += count;
    return discarded_ > hub_.limits.body_bytes ? close() : wait_readable();
  }
  inbox_.append(hub_.scratch.data(), count);
  advance();
  wait_readable();
}

// The client closed the connection, or its half of it; which of both only a write could tell. An answer that is whole
// is sent in any case, one that is still being made is given up.
void Connection::end_of_input(const Code& code) {
  peer_ended_ = true;
  if (state_ != State::kAnswering) return close();
  if (code != asio::error::eof) return leave("the client is gone");
  if (!ended_ && sink_) sink_->deliver();
  if (state_ == State::kAnswering && !ended_ && !body_) leave("the client left");
}

void Connection::start_request(std::chrono::milliseconds time) {
  state_ = State::kHead;
  began_ = false;
  empty_lines_ = 0;
  admission_ = {};
  method_.clear();
  site_request_ = {};
  keep_alive_ = true;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(hub_.limits.header_bytes));
  parser_->body_limit(hub_.limits.body_bytes);
  set_deadline(time);
}

void Connection::advance() {
  while ((state_ == State::kHead || state_ == State::kBody) && parse_some()) {
  }
}

// Whether there may be more to do without more bytes.
bool Connection::parse_some() {
  if (state_ == State::kHead && !began_) {
    if (!skip_empty_lines() || inbox_.empty()) return false;
    began_ = true;
    started_ = std::chrono::steady_clock::now();
    set_deadline(hub_.limits.header_time);
  }
  if (state_ == State::kBody && parser_->is_done()) {
    // Chunks may be followed by more headers.
    if (auto refusal = hub_.gate.check_count(header_count(parser_->get()))) refuse(*refusal);
    else on_request();
    return false;
  }
  if (inbox_.empty()) return false;
  Code code;
  const size_t used = parser_->put(asio::const_buffer(inbox_.data(), inbox_.size()), code);
  inbox_.erase(0, used);
  const bool needs_more = code == http::error::need_more;
  if (code && !needs_more) {
    refuse_malformed(code);
    return false;
  }
  if (state_ == State::kHead && parser_->is_header_done()) {
    on_head();
    return true;
  }
  if (state_ == State::kBody && !count_body()) return false;
  // A chunk's own header has no limit in the parser.
  if (needs_more && inbox_.size() > hub_.limits.header_bytes) {
    refuse({431, "invalid_request_error", "headers_too_large", "a line of the request is too long"});
    return false;
  }
  return !needs_more || parser_->is_done();
}

// Those before a request. False: there are too many, and the connection ends.
bool Connection::skip_empty_lines() {
  size_t end = 0;
  for (; empty_lines_ <= kMostEmptyLines && inbox_.compare(end, 2, "\r\n") == 0; end += 2) ++empty_lines_;
  inbox_.erase(0, end);
  if (empty_lines_ <= kMostEmptyLines) return true;
  started_ = std::chrono::steady_clock::now();
  refuse({400, "invalid_request_error", "bad_request", "there are only empty lines where a request should begin"});
  return false;
}

void Connection::on_head() {
  const RequestHead head = read_head(*parser_);
  method_ = head.method;
  site_request_ = {.path = {},
                   .range = head.range.value_or(""),
                   .if_range = head.if_range.value_or(""),
                   .if_none_match = head.if_none_match.value_or("")};
  // Behind a coding that is not read, nobody knows where the next request begins.
  keep_alive_ = parser_->keep_alive() && (!head.transfer_encoding || parser_->chunked());
  state_ = State::kBody;
  if (auto refusal = hub_.gate.check(head, rule_, admission_)) return refuse(*refusal);
  if (hub_.draining) return refuse(stopping_refusal());
  if (is_extra_) {
    return refuse({503, "unavailable_error", "too_many_connections",
                   "the server has as many connections as it takes, from everybody or from this address; try again "
                   "later"});
  }
  if (parser_->is_done()) return;
  parser_->body_limit(body_limit());
  parser_->eager(true);
  set_deadline(hub_.limits.body_time);
  if (!admission_.wants_continue || !inbox_.empty()) return;
  put("HTTP/1.1 100 Continue\r\n\r\n");
  flush();
}

uint64_t Connection::body_limit() const {
  return admission_.may_have_body ? hub_.limits.body_bytes : std::min(hub_.limits.body_bytes, kMostUnaskedBody);
}

bool Connection::count_body() {
  const uint64_t size = parser_->get().body().size();
  hub_.body_bytes += size - counted_body_;
  counted_body_ = size;
  if (hub_.body_bytes <= hub_.limits.all_body_bytes) return true;
  refuse({503, "unavailable_error", "out_of_memory", "the server holds too many large requests; try again later"});
  return false;
}

void Connection::on_request() {
  if (admission_.answer) return answer_now(std::move(*admission_.answer));
  const bool is_reading = method_ == "GET" || method_ == "HEAD";
  site_request_.path = admission_.path;
  if (auto found = is_reading && hub_.site ? hub_.site->answer(site_request_) : std::nullopt)
    return answer_from_site(std::move(*found));
  begin_answer();
  sink_ = std::make_shared<ExchangeSink>(hub_.io, weak_from_this());
  serve::HttpRequest request{.method = method_ == "HEAD" ? "GET" : method_,
                             .path = admission_.path,
                             .body = std::move(parser_->get().body()),
                             .key = admission_.key};
  // What it sends at once comes as an event of its own, so `cancel_` is in place before any of it is seen.
  cancel_ = hub_.answerer->answer(std::move(request), sink_);
}

void Connection::refuse_malformed(const Code& code) {
  constexpr std::string_view kType = "invalid_request_error";
  if (code == http::error::body_limit) {
    return refuse({413, kType, "request_too_large",
                   fmt::format("the request's body has more than {} bytes{}", body_limit(),
                               admission_.may_have_body ? "; whoever runs the server can allow more with --max-body"
                                                        : ", and no answer here needs one")});
  }
  if (code == http::error::header_limit) {
    return refuse({431, kType, "headers_too_large",
                   fmt::format("the request's headers have more than {} bytes", hub_.limits.header_bytes)});
  }
  refuse({400, kType, "bad_request", fmt::format("this is not a request of HTTP/1.1: {}", code.message())});
}

// ---------------------------------------------------------------- answering

void Connection::begin_answer() {
  state_ = State::kAnswering;
  request_id_ = hub_.next_request_id();
  framing_ = Framing::kLength;
  status_ = 0;
  head_sent_ = ended_ = false;
  ++hub_.answering;
  counted_answer_ = true;
  clear_deadline();
}

// Of a body that was not read, nobody knows where the next request begins.
void Connection::refuse(const Refusal& refusal) {
  if (hub_.on_refusal) hub_.on_refusal(refusal.status);
  keep_alive_ = keep_alive_ && parser_->is_done() && !hub_.draining && !is_extra_;
  answer_now(error_answer(refusal, admission_.path));
}

void Connection::answer_now(serve::HttpAnswer answer) {
  begin_answer();
  AnswerEvent event{.kind = AnswerEvent::Kind::kSend, .answer = std::move(answer)};
  take_one(event);
  flush();
}

void Connection::answer_from_site(SiteAnswer found) {
  if (!found.body) return answer_now(std::move(found.answer));
  begin_answer();
  put_head(found.answer, Framing::kLength, found.body->size());
  if (method_ != "HEAD" && found.body->size() > 0) {
    body_ = std::move(found.body);
    body_left_ = body_->size();
  }
  ended_ = !body_;
  flush();
}

void Connection::take(std::vector<AnswerEvent> events) {
  for (AnswerEvent& event : events) take_one(event);
  if (sink_) sink_->set_in_socket_queue(outbox_bytes_);
  flush();
}

void Connection::take_one(AnswerEvent& event) {
  if (state_ != State::kAnswering || ended_) return;
  const bool only_head = method_ == "HEAD";
  switch (event.kind) {
    case AnswerEvent::Kind::kSend:
      if (head_sent_) return;
      put_head(event.answer, Framing::kLength);
      if (!only_head && has_body(status_)) put(std::move(event.answer.body));
      ended_ = true;
      break;
    case AnswerEvent::Kind::kBegin:
      if (head_sent_) return;
      put_head(event.answer, parser_->get().version() < 11 ? Framing::kClosing : Framing::kChunks);
      if (!only_head) put(piece_text(event.answer.body, framing_));
      break;
    case AnswerEvent::Kind::kPiece:
      if (!head_sent_ || only_head) return;
      if (outbox_bytes_ > hub_.limits.unsent_bytes) return leave("the client reads too slowly");
      put(piece_text(event.piece, framing_));
      break;
    case AnswerEvent::Kind::kEnd:
      if (!head_sent_) return;
      if (!only_head) put(std::string(end_text(framing_)));
      ended_ = true;
      break;
  }
}

void Connection::put_head(serve::HttpAnswer& answer, Framing framing, std::optional<uint64_t> length) {
  head_sent_ = true;
  framing_ = framing;
  status_ = answer.status;
  if (hub_.draining || framing == Framing::kClosing) keep_alive_ = false;
  if (admission_.origin) add_cors_headers(answer.headers, *admission_.origin);
  if (serve::dialect_of(admission_.path) == serve::Dialect::kAnthropic)
    answer.headers.emplace_back("request-id", request_id_);
  put(head_text(answer, {.framing = framing, .keep_alive = keep_alive_, .request_id = request_id_, .length = length}));
}

void Connection::put(std::string bytes) {
  if (bytes.empty()) return;
  outbox_bytes_ += bytes.size();
  outbox_.push_back(std::move(bytes));
}

void Connection::flush() {
  if (state_ == State::kClosed || waiting_to_write_) return;
  for (size_t pieces = 0; !outbox_.empty() || body_;) {
    if (outbox_.empty()) {
      if (pieces++ == kMostPieces) return flush_later();
      if (!read_body()) return;
    }
    std::vector<asio::const_buffer> buffers;
    for (size_t i = 0; i < std::min(outbox_.size(), kMostBuffers); ++i)
      buffers.push_back(asio::buffer(outbox_[i]) + (i == 0 ? outbox_at_ : 0));
    Code code;
    size_t count = socket_.write_some(buffers, code);
    if (code == asio::error::would_block || code == asio::error::try_again) return wait_writable();
    if (code) return leave("the client is gone");
    outbox_bytes_ -= count;
    for (outbox_at_ += count; !outbox_.empty() && outbox_at_ >= outbox_.front().size(); outbox_.pop_front())
      outbox_at_ -= outbox_.front().size();
    if (sink_) sink_->set_in_socket_queue(outbox_bytes_);
  }
  if (state_ != State::kAnswering) return;
  clear_deadline();
  if (ended_) finish();
}

// The next piece of a body that is read while it is sent. False where that failed, and the connection is closed.
bool Connection::read_body() {
  auto piece = body_->next(static_cast<size_t>(std::min<uint64_t>(body_left_, kBodyPiece)));
  if (!piece) {
    constexpr int kFailed = 500;  // for the log; the client was told another status
    log_request(kFailed, piece.error().message);
    close();
    return false;
  }
  body_left_ -= piece->size();
  put(std::move(*piece));
  if (body_left_ == 0) {
    body_.reset();
    ended_ = true;
  }
  return true;
}

// A client that takes everything at once must not keep the others waiting.
void Connection::flush_later() {
  clear_deadline();
  waiting_to_write_ = true;
  asio::post(hub_.io, [self = shared_from_this()] {
    self->waiting_to_write_ = false;
    self->flush();
  });
}

void Connection::wait_writable() {
  if (sink_) sink_->set_in_socket_queue(outbox_bytes_);
  waiting_to_write_ = true;
  if (state_ == State::kAnswering) set_deadline(hub_.limits.write_time);
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const Code& code) {
    self->waiting_to_write_ = false;
    if (!code) self->flush();
  });
}

void Connection::finish() {
  log_request(status_);
  release();
  if (!keep_alive_ || peer_ended_ || hub_.draining) return linger();
  inbox_.shrink_to_fit();
  start_request(hub_.limits.idle_time);
  // Later, not here: requests that were sent ahead must not pile up on the stack.
  asio::post(hub_.io, [self = shared_from_this()] {
    self->advance();
    self->wait_readable();
  });
}

void Connection::release() {
  if (sink_) sink_->detach();
  sink_.reset();
  cancel_ = nullptr;
  body_.reset();
  hub_.body_bytes -= counted_body_;
  counted_body_ = 0;
  if (std::exchange(counted_answer_, false)) --hub_.answering;
}

void Connection::log_request(int status, std::string_view note) const {
  if (!hub_.log) return;
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - started_;
  const std::string_view path = admission_.path;
  hub_.log(fmt::format("{} {} {} {:.1f} ms{}{} {}{}{}\n", method_.empty() ? "-" : shorten(printable(method_), 20),
                       path.empty() ? "-" : shorten(printable(path), 200), status, time.count(),
                       admission_.key.empty() ? "" : " key=", printable(admission_.key), request_id_,
                       note.empty() ? "" : ": ", note));
}

// ---------------------------------------------------------------- ending

// Behind the answer's beginning there is no way to tell the client, and before it nobody to tell.
void Connection::leave(std::string_view why) {
  if (state_ == State::kAnswering) {
    constexpr int kClientClosedRequest = 499;  // as nginx writes it
    log_request(kClientClosedRequest, why);
    if (const auto cancel = std::exchange(cancel_, nullptr); cancel && !ended_) cancel();
  }
  close();
}

void Connection::linger() {
  Code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  if (peer_ended_) return close();
  state_ = State::kLingering;
  inbox_.clear();
  inbox_.shrink_to_fit();
  parser_.reset();  // with a body that no longer counts
  set_deadline(kLingerTime);
  wait_readable();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  release();
  state_ = State::kClosed;
  Code ignored;
  socket_.close(ignored);
  deadline_.reset();
  timer_.cancel();
  outbox_.clear();
  if (!group_.empty()) hub_.addresses.give(group_);
  hub_.connections.erase(self);
}

void Connection::drain() {
  if (state_ == State::kHead && !began_) close();
}

// ---------------------------------------------------------------- time

void Connection::set_deadline(std::chrono::milliseconds after) {
  deadline_ = std::chrono::steady_clock::now() + after;
  if (!timer_runs_ || *deadline_ < timer_.expiry()) wait_for_deadline();
}

void Connection::wait_for_deadline() {
  timer_.expires_at(*deadline_);  // whoever waited before is told, and is not called a second time
  timer_runs_ = true;
  timer_.async_wait([self = shared_from_this()](const Code& code) {
    if (code) return;
    self->timer_runs_ = false;
    if (!self->deadline_) return;
    if (std::chrono::steady_clock::now() < *self->deadline_) return self->wait_for_deadline();
    self->on_deadline();
  });
}

void Connection::on_deadline() {
  deadline_.reset();
  const bool is_request = (state_ == State::kHead && began_) || state_ == State::kBody;
  if (state_ == State::kAnswering) return leave("the client takes nothing");
  if (!is_request) return close();
  keep_alive_ = false;
  refuse({408, "invalid_request_error", "request_timeout", "the request did not arrive in time"});
}

}  // namespace ballast::cli
