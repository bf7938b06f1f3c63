#include "ballast/text/tokenizer/word_split.h"

#include <array>
#include <bit>

#include "ballast/base/bytes.h"
#include "ballast/text/char_class.h"

namespace ballast {

namespace {

// As classify_char; most characters are ASCII.
ClassifiedChar class_at(std::string_view text, size_t at) {
  const CharClass kind = byte_class(text[at]);
  return kind != CharClass::kNotAscii ? ClassifiedChar{kind, 1} : classify_char(text, at);
}

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

constexpr uint64_t kEachByte = 0x0101010101010101;
constexpr uint64_t kHighBits = 0x80 * kEachByte;

// Of the bytes of a word those that are letters of ASCII, by their highest bits.
uint64_t ascii_letters(uint64_t word) {
  const uint64_t lower = (word | 0x20 * kEachByte) & ~kHighBits;
  const uint64_t from_a = lower + (0x80 - 'a') * kEachByte;
  const uint64_t beyond_z = lower + (0x80 - 'z' - 1) * kEachByte;
  return from_a & ~beyond_z & ~word & kHighBits;
}

// Eight bytes at a time: where words end cannot be predicted, so a loop over bytes would pay for each of them.
size_t ascii_letters_end(std::string_view text, size_t at) {
  constexpr size_t kWord = sizeof(uint64_t);
  for (; at + kWord <= text.size(); at += kWord) {
    const uint64_t word = load_le<uint64_t>(reinterpret_cast<const std::byte*>(text.data() + at));
    const uint64_t others = ascii_letters(word) ^ kHighBits;
    if (others != 0) return at + static_cast<size_t>(std::countr_zero(others)) / 8;
  }
  while (at < text.size() && byte_class(text[at]) == CharClass::kLetter) ++at;
  return at;
}

// End of the run of characters of class `kind` from `at` on.
size_t run_end(std::string_view text, size_t at, CharClass kind) {
  for (;;) {
    if (kind == CharClass::kLetter) at = ascii_letters_end(text, at);
    while (at < text.size() && byte_class(text[at]) == kind) ++at;
    if (at == text.size() || byte_class(text[at]) != CharClass::kNotAscii) return at;
    const ClassifiedChar next = classify_char(text, at);
    if (next.kind != kind) return at;
    at += next.length;
  }
}

// Most pieces are words of ASCII, with or without something in front: one branch for both.
bool starts_with_letter(std::string_view text, size_t at) {
  return at < text.size() && byte_class(text[at]) == CharClass::kLetter;
}

// White space from `at` on: all of it at the end of the text; else all but its last character, which belongs to what
// follows, unless it is the only one.
size_t space_end(std::string_view text, size_t at) {
  size_t last = at;
  size_t end = at;
  while (end < text.size()) {
    const ClassifiedChar next = class_at(text, end);
    if (next.kind != CharClass::kSpace) return last > at ? last : end;
    last = end;
    end += next.length;
  }
  return end;
}

// The same in any case, where s has a third form, the long one.
size_t contraction_length_of_any_case(std::string_view text, size_t at) {
  std::array<char, 3> lower = {'\''};
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest == "\u017F") return 3;
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool is_upper = rest[i] >= 'A' && rest[i] <= 'Z';
    lower[i + 1] = static_cast<char>(is_upper ? rest[i] - 'A' + 'a' : rest[i]);
  }
  return contraction_length({lower.data(), rest.size() + 1}, 0);
}

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

size_t line_ends_end(std::string_view text, size_t at) {
  while (at < text.size() && is_line_end(text[at])) ++at;
  return at;
}

// White space from `at` on: to behind the last end of a line among it; where there is none, as GPT-2 has it.
size_t space_or_lines_end(std::string_view text, size_t at) {
  size_t behind_line = at, end = at;
  while (end < text.size()) {
    const ClassifiedChar next = class_at(text, end);
    if (next.kind != CharClass::kSpace) break;
    end += next.length;
    if (is_line_end(text[end - 1])) behind_line = end;
  }
  return behind_line > at ? behind_line : space_end(text, at);
}

size_t digits_end(std::string_view text, size_t at, size_t most) {
  for (size_t count = 0; count < most && at < text.size(); ++count) {
    const ClassifiedChar next = class_at(text, at);
    if (next.kind != CharClass::kNumber) break;
    at += next.length;
  }
  return at;
}

// 1 for what may stand before the letters of a word and needs no closer look.
constexpr std::array<uint8_t, 256> kModernLeads = [] {
  std::array<uint8_t, 256> leads{};
  for (size_t c = 0; c < leads.size(); ++c) {
    const bool is_lead = kByteClasses[c] == CharClass::kSpace || kByteClasses[c] == CharClass::kOther;
    leads[c] = is_lead && c != '\'' && c != '\r' && c != '\n';
  }
  return leads;
}();

template <size_t kMostDigits>
size_t modern_piece_end(std::string_view text, size_t at) {
  const size_t word = at + kModernLeads[static_cast<unsigned char>(text[at])];
  if (starts_with_letter(text, word)) return run_end(text, word, CharClass::kLetter);
  if (text[at] == '\'') {
    if (const size_t length = contraction_length_of_any_case(text, at); length != 0) return at + length;
  }
  const ClassifiedChar first = class_at(text, at);
  const size_t behind = at + first.length;
  if (first.kind == CharClass::kLetter) return run_end(text, behind, CharClass::kLetter);
  if (first.kind == CharClass::kNumber) return digits_end(text, at, kMostDigits);
  const auto kind_of_second = behind < text.size() ? class_at(text, behind).kind : CharClass::kSpace;
  if (kind_of_second == CharClass::kLetter && !is_line_end(text[at])) return run_end(text, behind, CharClass::kLetter);
  const bool is_space_in_front = text[at] == ' ' && kind_of_second == CharClass::kOther;
  if (first.kind == CharClass::kOther || is_space_in_front) {
    return line_ends_end(text, run_end(text, behind, CharClass::kOther));
  }
  return space_or_lines_end(text, at);
}

}  // namespace

size_t llama3_piece_end(std::string_view text, size_t at) { return modern_piece_end<3>(text, at); }
size_t qwen2_piece_end(std::string_view text, size_t at) { return modern_piece_end<1>(text, at); }

PieceEnd piece_end_of(std::string_view pattern) {
  if (pattern == kGpt2Words) return gpt2_piece_end;
  if (pattern == kLlama3Words) return llama3_piece_end;
  return pattern == kQwen2Words ? qwen2_piece_end : nullptr;
}

size_t gpt2_piece_end(std::string_view text, size_t at) {
  const size_t word = at + (text[at] == ' ' ? 1 : 0);
  if (starts_with_letter(text, word)) return run_end(text, word, CharClass::kLetter);
  if (text[at] == '\'') {
    if (const size_t length = contraction_length(text, at); length != 0) return at + length;
  }
  const ClassifiedChar first = class_at(text, at);
  if (first.kind != CharClass::kSpace) return run_end(text, at + first.length, first.kind);
  if (text[at] == ' ' && at + 1 < text.size()) {
    const ClassifiedChar second = class_at(text, at + 1);
    if (second.kind != CharClass::kSpace) return run_end(text, at + 1 + second.length, second.kind);
  }
  return space_end(text, at);
}

}  // namespace ballast
