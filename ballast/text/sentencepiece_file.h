// SentencePiece's own model files.
#pragma once

#include <string>
#include <string_view>

#include "ballast/text/tokenizer_description.h"

namespace ballast {

// A `.model` file: a protobuf message of pieces with scores and types, and what the trainer and the normalizer were
// told. Unigram and BPE models are understood; others are kUnsupported by name. `where` names the file in errors.
Result<TokenizerDescription> parse_sentencepiece(std::string_view bytes, const std::string& where);

// True for bytes that begin like such a file.
bool looks_like_sentencepiece(std::string_view bytes);

}  // namespace ballast
