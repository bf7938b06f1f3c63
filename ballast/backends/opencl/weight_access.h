// Parameters as kernels read them, whatever their type: what a kernel is told of one.
#pragma once

#include <initializer_list>
#include <optional>

#include "ballast/backends/opencl/launch.h"

namespace ballast::opencl {

// The numbers are those of kernels/common.cl.
enum class WeightType : uint32_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K };

// nullopt for a type that no kernel reads.
constexpr std::optional<WeightType> weight_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return WeightType::kF32;
    case DType::kF16: return WeightType::kF16;
    case DType::kBF16: return WeightType::kBF16;
    case DType::kQ8_0: return WeightType::kQ8_0;
    case DType::kQ4_0: return WeightType::kQ4_0;
    case DType::kQ4_1: return WeightType::kQ4_1;
    case DType::kQ5_0: return WeightType::kQ5_0;
    case DType::kQ5_1: return WeightType::kQ5_1;
    case DType::kQ2K: return WeightType::kQ2K;
    case DType::kQ3K: return WeightType::kQ3K;
    case DType::kQ4K: return WeightType::kQ4K;
    case DType::kQ5K: return WeightType::kQ5K;
    case DType::kQ6K: return WeightType::kQ6K;
    default: return std::nullopt;
  }
}
inline bool is_readable(const Param& param) { return weight_type_of(param.dtype()).has_value(); }
inline bool is_readable_or_absent(const Param* param) { return param == nullptr || is_readable(*param); }
// Not blocks.
constexpr bool is_plain(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }
inline bool is_f32(const Tensor& x) { return x.dtype() == DType::kF32; }

// A vector, null where it is absent.
struct VectorWeight {
  Buffer buffer;
  uint32_t type = 0;
};
inline Result<VectorWeight> vector_weight(Context& context, const Param* param) {
  if (param == nullptr) return VectorWeight{};
  BALLAST_TRY(const WeightSpan span, weights(context, *param));
  return VectorWeight{span.buffer, static_cast<uint32_t>(*weight_type_of(span.dtype))};
}

// Sides of images and the like, which kernels take as 32-bit numbers.
inline bool fit_kernels(std::initializer_list<uint64_t> numbers) {
  for (const uint64_t number : numbers) {
    if (number > 0x7FFFFFFF) return false;
  }
  return true;
}
constexpr uint32_t narrow(uint64_t number) { return static_cast<uint32_t>(number); }

}  // namespace ballast::opencl
