// What norms make of an element, for kernels that write it and for products that go on with it.
#pragma once

#include "weight_values.cuh"

namespace ballast::cuda {

// What the elements of a row have in common.
struct RowNorm {
  float mean, inverse;
};

__device__ __forceinline__ float rms_normed(const RowNorm& norm, float x, float gamma, float shift) {
  return x * norm.inverse * (gamma + shift);
}
__device__ __forceinline__ float layer_normed(const RowNorm& norm, float x, float gamma, float beta) {
  return (x - norm.mean) * norm.inverse * gamma + beta;
}

// `sum(term)` gives the sum of term(x) over the elements x of the row, in an order that its width alone decides.
template <typename SumOver>
__device__ __forceinline__ RowNorm rms_of_row(uint64_t features, float eps, const SumOver& sum) {
  const float squares = sum([](float x) { return x * x; });
  return {0, 1 / sqrtf(squares / static_cast<float>(features) + eps)};
}
template <typename SumOver>
__device__ __forceinline__ RowNorm deviation_of_row(uint64_t features, float eps, const SumOver& sum) {
  const float share = 1 / static_cast<float>(features);
  const float mean = sum([](float x) { return x; }) * share;
  const float squares = sum([=](float x) { return (x - mean) * (x - mean); });
  return {mean, 1 / sqrtf(squares * share + eps)};
}

}  // namespace ballast::cuda
