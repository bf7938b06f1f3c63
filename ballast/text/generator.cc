#include "ballast/text/generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/guard.h"
#include "ballast/base/checked.h"
#include "ballast/device/host_values.h"
#include "ballast/models/token_input.h"

namespace ballast {

namespace {

// A long prompt goes through the model in pieces, so that activations do not grow with it.
constexpr size_t kPromptPiece = 512;

// The last token is written and not computed with, so it needs no room.
Status check_capacity(uint64_t capacity, uint64_t prompt, uint64_t more, uint64_t context) {
  if (capacity > context) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a KV cache of {} positions exceeds the model's context of {}", capacity, context));
  }
  const uint64_t most = more == 0 ? prompt : checked_add(prompt, more - 1).value_or(context);
  const uint64_t needed = std::min(most, context);
  if (capacity >= needed) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("a KV cache of {} positions is too small: a prompt of {} tokens and {} more need {}",
                                capacity, prompt, more, needed));
}

}  // namespace

Generator::Generator(const CausalLm& model, Context& context, std::vector<TokenId> prompt,
                     const GenerateOptions& options, std::mutex* running)
    : model_(&model),
      context_(&context),
      running_(running),
      options_(options),
      sampler_(options.sampling),
      tokens_(std::move(prompt)),
      prompt_size_(tokens_.size()) {}

Status Generator::check_prompt(const CausalLm& model, std::span<const TokenId> prompt, const GenerateOptions& options) {
  const uint64_t most = model.context_length();
  if (prompt.size() > most && !options.context_shift) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("the prompt has {} tokens, the model's context {}; shorten it, or allow its beginning to be "
                    "forgotten",
                    prompt.size(), most));
  }
  const size_t seen = std::min<size_t>(prompt.size(), most);
  BALLAST_CHECK(check_tokens(prompt.last(seen), model.vocab_size(), 0, most));
  if (!options.kv_cache || options.cache_capacity == 0) return {};
  return check_capacity(options.cache_capacity, seen, options.max_tokens, most);
}

std::unique_lock<std::mutex> Generator::take_turn() const {
  return running_ != nullptr ? std::unique_lock(*running_) : std::unique_lock<std::mutex>();
}

Result<Generator> Generator::start(const CausalLm& model, Context& context, std::vector<TokenId> prompt,
                                   const GenerateOptions& options, std::mutex* running) {
  return guarded([&]() -> Result<Generator> {
    BALLAST_CHECK(check_sampler_options(options.sampling));
    BALLAST_CHECK(check_prompt(model, prompt, options));
    Generator generator(model, context, std::move(prompt), options, running);
    BALLAST_CHECK(generator.begin());
    return generator;
  });
}

Status Generator::begin() {
  const auto turn = take_turn();
  if (options_.kv_cache) {
    KvCacheShape shape = model_->cache_shape();
    shape.dtype = options_.cache_dtype;
    BALLAST_TRY(KvCache cache, KvCache::make(shape, options_.cache_capacity));
    cache_ = std::move(cache);
  }
  return catch_up();
}

Status Generator::restart(std::vector<TokenId> prompt) {
  return guarded([&] { return begin_anew(std::move(prompt)); });
}

Status Generator::begin_anew(std::vector<TokenId> prompt) {
  const auto turn = take_turn();
  BALLAST_CHECK(check_prompt(*model_, prompt, options_));
  // A window that has moved holds other positions than a prompt from its beginning.
  const size_t known = cache_ && tokens_.size() <= model_->context_length() ? computed_ : 0;
  const auto shared = std::ranges::mismatch(prompt, std::span(tokens_).first(std::min(known, tokens_.size())));
  reused_ = static_cast<size_t>(shared.in1 - prompt.begin());
  // The last token is computed in any case: its logits are what is drawn from.
  if (reused_ == prompt.size() && reused_ > 0) --reused_;
  tokens_ = std::move(prompt);
  prompt_size_ = tokens_.size();
  stop_reason_ = StopReason::kNone;
  if (cache_) {
    cache_->truncate(reused_);
    reused_ = cache_->length();
  }
  computed_ = reused_;
  return catch_up();
}

Status Generator::compute(std::span<const TokenId> ids) {
  if (!cache_) {
    BALLAST_TRY(logits_, model_->forward_tokens(*context_, ids, CausalLm::Rows::kLast));
    return {};
  }
  cache_->expect(cache_->length() + ids.size());
  const size_t total = ids.size();
  const bool is_prompt = total > 1;
  while (!ids.empty()) {
    if (is_prompt && options_.on_prompt) options_.on_prompt(total - ids.size(), total);
    if (is_prompt && options_.cancelled && options_.cancelled()) {
      return make_error(ErrorCode::kCancelled, "interrupted while the prompt was read");
    }
    const auto piece = ids.first(std::min(ids.size(), kPromptPiece));
    BALLAST_TRY(logits_, model_->forward_cached(*context_, piece, *cache_, CausalLm::Rows::kLast));
    ids = ids.subspan(piece.size());
  }
  return {};
}

Status Generator::catch_up() {
  const std::span<const TokenId> all = tokens_;
  const uint64_t most = model_->context_length();
  if (all.size() > most) {
    // Positions count from the beginning of the window, so nothing that was cached holds any more.
    if (cache_) cache_->truncate(0);
    BALLAST_CHECK(compute(all.last(most)));
  } else {
    if (cache_ && !model_->keeps_past(cache_->length(), all.size())) cache_->truncate(0);
    BALLAST_CHECK(compute(cache_ ? all.subspan(cache_->length()) : all));
  }
  computed_ = all.size();
  return {};
}

Result<std::optional<SampledToken>> Generator::next() {
  return guarded([&] { return next_token(); });
}

Result<std::optional<SampledToken>> Generator::next_token() {
  const auto turn = take_turn();
  const auto stop = [this](StopReason reason) {
    stop_reason_ = reason;
    return std::optional<SampledToken>();
  };
  if (stop_reason_ != StopReason::kNone) return stop(stop_reason_);
  if (generated() >= options_.max_tokens) return stop(StopReason::kMaxTokens);
  if (computed_ < tokens_.size()) {
    if (tokens_.size() > model_->context_length() && !options_.context_shift) return stop(StopReason::kContextFull);
    BALLAST_CHECK(catch_up());
  }
  BALLAST_TRY(const auto logits, HostValues<float>::of(logits_));
  BALLAST_TRY(const SampledToken token, sampler_.next(logits.span().first(model_->vocab_size()), tokens_));
  if (std::ranges::find(options_.stop_tokens, token.id) != options_.stop_tokens.end()) {
    return stop(StopReason::kStopToken);
  }
  tokens_.push_back(token.id);
  return std::optional(token);
}

}  // namespace ballast
