// Which tensors go together when an archive is written as several files.
#pragma once

#include <span>
#include <vector>

#include "ballast/formats/description.h"

namespace ballast {

// Tensors in their order, a new file whenever the next one would exceed `limit` bytes; one larger than the limit stands
// alone. At least one file, which is empty where there are no tensors.
std::vector<std::vector<size_t>> assign_shards(std::span<const TensorInfo> tensors, uint64_t limit);

}  // namespace ballast
