#include "ballast/text/tokenizer/word_split.h"

#include "ballast/text/char_class.h"

namespace ballast {

namespace {

// Length of 's, 't, 're, 've, 'm, 'll or 'd at `at`, where an apostrophe stands; 0 if none follows.
size_t contraction_length(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  switch (rest[0]) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 2;
    case 'r':
    case 'v': return rest.size() == 2 && rest[1] == 'e' ? 3 : 0;
    case 'l': return rest.size() == 2 && rest[1] == 'l' ? 3 : 0;
    default: return 0;
  }
}

// End of the run of characters of class `kind` from `at` on.
size_t run_end(std::string_view text, size_t at, CharClass kind) {
  for (;;) {
    while (at < text.size() && byte_class(text[at]) == kind) ++at;
    if (at == text.size() || byte_class(text[at]) != CharClass::kNotAscii) return at;
    const ClassifiedChar next = classify_char(text, at);
    if (next.kind != kind) return at;
    at += next.length;
  }
}

// White space from `at` on: all of it at the end of the text; else all but its last character, which belongs to what
// follows, unless it is the only one.
size_t space_end(std::string_view text, size_t at) {
  size_t last = at;
  size_t end = at;
  while (end < text.size()) {
    const ClassifiedChar next = classify_char(text, end);
    if (next.kind != CharClass::kSpace) return last > at ? last : end;
    last = end;
    end += next.length;
  }
  return end;
}

}  // namespace

size_t gpt2_piece_end(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    if (const size_t length = contraction_length(text, at); length != 0) return at + length;
  }
  const ClassifiedChar first = classify_char(text, at);
  if (first.kind != CharClass::kSpace) return run_end(text, at + first.length, first.kind);
  if (text[at] == ' ' && at + 1 < text.size()) {
    const ClassifiedChar second = classify_char(text, at + 1);
    if (second.kind != CharClass::kSpace) return run_end(text, at + 1 + second.length, second.kind);
  }
  return space_end(text, at);
}

}  // namespace ballast
