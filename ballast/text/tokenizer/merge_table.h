// Which two symbols become one, and which pair goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast {

// Symbols are numbers that an encoder hands out, one for each text that is a token or a part of one.
class MergeTable {
 public:
  using Symbol = uint32_t;
  static constexpr Symbol kNoSymbol = UINT32_MAX;
  static constexpr uint32_t kNoRank = UINT32_MAX;

  struct Pair {
    Symbol left = kNoSymbol;
    Symbol right = kNoSymbol;
    uint32_t rank = kNoRank;  // lower ones are merged first
    Symbol merged = kNoSymbol;
  };

  // Room for `pairs` of them.
  explicit MergeTable(size_t pairs = 0);

  // Of two for the same symbols the last counts.
  void add(const Pair& pair);

  const Pair* find(Symbol left, Symbol right) const {
    const size_t mask = pairs_.size() - 1;
    size_t at = slot_of(left, right) & mask;
    while (pairs_[at].rank != kNoRank) {
      if (pairs_[at].left == left && pairs_[at].right == right) return &pairs_[at];
      at = (at + 1) & mask;
    }
    return nullptr;
  }

  // Merges until no pair is left to merge: the lowest rank first, the leftmost of equal ones. n log n. Positions have
  // 32 bits.
  void merge(std::vector<Symbol>& symbols) const;

 private:
  static uint64_t slot_of(Symbol left, Symbol right) {
    const uint64_t value = (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15U;
    return value ^ (value >> 32);
  }

  std::vector<Pair> pairs_;  // open addressing; a power of two, at most half full
};

}  // namespace ballast
