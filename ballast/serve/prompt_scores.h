// How likely a model finds the tokens of a prompt.
#pragma once

#include <span>
#include <vector>

#include "ballast/runtime/text_model.h"
#include "ballast/serve/writer.h"

namespace ballast::serve {

// Each token with its log-probability behind those before it, and of `count` others the likeliest. The first has none.
Result<std::vector<ChosenToken>> score_prompt(const TextModel& text, const Tokenizer& tokenizer,
                                              std::span<const TokenId> tokens, uint64_t count);

// A token and the likeliest ones, from what it was chosen from.
Result<ChosenToken> to_chosen(const Tokenizer& tokenizer, std::span<const float> logits, TokenId id, uint64_t count);

}  // namespace ballast::serve
