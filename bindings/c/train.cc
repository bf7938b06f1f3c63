#include <exception>

#include "ballast/training/prepare_run.h"
#include "ballast/training/train_event.h"
#include "bindings/c/boundary.h"

namespace ballast::c {

namespace {

// Tells a callback what happens, and ends the run when that or the switch says so.
class RunListener final : public RunObserver {
 public:
  RunListener(ballast_train_callback callback, void* user, std::shared_ptr<CancelObject> cancel)
      : callback_(callback), user_(user), cancel_(std::move(cancel)) {}

  // What a callback throws must not unwind a run that has threads: it ends as an error, and is thrown again behind it.
  Status on_event(const TrainEvent& event) override {
    if (callback_ == nullptr) return {};
    try {
      const std::string json = to_json_line(event);
      if (!callback_(user_, json.c_str(), json.size())) wants_stop_ = true;
      return {};
    } catch (...) {
      thrown_ = std::current_exception();
      return make_error(ErrorCode::kCancelled, "a callback threw an exception");
    }
  }
  bool wants_stop() override { return wants_stop_ || is_cancelled(); }
  bool is_cancelled() const { return cancel_ != nullptr && cancel_->requested; }
  void rethrow() const {
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  }

 private:
  ballast_train_callback callback_;
  void* user_;
  std::shared_ptr<CancelObject> cancel_;
  std::exception_ptr thrown_;
  bool wants_stop_ = false;
};

PrepareOptions prepare_options(const ballast_train_options& given, const RunListener& listener) {
  PrepareOptions options;
  options.backend = text_or_empty(given.backend);
  options.overwrite = given.overwrite;
  options.checkpoints = !given.no_checkpoints;
  options.progress = [&listener](const ProgressUpdate&) { return !listener.is_cancelled(); };
  options.on_note = [](std::string_view text) { log(BALLAST_LOG_INFO, std::string(text)); };
  options.on_complaint = [](std::string_view text) { log(BALLAST_LOG_WARNING, std::string(text)); };
  return options;
}

Status train(const TrainConfig& config, const ballast_train_options& given, ballast_buffer** result) {
  BALLAST_TRY(auto cancel, given_cancel(given.cancel));
  RunListener listener(given.callback, given.user, std::move(cancel));
  BALLAST_TRY(PreparedRun run, prepare_run(config, prepare_options(given, listener)));
  const auto outcome = complete_run(run, listener, given.overwrite);
  listener.rethrow();
  if (!outcome) return outcome.error();
  if (listener.is_cancelled() && !outcome->end.finished) return make_error(ErrorCode::kCancelled, "interrupted");
  if (result != nullptr) *result = hand_out_text(to_json(run, *outcome));
  return {};
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_train(const char* config, const ballast_train_options* options, ballast_buffer** result) {
  return call([&]() -> Status {
    if (result != nullptr) *result = nullptr;
    BALLAST_CHECK(need(config, "the path of the configuration"));
    BALLAST_TRY(const ballast_train_options given, given_options(options));
    BALLAST_TRY(const auto overrides, given_texts(given.overrides, given.override_count, "an override"));
    BALLAST_TRY(const TrainConfig settings, load_train_config(config, overrides));
    return train(settings, given, result);
  });
}
ballast_error* ballast_train_json(const char* json, size_t size, const ballast_train_options* options,
                                  ballast_buffer** result) {
  return call([&]() -> Status {
    if (result != nullptr) *result = nullptr;
    BALLAST_TRY(const std::string_view text, given_text(json, size, "the configuration"));
    BALLAST_TRY(const ballast_train_options given, given_options(options));
    BALLAST_TRY(const auto overrides, given_texts(given.overrides, given.override_count, "an override"));
    BALLAST_TRY(const TrainConfig settings, parse_train_config(text, "the configuration", overrides));
    return train(settings, given, result);
  });
}

}  // extern "C"
