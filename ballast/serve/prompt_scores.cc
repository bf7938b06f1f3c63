#include "ballast/serve/prompt_scores.h"

#include <algorithm>

#include "ballast/device/host_values.h"
#include "ballast/engine/forward_past.h"
#include "ballast/engine/sampler.h"
#include "ballast/io/guard.h"
#include "ballast/models/model.h"

namespace ballast::serve {

namespace {

// Rows whose logits are in memory at a time. Others compute between two pieces.
constexpr size_t kScoredRows = 64;

ChosenToken unscored_token(const Tokenizer& tokenizer, TokenId id) {
  ChosenToken token;
  token.bytes = std::string(tokenizer.bytes_of(id).value_or(""));
  token.has_value = false;
  return token;
}

}  // namespace

Result<ChosenToken> to_chosen(const Tokenizer& tokenizer, std::span<const float> logits, TokenId id, uint64_t count) {
  if (id >= logits.size()) return make_error(ErrorCode::kCorrupt, "a token without a logit");
  // One at least, whose logit and probability tell the sum over all.
  const auto likeliest = Sampler::likeliest(logits, static_cast<size_t>(std::max<uint64_t>(count, 1)));
  const double sum = static_cast<double>(logits[likeliest[0].id]) - likeliest[0].log_probability;
  const auto bytes_of = [&](TokenId token) { return std::string(tokenizer.bytes_of(token).value_or("")); };
  ChosenToken chosen;
  chosen.bytes = bytes_of(id);
  chosen.log_probability = static_cast<double>(logits[id]) - sum;
  for (uint64_t i = 0; i < count && i < likeliest.size(); ++i) {
    chosen.likeliest.push_back({bytes_of(likeliest[i].id), likeliest[i].log_probability});
  }
  return chosen;
}

Result<std::vector<ChosenToken>> score_prompt(const TextModel& text, const Tokenizer& tokenizer,
                                              std::span<const TokenId> tokens, uint64_t count,
                                              const std::function<bool()>& is_wanted) {
  return guarded([&]() -> Result<std::vector<ChosenToken>> {
    std::vector<ChosenToken> scored = {unscored_token(tokenizer, tokens.front())};
    LoadedModel& model = text.model();
    std::unique_lock turn(model.running());
    BALLAST_TRY(KvSequence past, make_lone_past(text.writer(), model.context(), tokens.size()));
    past.clear(text.writer().length_kind(tokens.size()));
    for (size_t begin = 0; begin + 1 < tokens.size();) {
      if (!is_wanted()) return make_error(ErrorCode::kCancelled, "nobody wants the scores any more");
      const auto piece = tokens.subspan(begin, std::min(tokens.size() - 1 - begin, kScoredRows));
      BALLAST_TRY(const Tensor logits,
                  forward_past(text.writer(), model.context(), past, piece, tokens.size(), LogitRows::kAll));
      BALLAST_TRY(const auto values, HostValues<float>::of(logits));
      const size_t vocabulary = static_cast<size_t>(text.vocab_size());
      for (size_t i = 0; i < piece.size(); ++i) {
        const auto row = values.span().subspan(i * vocabulary, vocabulary);
        BALLAST_TRY(ChosenToken token, to_chosen(tokenizer, row, tokens[begin + i + 1], count));
        scored.push_back(std::move(token));
      }
      begin += piece.size();
      turn.unlock();
      turn.lock();
    }
    return scored;
  });
}

}  // namespace ballast::serve
