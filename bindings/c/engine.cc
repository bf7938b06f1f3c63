#include <deque>
#include <unordered_map>

#include "bindings/c/text_object.h"

namespace ballast::c {

namespace {

struct EngineRequest {
  TextStream stream;
  ballast_engine_callback callback;
  void* user;
};

ballast_finish finish_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kMaxTokens: return BALLAST_FINISH_MAX_TOKENS;
    case FinishReason::kStopToken: return BALLAST_FINISH_STOP_TOKEN;
    case FinishReason::kContextFull: return BALLAST_FINISH_CONTEXT_FULL;
    case FinishReason::kCancelled:
    case FinishReason::kDeadline: return BALLAST_FINISH_CANCELLED;
    case FinishReason::kFailed: break;
  }
  return BALLAST_FINISH_FAILED;
}

// Tokens of an engine as text, told to whoever submitted the request.
class EngineObject {
 public:
  EngineObject(std::shared_ptr<TextModelObject> model, std::unique_ptr<Engine> engine)
      : model_(std::move(model)), engine_(std::move(engine)) {}

  const TextModel& model() const { return model_->model; }
  Result<RequestId> submit(Request request, EngineRequest told);
  Status cancel(RequestId id);
  Result<bool> step();
  EngineCounters counters();

 private:
  // The engine is for one thread at a time, and a lock goes to whoever is quick: a thread that computes one pass after
  // another lets those pass that wait with something to do.
  class Turn {
   public:
    explicit Turn(EngineObject& object) : lock_(object.mutex_, std::defer_lock) {
      ++object.ahead_;
      lock_.lock();
      --object.ahead_;
    }

   private:
    std::unique_lock<std::mutex> lock_;
  };

  Status compute();
  void tell(const EngineEvent& event);
  void tell_token(EngineRequest& request, const EngineEvent& event);
  void end(RequestId id, EngineRequest& request, ballast_finish finish, const std::optional<Error>& error);
  std::shared_ptr<EngineRequest> find(RequestId id);

  std::shared_ptr<TextModelObject> model_;  // what the engine runs on
  OneCall passes_;
  std::deque<EngineEvent> events_;  // of whoever makes a pass; what a callback that threw has left is told next time
  std::atomic<int> ahead_ = 0;
  std::mutex mutex_;  // of what follows
  std::unique_ptr<Engine> engine_;
  std::unordered_map<RequestId, std::shared_ptr<EngineRequest>> requests_;
};

Result<RequestId> EngineObject::submit(Request request, EngineRequest told) {
  auto shared = std::make_shared<EngineRequest>(std::move(told));
  const Turn turn(*this);
  requests_.reserve(requests_.size() + 1);
  BALLAST_TRY(const RequestId id, engine_->submit(std::move(request)));
  requests_.emplace(id, std::move(shared));
  return id;
}

Status EngineObject::cancel(RequestId id) {
  const Turn turn(*this);
  return engine_->cancel(id);
}

EngineCounters EngineObject::counters() {
  const Turn turn(*this);
  return engine_->counters();
}

std::shared_ptr<EngineRequest> EngineObject::find(RequestId id) {
  const Turn turn(*this);
  const auto known = requests_.find(id);
  return known != requests_.end() ? known->second : nullptr;
}

Status EngineObject::compute() {
  while (ahead_ > 0) std::this_thread::yield();
  const std::lock_guard lock(mutex_);
  BALLAST_TRY(std::vector<EngineEvent> events, engine_->step());
  for (EngineEvent& event : events) events_.push_back(std::move(event));
  return {};
}

Result<bool> EngineObject::step() {
  BALLAST_TRY(const auto held, passes_.enter());
  if (events_.empty()) BALLAST_CHECK(compute());
  while (!events_.empty()) {
    const EngineEvent event = std::move(events_.front());
    events_.pop_front();
    tell(event);
  }
  const Turn turn(*this);
  return !engine_->is_idle();
}

// Without the lock: callbacks submit and cancel.
void EngineObject::tell(const EngineEvent& event) {
  const auto request = find(event.id);
  if (request == nullptr) return;  // ended by a stop text
  if (event.kind == EngineEvent::Kind::kToken) tell_token(*request, event);
  else end(event.id, *request, finish_of(event.reason), event.error);
}

void EngineObject::tell_token(EngineRequest& request, const EngineEvent& event) {
  const auto text = request.stream.next(event.token.id);
  ballast_engine_event told = {};
  told.request = event.id;
  told.text = text ? to_text(*text) : ballast_text{"", 0};
  told.token = event.token.id;
  told.log_probability = event.token.log_probability;
  const bool is_over = !text || request.stream.stopped();
  // It may have ended with this very token: then there is nothing to cancel.
  if (is_over) static_cast<void>(cancel(event.id));
  if (request.callback != nullptr && text) request.callback(request.user, &told);
  if (!text) end(event.id, request, BALLAST_FINISH_FAILED, text.error());
  else if (is_over) end(event.id, request, BALLAST_FINISH_STOP_TEXT, std::nullopt);
}

void EngineObject::end(RequestId id, EngineRequest& request, ballast_finish finish, const std::optional<Error>& error) {
  {
    const Turn turn(*this);
    requests_.erase(id);
  }
  const auto rest = request.stream.finish();
  ballast_engine_event told = {};
  told.request = id;
  told.text = rest ? to_text(*rest) : ballast_text{"", 0};
  told.finish = rest ? finish : BALLAST_FINISH_FAILED;
  if (request.callback == nullptr) return;
  const std::unique_ptr<ballast_error, void (*)(ballast_error*)> failure(
      error ? ballast::c::to_c(*error) : (rest ? nullptr : ballast::c::to_c(rest.error())), ballast_error_free);
  told.error = failure.get();
  request.callback(request.user, &told);
}

Result<EngineOptions> engine_options(const ballast_engine_options* options) {
  BALLAST_TRY(const ballast_engine_options given, given_options(options));
  EngineOptions made;
  made.most_bytes = given.most_bytes;
  if (given.most_rows != 0) made.most_rows = given.most_rows;
  if (given.most_sequences != 0) made.most_sequences = given.most_sequences;
  if (given.half_cache) made.cache_dtype = DType::kF16;
  made.share_prefixes = !given.no_prefix_sharing;
  return made;
}

Status check_for_engine(const ballast_generate_options* options, const Generation& generation) {
  if (generation.cancel != nullptr) {
    return make_error(ErrorCode::kInvalidArgument, "a request of an engine is cancelled with ballast_engine_cancel");
  }
  if (options != nullptr && generation.options.cache_dtype != DType::kF32) {
    return make_error(ErrorCode::kInvalidArgument, "half_cache is an option of the engine, not of a request");
  }
  return {};
}

}  // namespace

template <>
struct HandleTraits<ballast_engine> {
  using Object = EngineObject;
  static constexpr HandleKind kKind = HandleKind::kEngine;
  static constexpr const char* kName = "engine";
};

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_engine_create(const ballast_text_model* model, const ballast_engine_options* options,
                                     ballast_engine** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(model));
    BALLAST_TRY(const EngineOptions given, engine_options(options));
    BALLAST_TRY(auto engine, object->model.start_engine(given));
    *out = hand_out<ballast_engine>(std::make_shared<EngineObject>(object, std::move(engine)));
    return {};
  });
}
ballast_error* ballast_engine_submit(ballast_engine* engine, const char* prompt, size_t size,
                                     const ballast_generate_options* options, ballast_engine_callback callback,
                                     void* user, uint64_t* request) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(engine));
    BALLAST_TRY(const std::string_view text, given_text(prompt, size, "the prompt"));
    const TextModel& model = object->model();
    BALLAST_TRY(const Generation generation, given_generation(options, model.generate_options()));
    BALLAST_CHECK(check_for_engine(options, generation));
    BALLAST_TRY(Request made, model.make_request(text, generation.options));
    made.priority = generation.priority;
    BALLAST_TRY(const RequestId id,
                object->submit(std::move(made), {model.make_stream(generation.stops), callback, user}));
    if (request != nullptr) *request = id;
    return {};
  });
}
ballast_error* ballast_engine_cancel(ballast_engine* engine, uint64_t request) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(engine));
    return object->cancel(request);
  });
}
ballast_error* ballast_engine_step(ballast_engine* engine, bool* more) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(engine));
    BALLAST_TRY(const bool is_left, object->step());
    if (more != nullptr) *more = is_left;
    return {};
  });
}
ballast_error* ballast_engine_run(ballast_engine* engine) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(engine));
    for (bool is_left = true; is_left;) {
      BALLAST_TRY(is_left, object->step());
      // By a callback, or by another thread.
      if (is_left && !use(engine)) return make_error(ErrorCode::kCancelled, "the engine was closed");
    }
    return {};
  });
}
ballast_error* ballast_engine_get_counters(const ballast_engine* engine, ballast_engine_counters* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(engine));
    const EngineCounters now = object->counters();
    ballast_engine_counters counters = {};
    counters.waiting = now.waiting;
    counters.running = now.running;
    counters.finished = now.finished;
    counters.cancelled = now.cancelled;
    counters.failed = now.failed;
    counters.generated_tokens = now.generated_tokens;
    counters.prompt_tokens = now.prompt_tokens;
    counters.reused_tokens = now.reused_tokens;
    return give(counters, out);
  });
}
void ballast_engine_close(ballast_engine* engine) { drop(engine); }

}  // extern "C"
