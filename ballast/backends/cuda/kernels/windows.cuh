// Where windows of images begin, and the pixels that they have.
#pragma once

#include "common.cuh"

namespace ballast::cuda {

struct Window {
  const float* image;
  int64_t top, left;  // may lie outside

  __device__ __forceinline__ Window(const Windows& p, uint64_t position) {
    set(p, position / p.out_w / p.out_h, position / p.out_w % p.out_h, position % p.out_w);
  }
  // The same for numbers that are cheaper to divide.
  __device__ __forceinline__ Window(const Windows& p, uint32_t position) {
    set(p, position / p.out_w / p.out_h, position / p.out_w % p.out_h, position % p.out_w);
  }

  // Null outside the image.
  __device__ __forceinline__ const float* pixel(const Windows& p, uint32_t down, uint32_t across) const {
    const int64_t y = top + static_cast<int64_t>(down) * p.dilation_h;
    const int64_t x = left + static_cast<int64_t>(across) * p.dilation_w;
    if (y < 0 || y >= p.h || x < 0 || x >= p.w) return nullptr;
    return image + (y * p.w + x) * p.c;
  }

  // body(the row's first pixel, which may lie outside, and which row of the window it is) for rows that lie in the
  // image.
  template <typename Body>
  __device__ __forceinline__ void for_each_row(const Windows& p, const Body& body) const {
    const float* row = image + (top * p.w + left) * p.c;
    for (uint32_t down = 0; down < p.window_h; ++down, row += static_cast<uint64_t>(p.dilation_h) * p.w * p.c) {
      const int64_t y = top + static_cast<int64_t>(down) * p.dilation_h;
      if (y >= 0 && y < p.h) body(row, down);
    }
  }
  __device__ __forceinline__ bool has_column(const Windows& p, uint32_t across) const {
    return static_cast<uint32_t>(static_cast<int>(left) + static_cast<int>(across * p.dilation_w)) < p.w;
  }

  // body(pixel, place in the window) for those that lie in the image, row by row.
  template <typename Body>
  __device__ __forceinline__ void for_each_pixel(const Windows& p, const Body& body) const {
    for (uint32_t down = 0; down < p.window_h; ++down) {
      for (uint32_t across = 0; across < p.window_w; ++across) {
        if (const float* const at = pixel(p, down, across)) body(at, down * p.window_w + across);
      }
    }
  }

 private:
  __device__ __forceinline__ void set(const Windows& p, uint64_t index, uint64_t down, uint64_t across) {
    image = reinterpret_cast<const float*>(p.x) + index * p.h * p.w * p.c;
    top = static_cast<int64_t>(down * p.stride_h) - p.pad_top;
    left = static_cast<int64_t>(across * p.stride_w) - p.pad_left;
  }
};

// Filters and biases of convolutions are of plain types.
__device__ __forceinline__ float plain_at(uint32_t type, DeviceAddress values, uint64_t i) {
  switch (static_cast<WeightType>(type)) {
    case WeightType::kF16: return __half2float(reinterpret_cast<const __half*>(values)[i]);
    case WeightType::kBF16: return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(values)[i]);
    default: return reinterpret_cast<const float*>(values)[i];
  }
}

// What becomes of the sum of a convolution's output, the element of y at `at`.
__device__ __forceinline__ float finished(const ProductEnds& p, uint64_t at, uint64_t output, float sum) {
  if (p.bias != 0) sum += plain_at(p.bias_type, p.bias, output);
  if (p.residual != 0) sum += reinterpret_cast<const float*>(p.residual)[at];
  return bent(p.bend, sum);
}

}  // namespace ballast::cuda
