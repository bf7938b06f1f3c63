// Parameters as kernels read them, whatever their type: what a kernel is told of one.
#pragma once

#include <initializer_list>
#include <optional>

#include "ballast/backends/cuda/kernels/weight_type.h"
#include "ballast/backends/cuda/launch.h"

namespace ballast::cuda {

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
constexpr bool is_plain(std::optional<WeightType> type) { return type && *type <= WeightType::kBF16; }
inline bool is_plain_or_absent(const Param* vector) {
  return vector == nullptr || is_plain(weight_type_of(vector->dtype()));
}

// A kernel behind the one that makes a form may read it before it waits for anything: so making it ends first.
inline Status finish_form(Context& context) { return context.workspace().queue().finish(); }

inline bool is_f32(const Tensor& x) { return x.dtype() == DType::kF32; }

// A vector, kNull where it is absent.
struct VectorWeight {
  CudaPointer address = CudaPointer::kNull;
  uint32_t type = 0;
};
inline Result<VectorWeight> vector_weight(Context& context, const Param* param) {
  if (param == nullptr) return VectorWeight{};
  BALLAST_TRY(const WeightSpan span, weights(context, *param));
  return VectorWeight{span.address, static_cast<uint32_t>(*weight_type_of(span.dtype))};
}

constexpr uint64_t address_of(CudaPointer pointer) { return static_cast<uint64_t>(pointer); }

// Sides of images and the like, which kernels take as 32-bit numbers.
inline bool fit_kernels(std::initializer_list<uint64_t> numbers) {
  for (const uint64_t number : numbers) {
    if (number > 0x7FFFFFFF) return false;
  }
  return true;
}
constexpr uint32_t narrow(uint64_t number) { return static_cast<uint32_t>(number); }

// Threads of a block that has a row: whole warps, by the row's width alone, because sums depend on it.
constexpr uint32_t threads_for_row(uint64_t features) {
  uint32_t threads = 32;
  while (threads < 1024 && threads * 8ULL < features) threads *= 2;
  return threads;
}
// A thread for each element, in blocks of 256.
constexpr Grid grid_over(uint64_t count) { return {.grid = {blocks_for(count, 256)}, .block = {256}}; }

}  // namespace ballast::cuda
