#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "ballast/engine/shared_engine.h"
#include "bindings/c/text_object.h"

namespace ballast::c {

namespace {

struct EngineRequest {
  EngineRequest(RequestId number, TextStream text, ballast_engine_callback told, void* user_data)
      : id(number), stream(std::move(text)), callback(told), user(user_data) {}

  const RequestId id;
  std::mutex telling;  // of whoever tells its events, and of what follows
  TextStream stream;
  bool is_over = false;
  const ballast_engine_callback callback;
  void* const user;
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

// Tokens of an engine as text, told to whoever submitted the request: by a thread that waits for this request, or by
// the next step.
class EngineObject {
 public:
  EngineObject(std::shared_ptr<TextModelObject> model, std::unique_ptr<Engine> engine)
      : model_(std::move(model)), engine_(std::move(engine)) {}

  const TextModel& model() const { return model_->model; }
  Result<RequestId> submit(Request request, const Generation& generation, ballast_engine_callback callback, void* user);
  Status cancel(RequestId id) { return engine_.cancel(id); }
  // Whether anything is left to do.
  Result<bool> step();
  // `is_open` is asked now and then: false ends the waiting.
  template <typename IsOpen>
  Status wait(RequestId id, const IsOpen& is_open);
  EngineCounters counters() { return engine_.counters(); }

 private:
  class Inside;
  Result<Inside> enter();
  void tell_what_is_there(EngineRequest& request);
  void tell(EngineRequest& request, const EngineEvent& event);
  void tell_token(EngineRequest& request, const EngineEvent& event);
  void end(EngineRequest& request, ballast_finish finish, const std::optional<Error>& error);
  Result<std::shared_ptr<EngineRequest>> find(RequestId id);
  std::vector<std::shared_ptr<EngineRequest>> open_requests();
  bool is_anything_left();

  std::shared_ptr<TextModelObject> model_;  // what the engine runs on
  SharedEngine engine_;
  std::mutex steps_;                                              // of whoever makes a step and tells what it gave
  std::mutex mutex_;                                              // of what follows
  std::map<RequestId, std::shared_ptr<EngineRequest>> requests_;  // whose end was not told
  std::set<std::thread::id> inside_;                              // that step or wait
};

// A thread that steps or waits. A callback that did so again might wait for itself, or two for each other.
class EngineObject::Inside {
 public:
  explicit Inside(EngineObject& engine) : engine_(&engine) {}
  Inside(Inside&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)) {}
  Inside& operator=(Inside&&) = delete;
  ~Inside() {
    if (engine_ == nullptr) return;
    const std::lock_guard lock(engine_->mutex_);
    engine_->inside_.erase(std::this_thread::get_id());
  }

 private:
  EngineObject* engine_;
};

Result<EngineObject::Inside> EngineObject::enter() {
  const std::lock_guard lock(mutex_);
  if (inside_.insert(std::this_thread::get_id()).second) return Inside(*this);
  return make_error(ErrorCode::kInvalidArgument,
                    "a callback called the engine that it was called from: it may submit and cancel, but not run, step "
                    "or wait");
}

// The lock is held until the request is known here too, so that no step says meanwhile that nothing is left.
Result<RequestId> EngineObject::submit(Request request, const Generation& generation, ballast_engine_callback callback,
                                       void* user) {
  TextStream stream = model().make_stream(generation.stops);
  const std::lock_guard lock(mutex_);
  BALLAST_TRY(const RequestId id, engine_.submit(std::move(request)));
  requests_.emplace(id, std::make_shared<EngineRequest>(id, std::move(stream), callback, user));
  return id;
}

Result<std::shared_ptr<EngineRequest>> EngineObject::find(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto known = requests_.find(id);
  if (known != requests_.end()) return known->second;
  return make_error(ErrorCode::kNotFound, "there is no request " + std::to_string(id) + ": it is over");
}

std::vector<std::shared_ptr<EngineRequest>> EngineObject::open_requests() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<EngineRequest>> open;
  for (const auto& [id, request] : requests_) open.push_back(request);
  return open;
}

// What another thread tells is left to that thread.
bool EngineObject::is_anything_left() {
  const auto open = open_requests();
  const auto is_free = [](const auto& request) {
    return std::unique_lock(request->telling, std::try_to_lock).owns_lock();
  };
  return std::ranges::any_of(open, is_free) || !engine_.is_idle();
}

Result<bool> EngineObject::step() {
  BALLAST_TRY(const Inside inside, enter());
  const std::lock_guard lock(steps_);
  BALLAST_CHECK(engine_.step());
  for (const auto& request : open_requests()) {
    const std::unique_lock telling(request->telling, std::try_to_lock);
    if (telling.owns_lock()) tell_what_is_there(*request);
  }
  return is_anything_left();
}

template <typename IsOpen>
Status EngineObject::wait(RequestId id, const IsOpen& is_open) {
  constexpr std::chrono::milliseconds kLookEvery(50);
  BALLAST_TRY(const Inside inside, enter());
  BALLAST_TRY(const auto request, find(id));
  const std::lock_guard telling(request->telling);
  if (request->is_over) return find(id).error();  // told by a step meanwhile
  while (!request->is_over) {
    if (!is_open()) return make_error(ErrorCode::kCancelled, "the engine was closed");
    BALLAST_TRY(const auto event, engine_.wait(id, kLookEvery));
    if (event) tell(*request, *event);
  }
  return {};
}

void EngineObject::tell_what_is_there(EngineRequest& request) {
  while (!request.is_over) {
    const auto event = engine_.take(request.id);
    if (!event) return;
    tell(request, *event);
  }
}

// Without any lock but the request's own: callbacks submit and cancel.
void EngineObject::tell(EngineRequest& request, const EngineEvent& event) {
  if (event.kind == EngineEvent::Kind::kToken) tell_token(request, event);
  else end(request, finish_of(event.reason), event.error);
}

void EngineObject::tell_token(EngineRequest& request, const EngineEvent& event) {
  const auto text = request.stream.next(event.token.id);
  ballast_engine_event told = {};
  told.request = request.id;
  told.text = text ? to_text(*text) : ballast_text{"", 0};
  told.token = event.token.id;
  told.log_probability = event.token.log_probability;
  const bool is_over = !text || request.stream.stopped();
  if (is_over) engine_.drop(request.id);
  if (request.callback != nullptr && text) request.callback(request.user, &told);
  if (!text) end(request, BALLAST_FINISH_FAILED, text.error());
  else if (is_over) end(request, BALLAST_FINISH_STOP_TEXT, std::nullopt);
}

void EngineObject::end(EngineRequest& request, ballast_finish finish, const std::optional<Error>& error) {
  request.is_over = true;
  // Whoever asks for it learns that it is over only when that was told.
  const auto forget = [this](const EngineRequest* over) {
    const std::lock_guard lock(mutex_);
    requests_.erase(over->id);
  };
  const std::unique_ptr<const EngineRequest, decltype(forget)> forgotten(&request, forget);
  const auto rest = request.stream.finish();
  ballast_engine_event told = {};
  told.request = request.id;
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
    BALLAST_TRY(const Generation generation, given_generation(options, model, model.generate_options()));
    BALLAST_CHECK(check_for_engine(options, generation));
    BALLAST_TRY(Request made, model.make_request(text, generation.options));
    made.priority = generation.priority;
    BALLAST_TRY(const RequestId id, object->submit(std::move(made), generation, callback, user));
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
ballast_error* ballast_engine_wait(ballast_engine* engine, uint64_t request) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(engine));
    return object->wait(request, [&] { return use(engine).has_value(); });
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
