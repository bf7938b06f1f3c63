// Tokenizers as files hold them.
#pragma once

#include <string>
#include <string_view>

#include "ballast/text/tokenizer/tokenizer_description.h"

namespace ballast {

// A tokenizer.json, of either kind: gpt.rs's flat {"vocab","merges","unk_token"}, or Hugging Face's document. What is
// not understood is kUnsupported and named: leaving it out would give other tokens. `where` names the file in errors.
Result<TokenizerDescription> parse_tokenizer_json(std::string_view json, const std::string& where);

// tokenizer_config.json beside it: the marks by name, and whether begin and end are added where the tokenizer itself
// adds nothing.
Status apply_tokenizer_config(std::string_view json, const std::string& where, TokenizerDescription& description);

// GPT-2's own two files: vocab.json ({"text": id}) and merges.txt (one "left right" a line, below a #version line).
Result<TokenizerDescription> parse_vocab_and_merges(std::string_view vocab_json, const std::string& vocab_where,
                                                    std::string_view merges, const std::string& merges_where);

// The same model over bytes where its texts are in GPT-2's alphabet and nothing but that hangs on characters; else
// unchanged. Bytes are faster.
TokenModel as_byte_pairs(CharPairVocabulary vocabulary);

}  // namespace ballast
