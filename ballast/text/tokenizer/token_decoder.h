// From the texts of tokens back to text.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/text/tokenizer/text_pattern.h"

namespace ballast {

// One struct for each kind that files know; a Sequence is a list of them. Each takes the list of texts that the one
// before left; what the last one leaves is put together.
struct DecodeBytes {};  // GPT-2's alphabet
struct DecodeWordPiece {
  std::string prefix = "##";
  bool clean_up = true;  // no space before . ? ! , and in contractions
};
struct DecodeMetaspace {
  std::string mark = "\u2581";
  bool drop_first = true;  // those of the first token, of which one was put before the text
};
struct DecodeSuffix {
  std::string suffix = "</w>";
};
struct DecodeCtc {
  std::string pad = "<pad>";
  std::string word_delimiter = "|";
  bool clean_up = true;
};
struct DecodeByteTokens {};  // <0x00> to <0xFF>
struct DecodeFuse {};
struct DecodeStrip {
  std::string character = " ";
  size_t start = 0;
  size_t stop = 0;
};
struct DecodeReplace {
  TextPattern pattern;
  std::string content;
};
struct DecodeJoin {};  // with spaces between: what happens where a file has no decoder

using TokenDecoder = std::variant<DecodeBytes, DecodeWordPiece, DecodeMetaspace, DecodeSuffix, DecodeCtc,
                                  DecodeByteTokens, DecodeFuse, DecodeStrip, DecodeReplace, DecodeJoin>;

// Bytes that are no UTF-8 stay what they are.
Result<std::string> decode_tokens(const std::vector<TokenDecoder>& decoders, std::vector<std::string> texts);

// What a single token stands for, wherever it is: decoded without what depends on its place.
Result<std::string> decode_one(const std::vector<TokenDecoder>& decoders, std::string_view text);

}  // namespace ballast
