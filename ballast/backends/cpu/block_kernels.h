// Products with weights in blocks as they lie, by integers: what gemm.cc calls for Numerics::kFast.
//
// Activations are rounded, 32 at a time, to integers of 15 bits and a scale; a block of the weight, whose numbers are
// integers already, is multiplied with them exactly. What is left of f32 are the scales: each output is four sums
// (blocks 0, 4, 8 ..., blocks 1, 5, 9 ...) of one multiply-add per block in ascending order, the same on every level
// with fused multiply-add, for any number of rows, threads and tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ballast/base/dtype.h"

namespace ballast::cpu {

// 128 rounded activations: x = scale * (128 * high + low), in four blocks of 32. A half is 16 elements of each block,
// as a vector of weights has them. Numbers that belong to a block stand there four times: for four outputs at once.
struct alignas(64) RoundedStripe {
  int8_t high[2][64];
  int8_t low[2][64];
  float scales[16];
  float scaled_sums[16];  // scale * sum over 128 * high + low
  int32_t sums[2][16];    // of each half
};
constexpr size_t kStripe = 128;
constexpr size_t stripes_of(size_t k) { return (k + kStripe - 1) / kStripe; }

// One block of a group of rows, as tiles (AMX) have them: the same numbers. Rows and blocks that are not there are 0.
struct alignas(64) RoundedTile {
  int8_t high[16][32];
  int8_t low[16][32];
  float scales[16];
  float scaled_sums[16];
  int32_t minus_sums[16];  // of 128 * high + low
};
constexpr size_t kTileGroup = 16;
// Rows of each group: m in as few groups as there can be, all of the same size, which is one that tiles have loops for.
constexpr size_t tile_rows_of(size_t m) {
  const size_t groups = (m + kTileGroup - 1) / kTileGroup;
  return (m + 4 * groups - 1) / (4 * groups) * 4;
}
constexpr size_t tile_groups_of(size_t m) { return (m + tile_rows_of(m) - 1) / tile_rows_of(m); }
// Up to whole stripes.
constexpr size_t tile_blocks_of(size_t k) { return stripes_of(k) * 4; }

enum class RoundedForm { kStripes, kTiles };

bool is_in_blocks(DType dtype);
// Bytes of `count` elements, whole blocks of them.
size_t bytes_of_blocks(DType dtype, size_t count);
// The exact values of whole blocks.
void widen_blocks(DType dtype, const std::byte* blocks, float* out, size_t count);

// Whether the level has products of this type by integers.
bool multiplies_blocks(DType dtype);
// What fast products of this type are computed with: "integers, avx512 vnni", "f32".
std::string_view block_instructions(DType dtype);

// How products of m rows take their activations. The bits of the products do not depend on it.
RoundedForm rounded_form(DType dtype, size_t m, bool packed = false);
size_t rounded_bytes(RoundedForm form, size_t m, size_t k);

struct Activations {
  const float* x = nullptr;
  size_t stride = 0, m = 0, k = 0;  // k is a multiple of 32
};
// Pieces that can be rounded apart from each other: rows of stripes, or a stripe of the rows of a group of tiles.
size_t rounded_pieces(RoundedForm form, size_t m, size_t k);
// Pieces [begin, end) into their places behind `out`. Infinity and NaN make the products of their row NaN.
void round_activations(const Activations& a, RoundedForm form, size_t begin, size_t end, void* out);

// c[i * c_stride + j] for i < m and outputs j in [begin, end); output j is row j of w.
struct BlockProduct {
  DType dtype = DType::kQ8_0;
  const std::byte* w = nullptr;
  size_t row_bytes = 0;
  RoundedForm form = RoundedForm::kStripes;
  const void* a = nullptr;  // m times stripes_of(k) RoundedStripe, or for each group tile_blocks_of(k) RoundedTile
  size_t m = 0, k = 0;
  float* c = nullptr;
  size_t c_stride = 0;
  size_t begin = 0, end = 0;
  bool packed = false;  // w is the packed form; `begin` is a multiple of kPackedOutputs then
};
void multiply_blocks(const BlockProduct& product);

// ---------------------------------------------------------------- packed weights
// The same numbers in the order in which products of several rows read them, so that nothing has to change places:
// panels of 16 outputs; in a panel blocks 0, 4, 8 ..., then 1, 5, 9 ..., 2, 6, 10 ... and 3, 7, 11 ...; of a block four
// neighbouring numbers (or pairs) of each output, the next four of each, and so on, then 16 f16 scales and, where the
// type has them, 16 minima. The bits of the products do not depend on it.
constexpr size_t kPackedOutputs = 16;
// 0: the level has no products with such weights.
size_t packed_bytes(DType dtype, size_t n, size_t k);

// Rows [begin, end) of the n of the weight, which lie from w on, into their places in the packed form of all of them.
struct BlockPacking {
  DType dtype = DType::kQ8_0;
  const std::byte* w = nullptr;
  size_t row_bytes = 0;
  size_t n = 0, k = 0;
  size_t begin = 0, end = 0;
  std::byte* packed = nullptr;
};
void pack_blocks(const BlockPacking& packing);

// What a level has for a type; null where it has nothing.
struct BlockKernels {
  void (*multiply)(const BlockProduct&) = nullptr;
  void (*multiply_tiles)(const BlockProduct&) = nullptr;
  void (*widen)(const std::byte* blocks, float* out, size_t count) = nullptr;
  size_t packed_block_bytes = 0;  // one block of 16 outputs
  void (*pack)(const BlockPacking&) = nullptr;
  void (*multiply_packed)(const BlockProduct&) = nullptr;
  void (*multiply_packed_tiles)(const BlockProduct&) = nullptr;
};
BlockKernels block_kernels(DType dtype);

// For tests: which instructions are used where the machine has them.
enum class ByteInstructions { kTiles, kDotProducts, kPlain };
void use_at_most(ByteInstructions most);

}  // namespace ballast::cpu
