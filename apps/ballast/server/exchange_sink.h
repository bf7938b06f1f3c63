// The way back of an answer: from the threads that make it to the one that has the sockets.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ballast/serve/exchange.h"

namespace ballast::cli {

struct AnswerEvent {
  enum class Kind : unsigned char { kSend, kBegin, kPiece, kEnd };
  Kind kind = Kind::kSend;
  serve::HttpAnswer answer{};
  std::string piece{};
};

// Takes answers on the thread of the io_context.
class AnswerReceiver {
 public:
  virtual ~AnswerReceiver() = default;
  virtual void take(std::vector<AnswerEvent> events) = 0;
};

// Events gather under a lock, and the thread with the sockets is woken once for all that came until it looks. The
// io_context must outlive every thread that writes.
class ExchangeSink final : public serve::AnswerSink, public std::enable_shared_from_this<ExchangeSink> {
 public:
  ExchangeSink(boost::asio::io_context& io, std::weak_ptr<AnswerReceiver> receiver)
      : io_(io), receiver_(std::move(receiver)) {}

  void send(serve::HttpAnswer answer) override;
  void begin(serve::HttpAnswer head) override;
  void write(std::string piece) override;
  void end() override;
  size_t unsent() const override { return waiting_ + in_socket_queue_; }

  // The rest is called by the receiver, on its thread.
  // Hands over what has come so far.
  void deliver();
  void set_in_socket_queue(size_t bytes) { in_socket_queue_ = bytes; }
  // The client is gone: what comes from now on is dropped.
  void detach();

 private:
  void push(AnswerEvent event, size_t bytes);

  boost::asio::io_context& io_;
  const std::weak_ptr<AnswerReceiver> receiver_;
  std::mutex mutex_;
  std::vector<AnswerEvent> events_;
  bool woken_ = false;
  bool detached_ = false;
  std::atomic<size_t> waiting_{0};
  std::atomic<size_t> in_socket_queue_{0};
};

}  // namespace ballast::cli
