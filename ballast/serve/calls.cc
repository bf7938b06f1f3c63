#include "ballast/serve/calls.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <utility>

#include "ballast/base/counter_random.h"
#include "ballast/io/guard.h"
#include "ballast/serve/prepare.h"
#include "ballast/serve/text_answer.h"

namespace ballast::serve {

namespace {

Refusal stopping_refusal() {
  return {.status = 503, .message = "the server is stopping and takes no new requests", .retry_after = 5};
}

std::variant<Ticket, Refusal> take_ticket(ServiceState& state, Call& call, const std::string& model, uint64_t places) {
  if (call.is_refused_as_new) return stopping_refusal();
  auto key = call.key_place ? std::move(call.key_place) : KeyLimit::take(state.keys, call.request.key);
  if (!key) return key_refusal(state);
  auto lease = state.table.acquire(model, places);
  if (auto* refusal = std::get_if<Refusal>(&lease)) return std::move(*refusal);
  return Ticket{std::get<Lease>(std::move(lease)), std::move(*key)};
}

// What a request asks for, from its arrival to its turn. It may be large, and a client that leaves takes it along.
template <typename T>
class HeldAsk {
 public:
  explicit HeldAsk(T ask) : ask_(std::move(ask)) {}
  // nullopt: it was taken before.
  std::optional<T> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(ask_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<T> ask_;
};

// Where a request has no seed: another one each time.
uint64_t next_seed(ServiceState& state) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return counter_random(static_cast<uint64_t>(now), state.seeds.fetch_add(1));
}

// Answers even where the work is dropped unrun.
class ShortCall {
 public:
  ShortCall(std::shared_ptr<AnswerSink> sink, Dialect dialect, Ticket ticket, std::shared_ptr<ServiceMetrics> metrics)
      : sink_(std::move(sink)), dialect_(dialect), ticket_(std::move(ticket)), metrics_(std::move(metrics)) {}
  ~ShortCall() { give({Refusal{.status = 503, .message = "the server is out of memory", .retry_after = 5}}); }
  ShortCall(const ShortCall&) = delete;
  ShortCall& operator=(const ShortCall&) = delete;

  void give(std::variant<HttpAnswer, Refusal> answer) {
    if (is_given_) return;
    is_given_ = true;
    const auto* refusal = std::get_if<Refusal>(&answer);
    ++(refusal != nullptr ? metrics_->refused : metrics_->answers);
    ticket_.reset();  // first: whoever has the answer may ask again at once
    sink_->send(refusal != nullptr ? to_answer(*refusal, dialect_) : std::get<HttpAnswer>(std::move(answer)));
  }
  std::atomic<bool> left = false;

 private:
  std::shared_ptr<AnswerSink> sink_;
  Dialect dialect_;
  std::optional<Ticket> ticket_;
  std::shared_ptr<ServiceMetrics> metrics_;
  bool is_given_ = false;
};

}  // namespace

Leave send(Call& call, HttpAnswer answer) {
  call.key_place.reset();
  call.sink->send(std::move(answer));
  return {};
}

Leave send_json(Call& call, std::string body) { return send(call, json_answer(std::move(body))); }

Leave refuse(ServiceState& state, Call& call, const Refusal& refusal) {
  ++(refusal.status == 429 ? state.metrics->refused_as_busy : state.metrics->refused);
  return send(call, to_answer(refusal, call.dialect));
}

Refusal key_refusal(const ServiceState& state) {
  return {.status = 429,
          .message = fmt::format("this API key has {} requests running or waiting, as many as it may at a time",
                                 state.options.most_per_key),
          .code = "key_limit",
          .retry_after = 1};
}

Leave start_text(ServiceState& state, Call& call, TextAsk ask, std::unique_ptr<TextWriter> writer) {
  const uint64_t places = ask.choices * (ask.is_chat ? 1 : ask.prompts.size());
  auto taken = take_ticket(state, call, ask.model, places);
  if (const auto* refusal = std::get_if<Refusal>(&taken)) return refuse(state, call, *refusal);
  Ticket ticket = std::get<Ticket>(std::move(taken));
  ModelHost& host = ticket.lease.host();
  auto answer = std::make_shared<TextAnswer>(call.sink, std::move(writer), std::move(ticket), host.inbox(),
                                             state.metrics, state.options.most_unsent, call.arrival);
  const uint64_t seed = next_seed(state);
  auto held = std::make_shared<HeldAsk<TextAsk>>(std::move(ask));
  // The host is there as long as the answer holds its place.
  host.post([answer, held, seed, &options = state.options](OpenModel* model, const Refusal* why_not) {
    const std::optional<TextAsk> ask = held->take();
    if (!ask || answer->has_left()) {
      answer->drop();
      return;
    }
    if (why_not != nullptr) {
      answer->fail(*why_not);
      return;
    }
    if (const auto refusal = prepare_text(*model, options, *ask, seed, answer)) answer->fail(*refusal);
  });
  return [weak = std::weak_ptr(answer), held = std::move(held)] {
    if (const auto left = weak.lock()) left->leave();
    held->take();
  };
}

Leave start_short_work(ServiceState& state, Call& call, const std::string& model, ShortWork work) {
  auto taken = take_ticket(state, call, model, 1);
  if (const auto* refusal = std::get_if<Refusal>(&taken)) return refuse(state, call, *refusal);
  Ticket ticket = std::get<Ticket>(std::move(taken));
  ModelHost& host = ticket.lease.host();
  auto pending = std::make_shared<ShortCall>(call.sink, call.dialect, std::move(ticket), state.metrics);
  auto held = std::make_shared<HeldAsk<ShortWork>>(std::move(work));
  host.post([pending, held](OpenModel* open, const Refusal* why_not) {
    const std::optional<ShortWork> asked = held->take();
    if (why_not != nullptr) pending->give(*why_not);
    else if (!asked || pending->left) pending->give(Refusal{.status = 503, .message = "the client has left"});
    else pending->give((*asked)(*open, pending->left));
  });
  return [weak = std::weak_ptr(pending), held = std::move(held)] {
    if (const auto call_left = weak.lock()) call_left->left = true;
    held->take();
  };
}

}  // namespace ballast::serve
