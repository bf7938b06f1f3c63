// Tokenizers as files hold them.
#pragma once

#include <string>
#include <string_view>

#include "ballast/text/tokenizer.h"

namespace ballast {

// A tokenizer.json, of either kind: gpt.rs's flat {"vocab","merges","unk_token"}, or Hugging Face's document with a BPE
// model over GPT-2's byte alphabet. Anything else in it that would change the tokens (a normalizer, another
// pre-tokenizer, a template that adds tokens) is kUnsupported and named. `where` names the file in errors.
Result<TokenizerDescription> parse_tokenizer_json(std::string_view json, const std::string& where);

// GPT-2's own two files: vocab.json ({"text": id}) and merges.txt (one "left right" a line, below a #version line).
Result<TokenizerDescription> parse_vocab_and_merges(std::string_view vocab_json, const std::string& vocab_where,
                                                    std::string_view merges, const std::string& merges_where);

}  // namespace ballast
