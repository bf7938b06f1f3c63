#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ballast/formats/torch/pickle.h"

namespace ballast {

namespace {

// The two's complement of `negative` numbers is undone; little-endian words of 32 bits.
std::vector<uint32_t> magnitude(std::string_view little_endian, bool negative) {
  std::vector<uint32_t> words((little_endian.size() + 3) / 4, negative ? 0xFFFFFFFFU : 0U);
  for (size_t i = 0; i < little_endian.size(); ++i) {
    const auto byte = static_cast<uint32_t>(static_cast<unsigned char>(little_endian[i]));
    const unsigned shift = 8 * (i % 4);
    words[i / 4] = (words[i / 4] & ~(0xFFU << shift)) | byte << shift;
  }
  bool carry = negative;
  for (uint32_t& word : words) {
    if (negative) word = ~word + (carry ? 1 : 0);
    carry = carry && word == 0;
  }
  return words;
}

}  // namespace

double PickleTree::real(PickleValue value) const { return std::bit_cast<double>(nodes_[value].number); }

std::string_view PickleTree::text(PickleValue value) const {
  const Node& node = nodes_[value];
  return as_text(bytes_.subspan(static_cast<size_t>(node.number), node.count));
}

std::string PickleTree::digits(PickleValue value) const {
  const std::string_view stored = text(value);
  const bool negative = !stored.empty() && static_cast<unsigned char>(stored.back()) >= 0x80;
  std::vector<uint32_t> words = magnitude(stored, negative);
  constexpr uint32_t kGroup = 1'000'000'000;
  std::vector<uint32_t> groups;  // of nine digits, the lowest first
  while (!words.empty()) {
    uint64_t rest = 0;
    for (size_t i = words.size(); i-- > 0;) {
      const uint64_t now = rest << 32 | words[i];
      words[i] = static_cast<uint32_t>(now / kGroup);
      rest = now % kGroup;
    }
    groups.push_back(static_cast<uint32_t>(rest));
    while (!words.empty() && words.back() == 0) words.pop_back();
  }
  std::string out = negative ? "-" : "";
  out += fmt::format("{}", groups.empty() ? 0 : groups.back());
  for (size_t i = groups.size(); i-- > 1;) out += fmt::format("{:09}", groups[i - 1]);
  return out;
}

std::span<const PickleValue> PickleTree::items(PickleValue value) const {
  const Node& node = nodes_[value];
  if (node.kind == PickleKind::kCall) return items(static_cast<PickleValue>(node.number));
  return std::span(places_).subspan(static_cast<size_t>(node.number), node.count);
}

std::optional<PickleValue> PickleTree::state(PickleValue value) const {
  const auto found = std::ranges::lower_bound(states_, value, {}, &std::pair<PickleValue, PickleValue>::first);
  if (found == states_.end() || found->first != value) return std::nullopt;
  return found->second;
}

}  // namespace ballast
