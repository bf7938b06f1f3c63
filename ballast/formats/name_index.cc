#include "ballast/formats/name_index.h"

#include <algorithm>
#include <bit>

#include "ballast/base/bytes.h"
#include "ballast/base/sort_positions.h"

namespace ballast {

namespace {

// Twice as many slots as names: then a search this long has a cause other than chance.
constexpr size_t kLongestSearch = 64;

constexpr uint64_t kTagMask = uint64_t{0xFFFFFFFF} << 32;

enum class Order : uint8_t { kAscending, kEqualNeighbours, kMixed };

Order order_of(std::span<const TensorInfo> tensors) {
  Order order = Order::kAscending;
  for (size_t i = 1; i < tensors.size(); ++i) {
    const int relation = tensors[i - 1].name.compare(tensors[i].name);
    if (relation > 0) return Order::kMixed;
    if (relation == 0) order = Order::kEqualNeighbours;
  }
  return order;
}

}  // namespace

std::vector<uint32_t> positions_by_name(std::span<const TensorInfo> tensors) {
  std::vector<uint32_t> order = all_positions(tensors.size());
  sort_positions(order, [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  return order;
}

uint64_t NameIndex::hash(std::string_view name) {
  constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;  // odd, and its bits look random
  const std::byte* bytes = as_bytes(name).data();
  uint64_t state = name.size() * kSpread;
  const auto take = [&state](uint64_t word) {
    state = (state ^ word) * kSpread;
    state ^= state >> 32;
  };
  size_t at = 0;
  for (; name.size() - at >= sizeof(uint64_t); at += sizeof(uint64_t)) take(load_le<uint64_t>(bytes + at));
  uint64_t rest = 0;
  for (; at < name.size(); ++at) rest = rest << 8 | std::to_integer<uint64_t>(bytes[at]);
  take(rest);
  take(0);
  return state;
}

NameIndex::NameIndex(std::span<const TensorInfo> tensors) {
  const Order order = order_of(tensors);
  has_duplicates_ = order == Order::kEqualNeighbours;
  if (order != Order::kMixed || fill_table(tensors)) return;
  slots_ = {};
  by_name_ = positions_by_name(tensors);
  has_duplicates_ = std::ranges::adjacent_find(by_name_, {}, [&](uint32_t i) -> const std::string& {
                      return tensors[i].name;
                    }) != by_name_.end();
}

// False when the names do not suit the table.
bool NameIndex::fill_table(std::span<const TensorInfo> tensors) {
  slots_.resize(std::bit_ceil(2 * tensors.size()));
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t hashed = hash(tensors[i].name);
    size_t slot = hashed & mask;
    size_t steps = 0;
    bool found = false;
    for (; slots_[slot] != 0 && !found; ++steps) {
      if (steps == kLongestSearch) return false;
      if ((slots_[slot] & kTagMask) != (hashed & kTagMask)) {
        slot = (slot + 1) & mask;
        continue;
      }
      // Different names of one tag are too rare to search past, and cheap to make on purpose.
      if (tensors[static_cast<uint32_t>(slots_[slot]) - 1].name != tensors[i].name) return false;
      found = true;
    }
    has_duplicates_ = has_duplicates_ || found;
    if (!found) slots_[slot] = (hashed & kTagMask) | (i + 1);
  }
  return true;
}

std::optional<size_t> NameIndex::find(std::span<const TensorInfo> tensors, std::string_view name) const {
  if (!slots_.empty()) {
    const uint64_t hashed = hash(name);
    const size_t mask = slots_.size() - 1;
    for (size_t slot = hashed & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
      const size_t position = static_cast<uint32_t>(slots_[slot]) - 1;
      if ((slots_[slot] & kTagMask) == (hashed & kTagMask) && tensors[position].name == name) return position;
    }
    return std::nullopt;
  }
  const auto position = [&](size_t rank) { return by_name_.empty() ? rank : by_name_[rank]; };
  size_t low = 0;
  size_t high = tensors.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (tensors[position(middle)].name < name) low = middle + 1;
    else high = middle;
  }
  if (low == tensors.size() || tensors[position(low)].name != name) return std::nullopt;
  return position(low);
}

}  // namespace ballast
