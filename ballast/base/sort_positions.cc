#include "ballast/base/sort_positions.h"

#include <algorithm>
#include <numeric>

namespace ballast {

std::vector<uint32_t> all_positions(size_t count) {
  std::vector<uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0U);
  return positions;
}

bool sort_positions(std::span<uint32_t> positions, PositionOrder order) {
  if (std::ranges::is_sorted(positions, order)) return false;
  std::ranges::stable_sort(positions, order);
  return true;
}

}  // namespace ballast
