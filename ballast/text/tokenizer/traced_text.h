// A text that was changed on the way to its tokens, and where each of its bytes came from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/text/tokenizer.h"
#include "ballast/text/tokenizer/normalizer.h"

namespace ballast {

// Origins are of whole characters, so that a token which has a part of one is said to have all of it.
struct TracedText {
  std::string text;
  std::vector<TextSpan> origin;  // of each byte

  // Where a part of the text came from; it has at least one byte.
  TextSpan span(size_t begin, size_t end) const { return {origin[begin].begin, origin[end - 1].end}; }
  TracedText slice(size_t begin, size_t size) const;
  void append(std::string_view more, TextSpan from);
};

// The text itself; with `replace_broken`, bytes that are no UTF-8 are U+FFFD.
TracedText trace_text(std::string_view text, bool replace_broken);

// What normalize() makes of it. Characters that are added come from the one before them, or the first; of characters
// that become fewer, the first ones count.
Result<TracedText> normalize_traced(const std::vector<Normalizer>& normalizers, TracedText text);

}  // namespace ballast
