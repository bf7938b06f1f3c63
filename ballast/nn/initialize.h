// The first values of a model's tensors.
#pragma once

#include "ballast/nn/layer.h"

namespace ballast::nn {

// Depends on seed and name alone: a layer begins alike wherever it stands in memory, on any thread.
Status initialize(MutableByteSpan bytes, const TensorInfo& info, const Initial& initial, uint64_t seed);

}  // namespace ballast::nn
