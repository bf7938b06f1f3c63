// The types of weights that kernels read, and how many bytes their blocks have: for kernels and for those who launch
// them.
#pragma once

#include <cstdint>

namespace ballast::cuda {

enum class WeightType : uint32_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K };

// What is done to a product before the residual is added; in the order of ballast::Activation.
enum class Bend : uint32_t { kNone, kRelu, kRelu6, kGeluErf, kGeluTanh, kSilu };

}  // namespace ballast::cuda
