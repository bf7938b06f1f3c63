// Sorting of positions in a list, such as tensors by where their payloads are. The code that sorts exists once, not
// once for each order: an instance of std::stable_sort has 1.5 KB, and a program on a board would have a dozen of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ballast {

// A reference to a callable (uint32_t a, uint32_t b) -> bool, which must outlive it.
class PositionOrder {
 public:
  template <typename Less>
  PositionOrder(const Less& less) : less_(&less), call_(&call<Less>) {}
  bool operator()(uint32_t a, uint32_t b) const { return call_(less_, a, b); }

 private:
  template <typename Less>
  static bool call(const void* less, uint32_t a, uint32_t b) {
    return (*static_cast<const Less*>(less))(a, b);
  }

  const void* less_;
  bool (*call_)(const void* less, uint32_t a, uint32_t b);
};

// 0, 1, ... count - 1.
std::vector<uint32_t> all_positions(size_t count);

// Equal ones keep their order. False where nothing had to move, which takes one pass.
bool sort_positions(std::span<uint32_t> positions, PositionOrder order);

}  // namespace ballast
