// Which part of a piece each of its tokens stands for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/text/tokenizer.h"

namespace ballast {

// How tokens are spelled in a piece.
struct TokenSpelling {
  std::string_view text{};              // of the token
  std::optional<unsigned char> byte{};  // it stands for this byte
};

// What a vocabulary puts around the texts of its tokens.
struct SpellingMarks {
  std::string continuing_prefix{};  // of every token but the first of a piece
  std::string beginning_prefix{};   // of the first
  std::string ending{};             // of the last
};

// Spans in bytes of `piece`, in order. A token that does not spell what stands there (the unknown) has what lies before
// the next one that does.
std::vector<TextSpan> find_token_spans(std::string_view piece, std::span<const TokenSpelling> tokens,
                                       const SpellingMarks& marks);

}  // namespace ballast
