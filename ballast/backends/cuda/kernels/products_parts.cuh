// What products of few rows and of many have in common: activations in parts, how these are multiplied, and what ends
// an element.
#pragma once

#include "products_formats.cuh"

namespace ballast::cuda {

inline constexpr int kGroupsOfSegment = kSegmentTerms / kGroupTerms;

// ---------------------------------------------------------------- tensor cores
template <bool kHalf>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kHalf) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
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

// The eight terms of this lane in one segment of a row of x: those of group lane / 8, half lane / 4 % 2, as t = lane
// % 4.
template <typename Format>
struct SegmentTerms {
  float x[8];
  float scale;  // what sums of the parts are to be multiplied by

  __device__ __forceinline__ SegmentTerms(const float* row, uint64_t segment, uint64_t k) : scale(1) {
    const uint32_t lane = threadIdx.x % 32, t = lane % 4;
    const uint64_t half = segment * kSegmentTerms + lane / 4 * 32;
    const uint64_t first = half + (Format::kBlock == 0 ? t * 8 : t * 4);
    const uint64_t second = first + (Format::kBlock == 0 ? 4 : 16);
    const bool is_there = first < k;
    const float4 zero = make_float4(0, 0, 0, 0);
    const float4 a = is_there ? *reinterpret_cast<const float4*>(row + first) : zero;
    const float4 b = is_there ? *reinterpret_cast<const float4*>(row + second) : zero;
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

// ---------------------------------------------------------------- parts of many rows
// The parts of 64 rows of x and one group of terms:
//   parts   [tiles of 8 rows][parts][halves][4 words][8 rows][4 lanes]: of each row, part and half, a lane has 4 words
//   of
//           two terms. 128 bytes are 8 columns of 8 terms of a tensor core's operand.
//   scales  [64 rows]
//   totals  [tiles][kTotals][8 rows]: of each 32 or 16 terms
// A group follows the other, then come the next rows.
template <int kParts, int kTotalsOf>
struct PartsLayout {
  static constexpr uint32_t kTotals = kTotalsOf;
  static constexpr uint32_t kHalfBytes = 512, kTileBytes = kParts * 2 * kHalfBytes;
  static constexpr uint32_t kScalesAt = kPartsRows / 8 * kTileBytes, kTotalsAt = kScalesAt + kPartsRows * 4;
  static constexpr uint32_t kBytes = parts_bytes(kParts, kTotalsOf);

  // Of the rows that `row` is among.
  __device__ __forceinline__ static uint64_t at(uint64_t row, uint64_t groups, uint64_t group) {
    return (row / kPartsRows * groups + group) * kBytes;
  }
};
template <typename Format>
using PartsOf = PartsLayout<Format::kActivationParts, Format::kHasOffsets ? (Format::kBlock == 16 ? 4 : 2) : 0>;

// The element of y in row `column` of x.
__device__ __forceinline__ void finish_output(const Product& p, uint64_t column, uint64_t row, float sum) {
  if (column >= p.m || row >= p.n) return;
  const uint64_t at = column * p.n + row;
  sum += value_or(reinterpret_cast<const uint8_t*>(p.bias), p.bias_type, row, 0);
  sum = bent(p.bend, sum);
  if (p.residual != 0) sum += reinterpret_cast<const float*>(p.residual)[at];
  reinterpret_cast<float*>(p.y)[at] = sum;
}

}  // namespace ballast::cuda
