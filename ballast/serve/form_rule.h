// Makes an answer take its form from where the form begins: at once, behind the reasoning, or behind what begins a
// call.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ballast/serve/token_rules.h"
#include "ballast/text/constraint.h"
#include "ballast/text/tokenizer.h"

namespace ballast::serve {

// One way to write the answer.
struct FormBranch {
  std::vector<TokenId> lead_in;  // comes first, token for token; none of a branch begins like all of another
  TokenConstraint constraint;    // of what follows
};

struct AnswerForm {
  std::vector<FormBranch> branches{};  // none: the answer is free
  bool begins_thinking = false;        // the form begins behind the reasoning, which is free
  std::vector<TokenId> beyond_mark{};  // see tokens_beyond_mark(); only where it begins so
};

// Tokens that could end the reasoning and say more at once: what they say would escape the form.
std::vector<TokenId> tokens_beyond_mark(const Tokenizer& tokenizer);

// For a prompt of `prompt` tokens and a text that any of `ends` ends.
TokenRule make_form_rule(std::shared_ptr<const AnswerForm> form, const Tokenizer& tokenizer, size_t prompt,
                         std::vector<TokenId> ends);

}  // namespace ballast::serve
