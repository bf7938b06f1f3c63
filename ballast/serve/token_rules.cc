#include "ballast/serve/token_rules.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace ballast::serve {

namespace {

// Copied with its request; each copy counts by itself.
class AskedRule {
 public:
  AskedRule(const TextAsk& ask, size_t prompt, std::vector<TokenId> ends)
      : bias_(ask.sampling.bias),
        presence_(static_cast<float>(ask.sampling.presence_penalty)),
        frequency_(static_cast<float>(ask.sampling.frequency_penalty)),
        counted_(prompt),
        least_(prompt + ask.min_tokens),
        ends_(std::move(ends)) {}

  Status operator()(std::span<float> logits, std::span<const TokenId> text) {
    for (const auto& [id, bias] : bias_) {
      if (id >= logits.size()) continue;
      logits[id] = bias <= -100 ? -HUGE_VALF : logits[id] + bias;
    }
    penalise_written(logits, text);
    if (text.size() < least_) {
      for (const TokenId id : ends_) {
        if (id < logits.size()) logits[id] = -HUGE_VALF;
      }
    }
    return {};
  }

 private:
  // As OpenAI defines it: by how often the answer has the token already. The prompt does not count.
  void penalise_written(std::span<float> logits, std::span<const TokenId> text) {
    if (presence_ == 0 && frequency_ == 0) return;
    for (; counted_ < text.size(); ++counted_) ++counts_[text[counted_]];
    for (const auto& [id, count] : counts_) {
      if (id < logits.size()) logits[id] -= presence_ + frequency_ * static_cast<float>(count);
    }
  }

  std::vector<std::pair<TokenId, float>> bias_;
  float presence_, frequency_;
  size_t counted_, least_;
  std::vector<TokenId> ends_;
  std::unordered_map<TokenId, uint32_t> counts_;
};

class FormedRule {
 public:
  FormedRule(AskedRule asked, TokenRule form) : asked_(std::move(asked)), form_(std::move(form)) {}

  Status operator()(std::span<float> logits, std::span<const TokenId> text) {
    given_.assign(logits.begin(), logits.end());
    BALLAST_CHECK(asked_(logits, text));
    BALLAST_CHECK(form_(logits, text));
    const auto is_possible = [](float value) { return value > -HUGE_VALF; };
    if (std::ranges::any_of(logits, is_possible)) return {};
    std::ranges::copy(given_, logits.begin());
    return form_(logits, text);
  }

 private:
  AskedRule asked_;
  TokenRule form_;
  std::vector<float> given_;
};

}  // namespace

TokenRule make_token_rule(const TextAsk& ask, size_t prompt, std::vector<TokenId> ends, TokenRule form) {
  const SamplingAsk& sampling = ask.sampling;
  const bool is_needed = !sampling.bias.empty() || sampling.presence_penalty != 0 || sampling.frequency_penalty != 0 ||
                         ask.min_tokens != 0;
  if (!is_needed) return form;
  AskedRule asked(ask, prompt, std::move(ends));
  return form ? TokenRule(FormedRule(std::move(asked), std::move(form))) : TokenRule(std::move(asked));
}

}  // namespace ballast::serve
