// Sets of characters, and the byte sequences that spell them in UTF-8.
#pragma once

#include <cstdint>
#include <vector>

namespace ballast {

struct CodePointRange {
  uint32_t first = 0;
  uint32_t last = 0;  // inclusive
  friend bool operator==(const CodePointRange&, const CodePointRange&) = default;
};
using CodePoints = std::vector<CodePointRange>;

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

// What a hexadecimal digit stands for; -1: it is none.
constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Ascending, apart from each other, without surrogates and what lies beyond Unicode: UTF-8 cannot encode those.
CodePoints normalised(CodePoints set);
// Of normalised sets, and normalised.
CodePoints complement_of(const CodePoints& set);
CodePoints intersection_of(const CodePoints& a, const CodePoints& b);

struct ByteRange {
  uint8_t first = 0;
  uint8_t last = 0;
  friend auto operator<=>(const ByteRange&, const ByteRange&) = default;
};
using ByteRanges = std::vector<ByteRange>;  // one after the other

// Each character of the set is spelled by exactly one of these, and nothing else is.
std::vector<ByteRanges> utf8_spellings(const CodePoints& set);

}  // namespace ballast
