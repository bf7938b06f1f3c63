// What all kernels share: the order of launches, loops over elements, sums over a block, activations.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "arguments.h"
#include "weight_type.h"

namespace ballast::cuda {

// Where launches overlap (programmatic dependent launch, from Hopper on), a kernel starts while the one before it still
// runs. Nothing that depends on earlier kernels may be touched before wait_for_earlier(), and every kernel calls it:
// the end of one then means the end of all before it. Without overlap both do nothing. Loads that need not be coherent
// (__ldg) are for what no kernel writes while another may run: parameters and their forms.
__device__ __forceinline__ void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_later_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void begin_kernel() {
  let_later_start();
  wait_for_earlier();
}

__device__ __forceinline__ uint64_t first_index() {
  return static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ uint64_t index_step() { return static_cast<uint64_t>(gridDim.x) * blockDim.x; }

// body(i) for all i below `count`, whatever the grid is.
template <typename Body>
__device__ __forceinline__ void for_each_index(uint64_t count, const Body& body) {
  for (uint64_t i = first_index(); i < count; i += index_step()) body(i);
}

// The same with numbers that are cheap to divide, where they fit.
template <typename Body>
__device__ __forceinline__ void for_each_small_index(uint64_t count, const Body& body) {
  if (count >> 31 != 0) {
    for_each_index(count, body);
    return;
  }
  for (uint32_t i = static_cast<uint32_t>(first_index()); i < count; i += static_cast<uint32_t>(index_step())) body(i);
}

// ---------------------------------------------------------------- reductions
// The order of the terms depends on the number of threads alone, which launches choose by shapes.
struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
// NaN stays NaN.
struct Largest {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};

template <typename T, typename Combine>
__device__ __forceinline__ T reduce_warp(T value, const Combine& combine) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, offset));
  return value;
}
// Of all threads of a block of whole warps; every thread gets the result. `identity` changes nothing.
template <typename T, typename Combine>
__device__ __forceinline__ T reduce_block(T value, T identity, const Combine& combine) {
  __shared__ T partial[32];
  value = reduce_warp(value, combine);
  if (blockDim.x <= 32) return value;
  __syncthreads();  // of an earlier reduction nobody reads any more
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : identity;
  return reduce_warp(value, combine);
}

// ---------------------------------------------------------------- functions of one argument
// NaN stays NaN in all of these.
__device__ __forceinline__ float relu(float x) { return x < 0 ? 0 : x; }
__device__ __forceinline__ float relu6(float x) { return x > 6 ? 6 : relu(x); }
__device__ __forceinline__ float silu(float x) { return x / (1 + expf(-x)); }
__device__ __forceinline__ float gelu_erf(float x) { return 0.5F * x * (1 + erff(x * 0.70710678118654752F)); }
__device__ __forceinline__ float gelu_tanh(float x) {
  return 0.5F * x * (1 + tanhf(0.79788456080286536F * (x + 0.044715F * x * x * x)));
}
__device__ __forceinline__ float bent(uint32_t bend, float x) {
  switch (static_cast<Bend>(bend)) {
    case Bend::kNone: return x;
    case Bend::kRelu: return relu(x);
    case Bend::kRelu6: return relu6(x);
    case Bend::kGeluErf: return gelu_erf(x);
    case Bend::kGeluTanh: return gelu_tanh(x);
    case Bend::kSilu: return silu(x);
  }
  return x;
}

}  // namespace ballast::cuda
