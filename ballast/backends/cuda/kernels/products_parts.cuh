// What products of more than a few rows have in common: where the parts of their activations lie, and what ends an
// element.
#pragma once

#include "products_sums.cuh"

namespace ballast::cuda {

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
