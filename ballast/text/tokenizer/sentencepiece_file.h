// SentencePiece's own model files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/text/tokenizer/tokenizer_description.h"

namespace ballast {

// A `.model` file: a protobuf message of pieces with scores and types, and what the trainer and the normalizer were
// told. Unigram and BPE models are understood; others are kUnsupported by name. `where` names the file in errors.
Result<TokenizerDescription> parse_sentencepiece(std::string_view bytes, const std::string& where);

// Its pieces as they are: the types have the numbers of GgufVocabulary::TokenType.
struct SentencePieceToken {
  std::string text;
  float score = 0;
  int32_t type = 1;
};
// kUnsupported unless it is a model of byte pairs, the only one whose scores say everything.
Result<std::vector<SentencePieceToken>> read_sentencepiece_pairs(std::string_view bytes, const std::string& where);

// True for bytes that begin like such a file.
bool looks_like_sentencepiece(std::string_view bytes);

}  // namespace ballast
