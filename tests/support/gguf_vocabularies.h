// Vocabularies as GGUF files hold them, put together token by token.
#pragma once

#include <string>
#include <utility>

#include "ballast/text/tokenizer/gguf_vocabulary.h"

namespace ballast::testing {

inline void add(GgufVocabulary& vocabulary, std::string text, float score = 0, int32_t type = GgufVocabulary::kNormal) {
  vocabulary.tokens.push_back(std::move(text));
  vocabulary.scores.push_back(score);
  vocabulary.token_types.push_back(type);
}

}  // namespace ballast::testing
