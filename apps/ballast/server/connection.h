// One client's connection: reads requests, has them answered one after the other, and notices when the client leaves.
#pragma once

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "apps/ballast/server/address_places.h"
#include "apps/ballast/server/answer_text.h"
#include "apps/ballast/server/exchange_sink.h"
#include "apps/ballast/server/gate.h"
#include "apps/ballast/server/limits.h"
#include "apps/ballast/server/request_body.h"
#include "apps/ballast/server/site.h"

namespace ballast::cli {

class Connection;

// What all connections share. Everything here belongs to the one thread that runs `io`.
struct ConnectionHub {
  boost::asio::io_context io{1};
  ServerLimits limits;
  Gate gate;
  std::shared_ptr<Site> site{};  // asked before the answerer; null: there is none
  serve::Answerer* answerer = nullptr;
  std::function<void(std::string_view)> log;  // of requests; empty: none is kept
  std::function<void(int status)> on_refusal{};
  bool draining = false;
  uint64_t body_bytes = 0;  // of requests that are being read or answered
  size_t answering = 0;     // requests
  std::unordered_set<std::shared_ptr<Connection>> connections{};
  AddressPlaces addresses{};
  std::array<char, size_t{64} << 10> scratch{};  // what any of them reads into
  uint64_t id_prefix = 0, ids = 0;

  std::string next_request_id();
};

class Connection final : public AnswerReceiver, public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // `group`: whose place it has among the connections of an address; empty: nobody's. `is_extra`: there are too many,
  // so requests of this one are only told that.
  Connection(Socket socket, ConnectionHub& hub, HostRule rule, std::string group, bool is_extra);
  ~Connection() override;

  void start();
  // No more requests: closes now where none is being answered, and behind the answer otherwise.
  void drain();
  void take(std::vector<AnswerEvent> events) override;

 private:
  using Parser = boost::beast::http::request_parser<RequestBody>;
  using Code = boost::system::error_code;
  enum class State : unsigned char { kHead, kBody, kAnswering, kLingering, kClosed };

  // Reading.
  void wait_readable();
  size_t room_to_read() const;
  void read();
  void end_of_input(const Code& code);
  void start_request(std::chrono::milliseconds time);
  void advance();
  bool parse_some();
  bool skip_empty_lines();
  void on_head();
  void on_request();
  uint64_t body_limit() const;
  bool count_body();
  void refuse_malformed(const Code& code);

  // Answering.
  void begin_answer();
  void refuse(const Refusal& refusal);
  void answer_now(serve::HttpAnswer answer);
  void answer_from_site(SiteAnswer found);
  void put_head(serve::HttpAnswer& answer, Framing framing, std::optional<uint64_t> length = {});
  void put(std::string bytes);
  void take_one(AnswerEvent& event);
  void flush();
  bool read_body();
  void flush_later();
  void wait_writable();
  void finish();
  void log_request(int status, std::string_view note = "") const;
  void release();

  // Ending.
  void leave(std::string_view why);
  void linger();
  void close();

  // One deadline at a time. The timer is set anew only for an earlier one: deadlines mostly move back.
  void set_deadline(std::chrono::milliseconds after);
  void clear_deadline() { deadline_.reset(); }
  void wait_for_deadline();
  void on_deadline();

  Socket socket_;
  ConnectionHub& hub_;
  const HostRule rule_;
  const std::string group_;
  const bool is_extra_;
  State state_ = State::kHead;
  bool waiting_to_read_ = false, waiting_to_write_ = false;
  bool peer_ended_ = false;  // it sends no more

  // The request.
  std::string inbox_;  // bytes that are not parsed yet
  std::optional<Parser> parser_;
  size_t empty_lines_ = 0;  // before the request
  bool began_ = false;      // a byte of the request is there
  Admission admission_;
  std::string method_;
  SiteRequest site_request_;
  uint64_t counted_body_ = 0;
  uint64_t discarded_ = 0;

  // Its answer.
  std::shared_ptr<ExchangeSink> sink_;
  std::function<void()> cancel_;
  std::string request_id_;
  std::chrono::steady_clock::time_point started_;
  Framing framing_ = Framing::kLength;
  int status_ = 0;
  bool keep_alive_ = true, head_sent_ = false, ended_ = false;
  bool counted_answer_ = false;
  std::deque<std::string> outbox_;
  size_t outbox_at_ = 0;  // of its first text, what is written
  size_t outbox_bytes_ = 0;
  std::unique_ptr<BodySource> body_;  // what is still to be read for the outbox
  uint64_t body_left_ = 0;

  boost::asio::steady_timer timer_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool timer_runs_ = false;
};

}  // namespace ballast::cli
