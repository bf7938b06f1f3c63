// The loop that makes a model write: prefill, then one token after another. An engine with one request.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ballast/engine/engine.h"

namespace ballast {

struct GenerateOptions {
  uint64_t max_tokens = 128;
  SamplerOptions sampling;
  std::vector<TokenId> stop_tokens;  // end the text and are not part of it
  bool kv_cache = true;              // off: the whole text is computed again for each token; the same tokens, slower
  uint64_t cache_capacity = 0;       // positions, enough for the text and within the context; 0: grows as needed
  DType cache_dtype = DType::kF32;   // or kF16: half the memory, not always the same tokens
  // At the end of the context, forget the oldest token and compute the rest again, for each token; off: stop there.
  bool context_shift = false;
  // Makes the constraint of each text, from the number of tokens of its prompt and what ends it; see text/constraint.h.
  std::function<LogitConstraint(uint64_t prompt_tokens, std::span<const TokenId> stop_tokens)> constraint{};
  // Asked before each piece of a prompt: true ends the work with kCancelled. A long prompt takes long.
  std::function<bool()> cancelled{};
  // Told before each piece of a prompt how many of its tokens are computed.
  std::function<void(uint64_t done, uint64_t total)> on_prompt{};
};

// What an engine does with such options, for this prompt. Memory, cancelling and listening are up to whoever owns the
// engine.
Request to_request(std::vector<TokenId> prompt, const GenerateOptions& options);
// kInvalidArgument, with the numbers, where the cache that the options ask for exceeds the context, or does not hold a
// prompt of so many tokens and what may follow.
Status check_cache_capacity(const GenerateOptions& options, uint64_t prompt, uint64_t context);

enum class StopReason : uint8_t { kNone, kMaxTokens, kStopToken, kContextFull };

// One thread at a time. TextModel makes them; whoever drives a model himself does with start().
class Generator {
 public:
  // A long prompt goes through the model in pieces, so that activations do not grow with it.
  static constexpr uint64_t kPromptPiece = 512;
  // What a conversation takes back when its end is written otherwise is little.
  static constexpr uint64_t kTakenBack = 448;

  // Checks the prompt against the model and computes it. The model and the context must outlive the generator, and so
  // must `running`, where it is given: every pass holds it, so that generators on one context may be used by several
  // threads. Without it nobody else may use the context meanwhile.
  static Result<Generator> start(const CausalLm& model, Context& context, std::vector<TokenId> prompt,
                                 const GenerateOptions& options, std::mutex* running = nullptr);

  // Goes on with another prompt, as start() would with the same options, and computes only what comes behind the
  // beginning that it shares with the tokens so far: a conversation, which grows at its end.
  Status restart(std::vector<TokenId> prompt);
  // How many tokens of the prompt were known when it came.
  uint64_t reused() const { return reused_; }

  // From now on nobody is told about prompts: for a listener that does not live as long as the generator.
  void forget_on_prompt() { options_.on_prompt = nullptr; }

  // The next token; nullopt at the end, for which stop_reason() has the cause. An error ends the text: from then on it
  // is what every call gives, until restart().
  Result<std::optional<SampledToken>> next();
  StopReason stop_reason() const { return stop_reason_; }

  // Prompt and what was generated.
  std::span<const TokenId> tokens() const { return tokens_; }
  uint64_t generated() const { return tokens_.size() - prompt_size_; }
  // [1, vocabulary]: what the last token was chosen from; before the first, what it will be. Reading it takes the turn
  // that LoadedModel::forward() tells of.
  const Tensor& logits() const { return logits_; }
  uint64_t cache_bytes() const;

 private:
  Generator(const GenerateOptions& options, std::unique_ptr<Engine> engine)
      : options_(options), engine_(std::move(engine)) {}
  Status check(const Request& request) const;
  Status begin(std::vector<TokenId> prompt);
  Status end_request();
  // Steps until there are events to tell.
  Status advance();
  Status tell_prompt();
  Result<std::optional<SampledToken>> next_token();

  GenerateOptions options_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<KvSequence> past_;  // null: it keeps none
  RequestId request_ = 0;
  std::vector<EngineEvent> events_;  // of the request, that nobody has been told
  std::vector<TokenId> tokens_;
  size_t prompt_size_ = 0;
  uint64_t reused_ = 0;
  uint64_t context_length_ = 0;
  Tensor logits_;
  StopReason stop_reason_ = StopReason::kNone;
  std::optional<Error> failure_;
};

}  // namespace ballast
