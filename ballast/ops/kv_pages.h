// Keys and values of past positions, in pages: how they lie in memory, and what attention sees of a sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ballast/base/dtype.h"
#include "ballast/device/device.h"

namespace ballast {

struct KvShape {
  uint64_t layers = 0;
  uint64_t kv_heads = 0;
  uint64_t head_dim = 0;
  uint64_t most_positions = 0;  // the model's context
  DType dtype = DType::kF32;    // or kF16; kF64 for activations of that type
  // How many positions a query of each layer sees, its own included; 0: all of them. Empty: all, in every layer.
  std::vector<uint64_t> windows = {};

  uint64_t window(uint64_t layer) const { return windows.empty() ? 0 : windows[layer]; }
  friend bool operator==(const KvShape&, const KvShape&) = default;
};

// Pages begin at multiples of this, so that kernels that take keys in blocks of as many, or of a divisor, meet the same
// blocks whatever was dropped before them.
inline constexpr uint64_t kPagePositions = 64;
// Pages that the positions before this one lie in.
constexpr uint64_t kv_pages_for(uint64_t positions) {
  return positions / kPagePositions + (positions % kPagePositions != 0 ? 1 : 0);
}

// Layers that see equally far back.
struct KvGroup {
  uint64_t window = 0;  // 0: everything
  std::vector<uint64_t> layers;
  uint64_t page_bytes = 0;

  // The first of the pages that queries at `position` and behind it look at.
  uint64_t first_page(uint64_t position) const {
    return window == 0 || position < window ? 0 : (position + 1 - window) / kPagePositions;
  }
};

// A page of a group holds kPagePositions positions of all its layers: [layers, keys and values, kv_heads,
// kPagePositions, head_dim].
class KvLayout {
 public:
  // kInvalidArgument where there is nothing to hold, a page is no number of bytes, or the windows are not as many as
  // the layers. Groups are in the order of their first layers.
  static Result<KvLayout> make(const KvShape& shape);

  const KvShape& shape() const { return shape_; }
  std::span<const KvGroup> groups() const { return groups_; }
  uint64_t group_of(uint64_t layer) const { return places_[layer].group; }
  // Of the keys or values [kv_heads, kPagePositions, head_dim] of a layer, in bytes from the beginning of a page.
  uint64_t keys_offset(uint64_t layer) const { return places_[layer].index * 2 * plane_bytes_; }
  uint64_t values_offset(uint64_t layer) const { return keys_offset(layer) + plane_bytes_; }
  uint64_t row_bytes() const { return row_bytes_; }  // of one head of one position
  // Of the most pages that a text of so many positions holds, when it grows position by position. `besides`: positions
  // that it holds besides those that its windows see, because they may be taken back, or because a pass has many rows.
  // nullopt where that is no number.
  std::optional<uint64_t> bytes_for(uint64_t positions, uint64_t besides = 0) const;

 private:
  struct Place {
    uint64_t group = 0, index = 0;  // its place among the layers of the group
  };

  void place(uint64_t layer);

  KvShape shape_;
  std::vector<KvGroup> groups_;
  std::vector<Place> places_;
  uint64_t row_bytes_ = 0, plane_bytes_ = 0;
};

// Shared by the sequences that have the same beginning; nobody writes to one that is shared.
using KvPage = std::shared_ptr<DeviceMemory>;

// The past of one sequence. pages[group][i] has the positions from i * kPagePositions on; null: nobody looks at them
// any more.
struct KvPast {
  std::shared_ptr<const KvLayout> layout;
  std::vector<std::vector<KvPage>> pages;
};

// Some rows of a pass: positions [position, position + rows) of one sequence, whose pages are there and not shared.
struct KvRows {
  const KvPast* past = nullptr;
  uint64_t position = 0;
  uint64_t rows = 0;
};

}  // namespace ballast
