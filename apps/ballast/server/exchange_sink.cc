#include "apps/ballast/server/exchange_sink.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace ballast::cli {

void ExchangeSink::send(serve::HttpAnswer answer) {
  const size_t bytes = answer.body.size();
  push({.kind = AnswerEvent::Kind::kSend, .answer = std::move(answer)}, bytes);
}

void ExchangeSink::begin(serve::HttpAnswer head) {
  const size_t bytes = head.body.size();
  push({.kind = AnswerEvent::Kind::kBegin, .answer = std::move(head)}, bytes);
}

void ExchangeSink::write(std::string piece) {
  const size_t bytes = piece.size();
  push({.kind = AnswerEvent::Kind::kPiece, .piece = std::move(piece)}, bytes);
}

void ExchangeSink::end() { push({.kind = AnswerEvent::Kind::kEnd}, 0); }

void ExchangeSink::push(AnswerEvent event, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (detached_) return;
    waiting_ += bytes;
    events_.push_back(std::move(event));
    if (std::exchange(woken_, true)) return;
  }
  boost::asio::post(io_, [self = shared_from_this()] { self->deliver(); });
}

void ExchangeSink::deliver() {
  std::vector<AnswerEvent> events;
  size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
    bytes = waiting_;
    woken_ = false;
  }
  if (events.empty()) return;
  if (const auto receiver = receiver_.lock()) receiver->take(std::move(events));
  const std::lock_guard lock(mutex_);
  if (!detached_) waiting_ -= bytes;  // only now: in between, they count twice rather than not at all
}

void ExchangeSink::detach() {
  const std::lock_guard lock(mutex_);
  detached_ = true;
  events_.clear();
  waiting_ = 0;
  in_socket_queue_ = 0;
}

}  // namespace ballast::cli
