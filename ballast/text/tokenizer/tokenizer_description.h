// What a tokenizer file says, before it is made ready for use.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ballast/text/tokenizer.h"
#include "ballast/text/tokenizer/added_tokens.h"
#include "ballast/text/tokenizer/byte_pairs.h"
#include "ballast/text/tokenizer/char_pairs.h"
#include "ballast/text/tokenizer/normalizer.h"
#include "ballast/text/tokenizer/post_processor.h"
#include "ballast/text/tokenizer/pre_tokenizer.h"
#include "ballast/text/tokenizer/token_decoder.h"
#include "ballast/text/tokenizer/unigram.h"
#include "ballast/text/tokenizer/word_tokens.h"

namespace ballast {

using TokenModel = std::variant<BytePairVocabulary, CharPairVocabulary, UnigramVocabulary, WordVocabulary>;

// Text goes through these stages: added tokens are found, what lies between them is normalized, cut into pieces and
// handed to the model piece by piece; then tokens are put around it.
struct TokenizerDescription {
  TokenModel model;
  std::vector<AddedToken> added;
  std::vector<Normalizer> normalizers;
  std::vector<PreTokenizer> pre_tokenizers;
  std::vector<TokenDecoder> decoders;
  PostProcessor post_processor;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  bool replace_broken = false;  // a byte that is no UTF-8 is read as U+FFFD
  TokenMarks marks;
  std::vector<std::string> notes;  // what the reader had to guess
};

// Byte-level BPE as GPT-2 has it, with no token yet.
TokenizerDescription gpt2_description();

}  // namespace ballast
