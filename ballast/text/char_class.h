// What a character is to the patterns that cut text into words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ballast {

enum class CharClass : uint8_t {
  kOther,     // punctuation, symbols, marks, controls, and bytes that are not UTF-8
  kLetter,    // \p{L}
  kNumber,    // \p{N}
  kSpace,     // White_Space
  kNotAscii,  // of single bytes only: several decide together, see classify_char
};

// By byte.
inline constexpr std::array<CharClass, 256> kByteClasses = [] {
  std::array<CharClass, 256> classes{};
  for (size_t c = 'a'; c <= 'z'; ++c) classes[c] = classes[c - 'a' + 'A'] = CharClass::kLetter;
  for (size_t c = '0'; c <= '9'; ++c) classes[c] = CharClass::kNumber;
  for (const char c : {' ', '\t', '\n', '\v', '\f', '\r'}) classes[static_cast<size_t>(c)] = CharClass::kSpace;
  for (size_t c = 128; c < 256; ++c) classes[c] = CharClass::kNotAscii;
  return classes;
}();

inline CharClass byte_class(char c) { return kByteClasses[static_cast<unsigned char>(c)]; }

struct ClassifiedChar {
  CharClass kind;
  uint8_t length;  // in bytes
};

// The character at `at`, which must be inside `text`. A byte that begins no well-formed sequence is a character of its
// own.
ClassifiedChar classify_char(std::string_view text, size_t at);

}  // namespace ballast
