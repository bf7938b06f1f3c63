#include "ballast/formats/shards.h"

#include "ballast/base/checked.h"

namespace ballast {

std::vector<std::vector<size_t>> assign_shards(std::span<const TensorInfo> tensors, uint64_t limit) {
  std::vector<std::vector<size_t>> shards(1);
  uint64_t used = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto next = checked_add(used, tensors[i].byte_size);
    if (!shards.back().empty() && (!next || *next > limit)) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(i);
    used += tensors[i].byte_size;
  }
  return shards;
}

}  // namespace ballast
