// Elements by themselves.
#include <cstdint>

extern "C" __global__ void fill_f32(float* y, float value, uint64_t count) {
  const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) y[i] = value;
}
