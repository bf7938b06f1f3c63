// What a request does to the logits before a token is drawn: biases, penalties, no end before a minimum. Constraints on
// the form of the answer go the same way.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

using TokenRule = std::function<Status(std::span<float> logits, std::span<const TokenId> text)>;

// For a prompt of `prompt` tokens; `ends`: what must not come before the minimum. Empty where nothing is asked for, so
// that logits need not be copied. `form`, which may be empty, comes last: where all that it allows is forbidden by the
// rest (an answer that is complete before the minimum, say), the rest does not count.
TokenRule make_token_rule(const TextAsk& ask, size_t prompt, std::vector<TokenId> ends, TokenRule form);

}  // namespace ballast::serve
