#include "ballast/text/constraint/code_points.h"

#include <algorithm>
#include <string>

#include "ballast/base/utf8.h"

namespace ballast {

namespace {

constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

std::string spelled(uint32_t code_point) {
  std::string bytes;
  append_utf8(bytes, code_point);
  return bytes;
}

void add_spelling(std::vector<ByteRanges>& out, uint32_t first, uint32_t last) {
  const std::string low = spelled(first), high = spelled(last);
  ByteRanges ranges;
  for (size_t i = 0; i < low.size(); ++i) {
    ranges.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
  }
  out.push_back(std::move(ranges));
}

// Cuts a range of characters of one length until each byte varies independently of the others.
void add_spellings(std::vector<ByteRanges>& out, uint32_t first, uint32_t last) {
  for (uint32_t bits = 6; bits <= 18 && last >= 0x80; bits += 6) {
    const uint32_t mask = (uint32_t{1} << bits) - 1;
    if ((first & ~mask) == (last & ~mask)) break;
    if ((first & mask) != 0) {
      add_spellings(out, first, first | mask);
      return add_spellings(out, (first | mask) + 1, last);
    }
    if ((last & mask) != mask) {
      add_spellings(out, first, (last & ~mask) - 1);
      return add_spellings(out, last & ~mask, last);
    }
  }
  add_spelling(out, first, last);
}

}  // namespace

CodePoints normalised(CodePoints set) {
  CodePoints encodable;
  for (const auto& [first, last] : set) {
    const uint32_t end = std::min(last, kLastCodePoint);
    if (first < kFirstSurrogate && first <= end) encodable.push_back({first, std::min(end, kFirstSurrogate - 1)});
    if (end > kLastSurrogate && first <= end) encodable.push_back({std::max(first, kLastSurrogate + 1), end});
  }
  std::ranges::sort(encodable, {}, &CodePointRange::first);
  CodePoints joined;
  for (const CodePointRange& range : encodable) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

CodePoints complement_of(const CodePoints& set) {
  CodePoints gaps;
  uint32_t next = 0;
  for (const auto& [first, last] : set) {
    if (first > next) gaps.push_back({next, first - 1});
    next = last + 1;
  }
  if (next <= kLastCodePoint) gaps.push_back({next, kLastCodePoint});
  return normalised(std::move(gaps));
}

CodePoints intersection_of(const CodePoints& a, const CodePoints& b) {
  CodePoints both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint32_t first = std::max(a[i].first, b[j].first), last = std::min(a[i].last, b[j].last);
    if (first <= last) both.push_back({first, last});
    (a[i].last < b[j].last ? i : j) += 1;
  }
  return both;
}

std::vector<ByteRanges> utf8_spellings(const CodePoints& set) {
  constexpr CodePointRange kLengths[] = {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLastCodePoint}};
  std::vector<ByteRanges> out;
  for (const CodePointRange& range : set) {
    for (const CodePointRange& length : kLengths) {
      const uint32_t first = std::max(range.first, length.first), last = std::min(range.last, length.last);
      if (first <= last) add_spellings(out, first, last);
    }
  }
  return out;
}

}  // namespace ballast
