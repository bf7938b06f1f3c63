// Products with bf16 weights [N, K] by the tiles of AMX: what gemm.cc calls for Numerics::kFast on the level "amx".
//
// Tiles multiply bf16 numbers and add in f32. The weights are bf16 already, and rows of them are tiles as they lie. An
// activation becomes two numbers, the nearest bf16 and the nearest bf16 to what is left: at most 2^-18 of it is lost.
// An output is the sum of two sums over all terms, that of the high parts and that of the low parts. Each is one chain
// in ascending order of one step for 32 terms, in which the instruction adds up the even terms, then the odd terms,
// with fused multiply-adds, and both to the sum. So the bits follow from K alone: rows are columns of a tile and never
// meet.
//
// One chain for high and low parts in turns would need half the registers, but rounds each low part to the sum's last
// bit; and with two, an infinite weight, whose product with a low part of 0 is NaN, leaves the high sum what f32 gives.
// Subnormal numbers count as 0, which is how the instruction is made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ballast/backends/host/kernel_table.h"

namespace ballast::cpu {

// Whether this product is computed so.
bool is_by_bf16_tiles(const GemmTile<float>& tile);

// Activations in the order of tiles: groups of rows, which are the columns of a tile. A step of a group is 32 terms,
// two of each column in a row of the tile. Up to 8 rows are one group, in tiles of as many columns as there are high
// parts and, behind them, low parts; more are groups of 16, for which each step has a tile of high parts and one of low
// parts. Terms and rows beyond the last are 0.
constexpr size_t kFewRows = 8;
constexpr size_t kSplitTerms = 32;
constexpr size_t split_group_rows(size_t m) { return m <= kFewRows ? m : 16; }
constexpr size_t split_groups_of(size_t m) { return m == 0 ? 0 : (m + split_group_rows(m) - 1) / split_group_rows(m); }
constexpr size_t split_steps_of(size_t k) { return (k + kSplitTerms - 1) / kSplitTerms; }
constexpr size_t split_step_bytes(size_t m) { return 2 * split_group_rows(m) * kSplitTerms * 2; }
constexpr size_t split_bytes(size_t m, size_t k) {
  return split_groups_of(m) * split_steps_of(k) * split_step_bytes(m);
}

// Steps [begin, end) of those of all groups, group by group, into their places behind `out`, which is aligned to 64.
struct SplitActivations {
  const float* x = nullptr;
  size_t stride = 0, m = 0, k = 0;
  size_t begin = 0, end = 0;
  std::byte* out = nullptr;
};
void split_activations(const SplitActivations& split);

// c[i * c_stride + j] for rows i in [row_begin, row_end) and outputs j in [begin, end); output j is row j of w. Up to
// kDirectRows rows are computed at once; of more, row_begin is a multiple of 16.
struct Bf16Product {
  const std::byte* w = nullptr;  // aligned to nothing
  const std::byte* a = nullptr;  // split
  size_t m = 0, k = 0;
  float* c = nullptr;
  size_t c_stride = 0;
  size_t row_begin = 0, row_end = 0;
  size_t begin = 0, end = 0;
};
void multiply_bf16_tiles(const Bf16Product& product);

// Rows up to which weights go through tiles once, where they lie. More are computed in blocks of so many rows and
// outputs, whose activations and sums stay in the second-level cache.
constexpr size_t kDirectRows = 32;
constexpr size_t kMostRows = 128;
constexpr size_t kMostOutputs = 256;

// What a level has; null where it has nothing.
struct Bf16Kernels {
  void (*split)(const SplitActivations&) = nullptr;
  void (*multiply)(const Bf16Product&) = nullptr;
};

}  // namespace ballast::cpu
