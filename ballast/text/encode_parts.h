// From a rendered conversation to tokens.
#pragma once

#include <span>
#include <vector>

#include "ballast/text/chat_template.h"
#include "ballast/text/tokenizer.h"

namespace ballast {

// Special tokens are recognised in what the template wrote and nowhere else: neither in a message nor where the end of
// one text and the beginning of the next would spell one. Between special tokens the text is encoded in one piece, so
// that where messages begin and end does not change the tokens.
Result<std::vector<TokenId>> encode_parts(const Tokenizer& tokenizer, std::span<const RenderedPart> parts);

}  // namespace ballast
