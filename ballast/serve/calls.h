// A request on its way to a model, and what all kinds of requests do there.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ballast/serve/metrics.h"
#include "ballast/serve/model_table.h"
#include "ballast/serve/openai_text.h"
#include "ballast/serve/service.h"
#include "ballast/serve/text_ask.h"
#include "ballast/serve/writer.h"

namespace ballast::serve {

struct ServiceState {
  explicit ServiceState(ServiceOptions given)
      : options(std::move(given)), keys(std::make_shared<KeyLimit>(options.most_per_key)), table(options) {}

  const ServiceOptions options;
  std::shared_ptr<ServiceMetrics> metrics = std::make_shared<ServiceMetrics>();
  std::shared_ptr<KeyLimit> keys;
  std::atomic<bool> refuses_new = false;
  std::atomic<bool> is_loading = options.preloads;
  std::atomic<uint64_t> seeds = 0;
  // What clients are told of a model's age. It stays the same, as clients notice a model that changes by it.
  const uint64_t start_seconds = unix_seconds();
  const std::string start_timestamp = timestamp_now();
  ModelTable table;
};

struct Call {
  HttpRequest request;
  std::shared_ptr<AnswerSink> sink;
  Dialect dialect = Dialect::kOpenAi;
  // What follows is of the request's arrival, since it may wait in line before it is read.
  std::chrono::steady_clock::time_point arrival = std::chrono::steady_clock::now();
  bool is_refused_as_new = false;                 // the server was stopping
  std::optional<KeyLimit::Place> key_place = {};  // where it waits; nullopt: it is taken with that of the model

  // When its time is over; nullopt: never.
  std::optional<std::chrono::steady_clock::time_point> deadline(const ServiceOptions& options) const {
    return options.deadline ? std::optional(arrival + *options.deadline) : std::nullopt;
  }
};

// What is to be called if the client leaves; see Answerer.
using Leave = std::function<void()>;

// Nothing goes on behind it.
Leave send(Call& call, HttpAnswer answer);
Leave send_json(Call& call, std::string body);
Leave refuse(ServiceState& state, Call& call, const Refusal& refusal);
Refusal key_refusal(const ServiceState& state);

// Puts a text in line. The writer answers the call.
Leave start_text(ServiceState& state, Call& call, TextAsk ask, std::unique_ptr<TextWriter> writer);

// Short work with an open model, on its thread. The whole answer is what the work returns; `left` tells it that nobody
// wants it any more.
using ShortWork = std::function<std::variant<HttpAnswer, Refusal>(OpenModel& model, const std::atomic<bool>& left)>;
Leave start_short_work(ServiceState& state, Call& call, const std::string& model, ShortWork work);

}  // namespace ballast::serve
