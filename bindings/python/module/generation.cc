#include "bindings/python/module/generation.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/python/module/errors.h"

namespace ballast::python {

namespace {

// How long a wait for another thread's step lasts before signals are looked for.
constexpr std::chrono::milliseconds kPatience{20};

std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kMaxTokens: return "length";
    case FinishReason::kStopToken: return "stop";
    case FinishReason::kContextFull: return "context_full";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kDeadline: return "timeout";
    case FinishReason::kFailed: return "failed";
  }
  return "failed";
}

void settle(SamplerOptions& sampling, const Wishes& wishes) {
  sampling.temperature = wishes.temperature.value_or(sampling.temperature);
  sampling.top_k = wishes.top_k.value_or(sampling.top_k);
  sampling.top_p = wishes.top_p.value_or(sampling.top_p);
  sampling.min_p = wishes.min_p.value_or(sampling.min_p);
  if (wishes.repetition_penalty) {
    sampling.repetition_penalty = *wishes.repetition_penalty;
    sampling.repetition_window = kUsualRepetitionWindow;
  }
  sampling.seed = wishes.seed;
  sampling.log_probabilities = wishes.log_probabilities;
}

GenerateOptions settled(const GenerateOptions& defaults, const Wishes& wishes, const ChatFormat* chat) {
  GenerateOptions options = defaults;
  options.max_tokens = wishes.max_tokens.value_or(options.max_tokens);
  settle(options.sampling, wishes);
  if (wishes.ignore_end) options.stop_tokens.clear();
  const auto add = [&](const std::vector<TokenId>& more) {
    options.stop_tokens.insert(options.stop_tokens.end(), more.begin(), more.end());
  };
  add(wishes.stop_tokens);
  if (chat != nullptr && !wishes.ignore_end) add(chat->turn_ends());
  return options;
}

nb::object as_tuple(const std::optional<Written>& written) {
  if (!written) return nb::none();
  return nb::make_tuple(written->text, written->id, written->log_probability);
}

}  // namespace

Generation::Generation(ModelHandle model, SharedEngine& engine, RequestId id, TextStream stream,
                       const Tokenizer* skips_special, size_t prompt_tokens)
    : model_(std::move(model)),
      engine_(engine),
      id_(id),
      stream_(std::move(stream)),
      skips_special_(skips_special),
      prompt_tokens_(prompt_tokens) {}

Generation::~Generation() {
  if (model_->is_here()) engine_.drop(id_);
}

// A lock that another thread held when the process was forked would never open again.
void Generation::check_place() const {
  if (model_->is_here()) return;
  PyErr_SetString(PyExc_RuntimeError,
                  "this text was begun before fork(), in the parent process: begin it again in this one");
  throw nb::python_error();
}

std::optional<Written> Generation::next() {
  check_place();
  const NativeCall call;
  for (;;) {
    Result<std::optional<Written>> written = std::optional<Written>();
    bool over = false;
    {
      const GilReleased released;
      const std::lock_guard lock(mutex_);
      over = !finish_reason_.empty();
      if (!over) written = poll();
    }
    if (over) return std::nullopt;
    NativeCall::stay_away_at_the_end();
    if (!written) raise_error(written.error());
    if (*written) return std::move(*written);
    if (PyErr_CheckSignals() != 0) {
      cancel();
      throw nb::python_error();
    }
  }
}

std::optional<std::string> Generation::next_text() {
  for (;;) {
    auto written = next();
    if (!written) return std::nullopt;
    if (!written->text.empty()) return std::move(written->text);
  }
}

Result<std::optional<Written>> Generation::poll() {
  if (NativeCall::ending()) return std::optional<Written>();
  if (model_->is_closed()) {
    end("cancelled");
    return make_error(ErrorCode::kInvalidArgument, "the model is closed");
  }
  auto event = engine_.wait(id_, kPatience);
  if (!event) {
    end("failed");
    return std::move(event).error();
  }
  if (!*event) return std::optional<Written>();
  auto taken = take(**event);
  if (!taken) end("failed");
  return taken;
}

// The end gives an empty token only where text was held back until then.
Result<std::optional<Written>> Generation::take(const EngineEvent& event) {
  Written written;
  if (event.kind == EngineEvent::Kind::kFinished) {
    finish_reason_ = finish_name(event.reason);
    if (event.reason == FinishReason::kStopToken) stop_token_ = event.token.id;
    if (event.error) return *event.error;
    BALLAST_TRY(written.text, stream_.finish());
    text_ += written.text;
    return written.text.empty() ? std::optional<Written>() : std::optional(std::move(written));
  }
  written.id = event.token.id;
  written.log_probability = event.token.log_probability;
  tokens_.push_back(written.id);
  const bool hidden = skips_special_ != nullptr && skips_special_->is_special(written.id);
  if (!hidden) BALLAST_CHECK(assign(written.text, stream_.next(written.id)));
  text_ += written.text;
  if (stream_.stopped()) end("stop");
  return std::optional(std::move(written));
}

void Generation::end(std::string_view reason) {
  if (!finish_reason_.empty()) return;
  finish_reason_ = reason;
  engine_.drop(id_);
}

void Generation::cancel() {
  check_place();
  const GilReleased released;
  const std::lock_guard lock(mutex_);
  end("cancelled");
}

std::vector<TokenId> Generation::tokens() const {
  check_place();
  const GilReleased released;
  const std::lock_guard lock(mutex_);
  return tokens_;
}

std::string Generation::text() const {
  check_place();
  const GilReleased released;
  const std::lock_guard lock(mutex_);
  return text_;
}

std::string Generation::finish_reason() const {
  check_place();
  const GilReleased released;
  const std::lock_guard lock(mutex_);
  return finish_reason_;
}

std::optional<TokenId> Generation::stop_token() const {
  check_place();
  const GilReleased released;
  const std::lock_guard lock(mutex_);
  return stop_token_;
}

std::unique_ptr<Generation> start_generation(const ModelHandle& model, std::vector<TokenId> prompt,
                                             const Wishes& wishes, const ChatFormat* chat) {
  const NativeCall call;
  auto made = [&]() -> Result<std::unique_ptr<Generation>> {
    const GilReleased released;
    BALLAST_TRY(const TextModel* text, model->text());
    BALLAST_TRY(SharedEngine * engine, model->engine());
    const GenerateOptions& defaults = chat != nullptr ? text->chat_options().generate : text->generate_options();
    const size_t prompt_tokens = prompt.size();
    GenerateOptions options = settled(defaults, wishes, chat);
    if (wishes.max_total) {
      if (prompt_tokens >= *wishes.max_total)
        return make_error(ErrorCode::kInvalidArgument, "the prompt has " + std::to_string(prompt_tokens) +
                                                           " tokens, which leaves none of the " +
                                                           std::to_string(*wishes.max_total) + " in total");
      options.max_tokens = std::min(options.max_tokens, *wishes.max_total - prompt_tokens);
    }
    if (wishes.constraint) {
      BALLAST_TRY(options.constraint, text->constrain(*wishes.constraint));
    }
    BALLAST_TRY(Request request, text->make_request(std::move(prompt), options));
    if (wishes.timeout_seconds) {
      constexpr double kForever = 1e9;  // seconds; more would not fit a clock
      const std::chrono::duration<double> timeout(std::clamp(*wishes.timeout_seconds, 0.0, kForever));
      request.deadline =
          std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout);
    }
    BALLAST_TRY(const RequestId id, engine->submit(std::move(request)));
    std::vector<std::string> stops = wishes.stop;
    if (chat != nullptr) stops.insert(stops.end(), chat->stop_texts().begin(), chat->stop_texts().end());
    const auto tokenizer = text->tokenizer();
    const Tokenizer* skips = chat != nullptr && tokenizer ? *tokenizer : nullptr;
    return std::make_unique<Generation>(model, *engine, id, text->make_stream(std::move(stops)), skips, prompt_tokens);
  }();
  return unwrap(std::move(made));
}

void bind_generation(nb::module_& module) {
  nb::class_<Generation>(module, "Generation")
      .def("next_token", [](Generation& text) { return as_tuple(text.next()); })
      .def("next_text", &Generation::next_text)
      .def("cancel", &Generation::cancel)
      .def_prop_ro("token_ids", &Generation::tokens)
      .def_prop_ro("text", &Generation::text)
      .def_prop_ro("finish_reason", &Generation::finish_reason)
      .def_prop_ro("stop_token_id", &Generation::stop_token)
      .def_prop_ro("prompt_tokens", &Generation::prompt_tokens);
}

}  // namespace ballast::python
