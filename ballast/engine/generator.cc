#include "ballast/engine/generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/engine/kv_pool.h"
#include "ballast/io/guard.h"
#include "ballast/models/model.h"

namespace ballast {

namespace {

StopReason stop_reason_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken: return StopReason::kStopToken;
    case FinishReason::kContextFull: return StopReason::kContextFull;
    default: return StopReason::kMaxTokens;
  }
}

}  // namespace

Request to_request(std::vector<TokenId> prompt, const GenerateOptions& options) {
  LogitConstraint constraint;
  if (options.constraint) constraint = options.constraint(prompt.size(), options.stop_tokens);
  return {.prompt = std::move(prompt),
          .max_tokens = options.max_tokens,
          .sampling = options.sampling,
          .stop_tokens = options.stop_tokens,
          .constraint = std::move(constraint),
          .context_shift = options.context_shift,
          .keep_past = options.kv_cache};
}

// The last token is written and not computed with, so it needs no room.
Status check_cache_capacity(const GenerateOptions& options, uint64_t prompt, uint64_t context) {
  const uint64_t capacity = options.cache_capacity, more = options.max_tokens;
  if (!options.kv_cache || capacity == 0) return {};
  if (capacity > context) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a KV cache of {} positions exceeds the model's context of {}", capacity, context));
  }
  prompt = std::min(prompt, context);
  const uint64_t most = more == 0 ? prompt : checked_add(prompt, more - 1).value_or(context);
  const uint64_t needed = std::min(most, context);
  if (capacity >= needed) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("a KV cache of {} positions is too small: a prompt of {} tokens and {} more need {}",
                                capacity, prompt, more, needed));
}

Result<Generator> Generator::start(const CausalLm& model, Context& context, std::vector<TokenId> prompt,
                                   const GenerateOptions& options, std::mutex* running) {
  return guarded([&]() -> Result<Generator> {
    // Nothing is kept for other texts: there are none, and what this one begins with anew its own past has.
    EngineOptions engine_options;
    engine_options.most_rows = Generator::kPromptPiece;
    engine_options.cache_dtype = options.cache_dtype;
    engine_options.share_prefixes = false;
    engine_options.kept_before = Generator::kTakenBack;
    BALLAST_TRY(auto engine, Engine::make(model, context, engine_options, running));
    Generator generator(options, std::move(engine));
    generator.context_length_ = model.context_length();
    if (options.kv_cache) BALLAST_CHECK(assign(generator.past_, generator.engine_->make_past()));
    BALLAST_CHECK(generator.begin(std::move(prompt)));
    return generator;
  });
}

uint64_t Generator::cache_bytes() const { return past_ ? past_->bytes() : 0; }

Status Generator::restart(std::vector<TokenId> prompt) {
  return guarded([&]() -> Status { return begin(std::move(prompt)); });
}

Status Generator::check(const Request& request) const {
  BALLAST_CHECK(engine_->check(request));
  return check_cache_capacity(options_, request.prompt.size(), context_length_);
}

// The first token is drawn here already and waits for whoever asks for it.
Status Generator::begin(std::vector<TokenId> prompt) {
  Request request = to_request(prompt, options_);
  request.keep_logits = true;
  BALLAST_CHECK(check(request));
  BALLAST_CHECK(end_request());
  request.past = past_;
  BALLAST_TRY(request_, engine_->submit(std::move(request)));
  tokens_ = std::move(prompt);
  prompt_size_ = tokens_.size();
  stop_reason_ = StopReason::kNone;
  failure_.reset();
  BALLAST_TRY(const RequestProgress progress, engine_->progress(request_));
  reused_ = progress.reused;
  BALLAST_CHECK(advance());
  logits_ = events_.front().logits;
  // What is wrong with the logits is told to whoever wants a token of them.
  if (!events_.front().error || !logits_.empty()) return {};
  failure_ = events_.front().error;
  return *failure_;
}

// Without it the next one could not have its past.
Status Generator::end_request() {
  events_.clear();
  while (request_ != 0 && !engine_->is_idle()) {
    if (!engine_->text(request_).empty()) BALLAST_CHECK(engine_->cancel(request_));
    BALLAST_CHECK(engine_->step());
  }
  request_ = 0;
  return {};
}

Status Generator::tell_prompt() {
  if (!past_) return {};  // there are no pieces
  BALLAST_TRY(const RequestProgress progress, engine_->progress(request_));
  const uint64_t known = progress.generated == 0 ? progress.reused : 0;
  const uint64_t total = progress.total - known, done = progress.computed - known;
  // What is written takes one token at a time.
  const bool is_prompt = progress.generated == 0 ? total > 1 : progress.total - progress.computed > 1;
  if (!is_prompt) return {};
  if (options_.on_prompt) options_.on_prompt(done, total);
  if (!options_.cancelled || !options_.cancelled()) return {};
  return make_error(ErrorCode::kCancelled, "interrupted while the prompt was read");
}

Status Generator::advance() {
  while (events_.empty()) {
    if (engine_->is_idle()) return make_error(ErrorCode::kInvalidArgument, "no text is being written");
    BALLAST_CHECK(tell_prompt());
    BALLAST_TRY(events_, engine_->step());
  }
  return {};
}

Result<std::optional<SampledToken>> Generator::next() {
  return guarded([&] { return next_token(); });
}

Result<std::optional<SampledToken>> Generator::next_token() {
  if (failure_) return *failure_;
  if (stop_reason_ != StopReason::kNone) return std::optional<SampledToken>();
  if (events_.empty()) BALLAST_CHECK(advance());
  if (events_.front().kind == EngineEvent::Kind::kToken) tokens_.push_back(events_.front().token.id);
  const EngineEvent event = std::move(events_.front());
  events_.erase(events_.begin());
  if (event.kind == EngineEvent::Kind::kToken) {
    logits_ = event.logits;
    return std::optional(event.token);
  }
  if (event.error) {
    failure_ = event.error;
    return *failure_;
  }
  stop_reason_ = stop_reason_of(event.reason);
  return std::optional<SampledToken>();
}

}  // namespace ballast
