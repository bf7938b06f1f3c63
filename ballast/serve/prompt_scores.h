// How likely a model finds the tokens of a prompt.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ballast/runtime/text_model.h"
#include "ballast/serve/writer.h"

namespace ballast::serve {

// Each token with its log-probability behind those before it, and of `count` others the likeliest. The first has none.
// `is_wanted` is asked before each piece; kCancelled where it says no.
Result<std::vector<ChosenToken>> score_prompt(const TextModel& text, const Tokenizer& tokenizer,
                                              std::span<const TokenId> tokens, uint64_t count,
                                              const std::function<bool()>& is_wanted);

// A token and the likeliest ones, from what it was chosen from.
Result<ChosenToken> to_chosen(const Tokenizer& tokenizer, std::span<const float> logits, TokenId id, uint64_t count);

}  // namespace ballast::serve
