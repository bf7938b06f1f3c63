// Sums of products: activations in parts, and what a warp adds up of them (products.cu says in what order).
#pragma once

#include "products_formats.cuh"

namespace ballast::cuda {

constexpr int kThreads = 32 * kProductWarps;
constexpr int kGroupsOfSegment = kSegmentTerms / kGroupTerms;
constexpr int kOutputStride = kTileRows + 4;  // of a column in shared memory: no bank is asked twice

// ---------------------------------------------------------------- tensor cores
template <bool kHalf>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kHalf) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// ---------------------------------------------------------------- activations in parts
// f16 has few exponents: the terms of a segment are scaled by a power of two that brings the largest near the end of
// its range. Terms that are 2^39 times smaller are lost then, and of others no more than 2^-22 of themselves.
__device__ __forceinline__ int exponent_shift(float largest) {
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23 & 255U);
  if (largest == 0 || exponent == 255) return 0;
  const int shift = 14 - (exponent - 127);
  return shift > 100 ? 100 : shift;
}
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(127 + exponent) << 23);
}

// Two numbers of the parts that x and y are the sums of.
template <typename Format>
__device__ __forceinline__ uint32_t take_part(float& x, float& y) {
  if constexpr (Format::kHalf) {
    const __half2 pair = __floats2half2_rn(x, y);
    x -= __low2float(pair);
    y -= __high2float(pair);
    return bits_of(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    x -= __low2float(pair);
    y -= __high2float(pair);
    return bits_of(pair);
  }
}

// Where the eight terms of this lane in one segment of a row of x lie, four and four: those of group lane / 8, half
// lane / 4 % 2, as t = lane % 4.
template <typename Format>
struct TermPlace {
  uint32_t first, second;
  bool is_there;

  __device__ __forceinline__ TermPlace(uint32_t segment, uint64_t k) {
    const uint32_t lane = threadIdx.x % 32, t = lane % 4;
    const uint32_t half = segment * static_cast<uint32_t>(kSegmentTerms) + lane / 4 * 32;
    first = half + (Format::kBlock == 0 ? t * 8 : t * 4);
    second = first + (Format::kBlock == 0 ? 4 : 16);
    is_there = first < k;
  }
};

template <typename Format>
struct SegmentTerms {
  float x[8];
  float scale;  // what sums of the parts are to be multiplied by

  __device__ __forceinline__ SegmentTerms(const float4& a, const float4& b) : scale(1) {
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    if constexpr (Format::kHalf) {
      float largest = 0;
#pragma unroll
      for (const float value : x) largest = fmaxf(largest, fabsf(value));
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, offset));
      }
      const int shift = exponent_shift(largest);
      const float factor = power_of_two(shift);
      scale = power_of_two(-shift);
#pragma unroll
      for (float& value : x) value *= factor;
    }
  }

  // Part after part: words of eight terms.
  __device__ __forceinline__ uint4 take() {
    uint4 part;
    part.x = take_part<Format>(x[0], x[1]);
    part.y = take_part<Format>(x[2], x[3]);
    part.z = take_part<Format>(x[4], x[5]);
    part.w = take_part<Format>(x[6], x[7]);
    return part;
  }
};

// Where part p of half h of a group lies, for t = 0: `columns` times 4 runs of 16 bytes for each.
template <typename Format>
__device__ __forceinline__ uint64_t parts_at(uint64_t group, int p, int h, uint64_t columns) {
  return ((group * Format::kActivationParts + p) * 2 + h) * columns * 4;
}

// The parts of one segment of one row, of which this lane has a and b.
template <typename Format>
__device__ __forceinline__ void split_segment(const float4& a, const float4& b, uint64_t segment, uint64_t k,
                                              uint64_t first_group, uint64_t columns, uint64_t column, uint4* parts,
                                              float* scale) {
  const Lane lane;
  SegmentTerms<Format> terms(a, b);
  const uint64_t group = first_group + lane.index / 8;
  if (segment * kSegmentTerms + lane.index / 8 * kGroupTerms < k) {
#pragma unroll
    for (int p = 0; p < Format::kActivationParts; ++p) {
      parts[parts_at<Format>(group, p, lane.index / 4 % 2, columns) + column * 4 + lane.t] = terms.take();
    }
  }
  if (lane.index == 0) *scale = terms.scale;
}

// ---------------------------------------------------------------- a warp's sums
template <typename Format>
__device__ __forceinline__ void multiply_parts(float (&c)[4], const uint32_t (&a)[Format::kWeightParts][4],
                                               const uint4 (&b)[Format::kActivationParts], int q) {
  // The smallest products first.
#pragma unroll
  for (int order = Format::kActivationParts - 1; order >= 0; --order) {
#pragma unroll
    for (int w = Format::kWeightParts - 1; w >= 0; --w) {
      const int p = order - w;
      if (p >= 0) multiply<Format::kHalf>(c, a[w], word_of(b[p], 2 * q), word_of(b[p], 2 * q + 1));
    }
  }
}

// sums += scale * c + offset * (the sum of the activations), for the rows g and g + 8.
template <typename Format>
__device__ __forceinline__ void add_block(float (&sums)[4], const float (&c)[4], const float (&total)[4],
                                          const typename Format::Group& group, int h, int q) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums[i] = fmaf(Format::scale(group, h, q, i / 2), c[i], sums[i]);
    if constexpr (Format::kHasOffsets) sums[i] = fmaf(Format::offset(group, h, q, i / 2), total[i], sums[i]);
  }
}

// One half of a group for one tile of 8 rows of x.
template <typename Format>
__device__ __forceinline__ void multiply_half(float (&sums)[4], const typename Format::Group& group,
                                              const uint32_t (&a)[2][Format::kWeightParts][4],
                                              const uint4 (&b)[Format::kActivationParts], int h) {
  if constexpr (Format::kBlock == 0) {
    multiply_parts<Format>(sums, a[0], b, 0);
    multiply_parts<Format>(sums, a[1], b, 1);
  } else {
    const uint32_t ones[1][4] = {{0x3C003C00U, 0x3C003C00U, 0x3C003C00U, 0x3C003C00U}};
    float c[4] = {}, total[4] = {};
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      multiply_parts<Format>(c, a[q], b, q);
      if constexpr (Format::kHasOffsets) multiply_parts<Format>(total, ones, b, q);
      if (Format::kBlock == 32 && q == 0) continue;
      add_block<Format>(sums, c, total, group, h, q);
      if constexpr (Format::kBlock == 16) {
#pragma unroll
        for (int i = 0; i < 4; ++i) c[i] = total[i] = 0;
      }
    }
  }
}

}  // namespace ballast::cuda
