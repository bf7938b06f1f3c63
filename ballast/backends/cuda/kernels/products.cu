// Products of activations with weights.
//
// One element of y is one chain of operations, whatever else is computed in the same pass:
//   a term           x and the weight as one to three numbers of 16 bits each, whose products are exact in f32
//   a segment        256 terms: fragments of 16 terms in ascending order, added up by tensor cores (of blocks: the
//                    sums of whole numbers of 16 or 32 terms, times their scale, added up with fused multiply-add)
//   the element      the sums of segments, added in ascending order
// A warp computes a segment for 16 outputs and 8 rows of x or more. Columns of a tensor core's operand do not meet, so
// how many rows there are, and which, changes nothing. The 8 warps of a block share an output's segments, so many at a
// time, a round; where rows are few (products_row.cu), fewer of them do, which changes nothing either. Products of many
// rows have the same chains by other instructions, where there are such (products_many.cu).
//
// Each warp has the next four groups of 64 terms of its weights under way; the first are asked for before the kernel
// waits for those that compute x.
#include "products_parts.cuh"

using namespace ballast::cuda;

namespace {

// ---------------------------------------------------------------- activations in parts
// The sums of the parts of a lane's eight terms with the three lanes beside it: of 32 terms, or two of 16. As products
// with ones, in the order that products have. Lane t < 4 has those of group t of the segment, half h in c[..][h].
template <typename Format, int kTotals>
__device__ __forceinline__ void sum_parts(const uint4 (&words)[Format::kActivationParts], float (&c)[2][4]) {
  const uint32_t ones[1][4] = {{0x3C003C00U, 0x3C003C00U, 0x3C003C00U, 0x3C003C00U}};
  multiply_parts<Format>(c[0], ones, words, 0);
  multiply_parts<Format>(c[kTotals == 4 ? 1 : 0], ones, words, 1);
}

// A block a segment of 8 rows, to what products_parts.cuh describes; behind the last row of a tile there are zeros.
// kTotals: sums of parts that are wanted for each group.
template <typename Format, int kTotals>
__device__ __forceinline__ void split_rows(const float* x, uint8_t* parts, uint64_t m, uint64_t k) {
  using Layout = PartsLayout<Format::kActivationParts, kTotals>;
  constexpr uint32_t kHalves = Format::kActivationParts * 2;
  // Each half with 16 bytes to spare: no bank is asked more than twice.
  __shared__ uint4 staged[kGroupsOfSegment * kHalves][Layout::kHalfBytes / 16 + 1];
  begin_kernel();
  const Lane lane;
  const uint64_t segments = (k + kSegmentTerms - 1) / kSegmentTerms, groups = (k + kGroupTerms - 1) / kGroupTerms;
  const uint64_t segment = blockIdx.x % segments, first_row = blockIdx.x / segments * 8;
  const uint32_t tile = first_row % kPartsRows / 8, column = threadIdx.x / 32;
  const uint64_t row = first_row + column, first_group = segment * kGroupsOfSegment, left = groups - first_group;
  const uint32_t count = left < kGroupsOfSegment ? static_cast<uint32_t>(left) : kGroupsOfSegment;
  const TermPlace<Format> place(static_cast<uint32_t>(segment), row < m ? k : 0);
  const float* from = x + row * k;
  const float4 zero = make_float4(0, 0, 0, 0);
  SegmentTerms<Format> terms(place.is_there ? *reinterpret_cast<const float4*>(from + place.first) : zero,
                             place.is_there ? *reinterpret_cast<const float4*>(from + place.second) : zero);
  uint4 words[Format::kActivationParts];
#pragma unroll
  for (int p = 0; p < Format::kActivationParts; ++p) {
    words[p] = terms.take();
    uint32_t* to = reinterpret_cast<uint32_t*>(staged[lane.index / 8 * kHalves + p * 2 + lane.index / 4 % 2]);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i * 32 + column * 4 + lane.t] = word_of(words[p], i);
  }
  uint8_t* const to = parts + Layout::at(first_row, groups, first_group);
  float totals[2][4] = {};
  if constexpr (kTotals != 0) sum_parts<Format, kTotals>(words, totals);
  if (lane.index < count) {
    uint8_t* const of_group = to + lane.index * Layout::kBytes;
    reinterpret_cast<float*>(of_group + Layout::kScalesAt)[tile * 8 + column] = terms.scale;
#pragma unroll
    for (int i = 0; i < kTotals; ++i) {
      const float total = kTotals == 4 ? totals[i % 2][i / 2] : totals[0][i];
      reinterpret_cast<float*>(of_group + Layout::kTotalsAt)[(tile * kTotals + i) * 8 + column] = total;
    }
  }
  __syncthreads();
  constexpr uint32_t kOfGroup = Layout::kTileBytes / 16, kOfHalf = Layout::kHalfBytes / 16;
  for (uint32_t i = threadIdx.x; i < count * kOfGroup; i += kThreads) {
    uint8_t* const of_group = to + i / kOfGroup * Layout::kBytes + tile * Layout::kTileBytes;
    reinterpret_cast<uint4*>(of_group)[i % kOfGroup] = staged[i / kOfHalf][i % kOfHalf];
  }
}

// ---------------------------------------------------------------- the kernel
// kTiles: tiles of 8 rows of x that a block takes.
template <typename Format, int kTiles>
struct Multiplier {
  const Product& p;
  const Lane lane;
  const uint32_t warp;  // the segment of a round that it takes
  const uint64_t segments, groups, rounds;
  const uint64_t first_column;  // row of x
  typename Format::Group ring[Format::kRing];
  float sums[kTiles][4];

  __device__ __forceinline__ explicit Multiplier(const Product& product)
      : p(product),
        warp(threadIdx.x / 32),
        segments((product.k + kSegmentTerms - 1) / kSegmentTerms),
        groups((product.k + kGroupTerms - 1) / kGroupTerms),
        rounds((segments + kProductWarps - 1) / kProductWarps),
        first_column(blockIdx.y * (8ULL * kTiles)) {}

  __device__ __forceinline__ auto rows_of_weights() const {
    if constexpr (Format::kBlock == 0) return typename Format::Rows(p, blockIdx.x, lane);
    else return PackedRows::of<Format>(p, blockIdx.x);
  }
  __device__ __forceinline__ uint64_t segment_at(uint64_t round) const { return round * kProductWarps + warp; }
  // The i-th group that this warp takes.
  __device__ __forceinline__ uint64_t group_at(uint64_t i) const {
    return segment_at(i / kGroupsOfSegment) * kGroupsOfSegment + i % kGroupsOfSegment;
  }

  __device__ __forceinline__ bool has_tile(int tile) const { return first_column + 8 * tile < p.m; }

  // What this lane multiplies of half h of a group, in parts.
  __device__ __forceinline__ void activations(uint64_t group, int tile, int h,
                                              uint4 (&b)[Format::kActivationParts]) const {
    const uint64_t column = first_column + 8 * tile + lane.g;
#pragma unroll
    for (int part = 0; part < Format::kActivationParts; ++part) {
      b[part] = make_uint4(0, 0, 0, 0);
      if (column >= p.m) continue;
      using Layout = PartsOf<Format>;
      const uint32_t at = column % kPartsRows / 8 * Layout::kTileBytes + (part * 2 + h) * Layout::kHalfBytes;
      const uint8_t* from = reinterpret_cast<const uint8_t*>(p.parts) + Layout::at(column, groups, group) + at;
      const uint32_t* words = reinterpret_cast<const uint32_t*>(from) + lane.index;
      b[part] = make_uint4(words[0], words[32], words[64], words[96]);
    }
  }

  __device__ __forceinline__ void multiply_group(const typename Format::Group& weights, uint64_t group) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t a[2][Format::kWeightParts][4];
      Format::fragments(weights, h, 0, a[0]);
      Format::fragments(weights, h, 1, a[1]);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        if (!has_tile(tile)) continue;
        uint4 b[Format::kActivationParts];
        activations(group, tile, h, b);
        multiply_half<Format>(sums[tile], weights, a, b, h);
      }
    }
  }

  __device__ __forceinline__ float scale_of(uint64_t segment, int tile, uint64_t column_of_tile) const {
    if constexpr (!Format::kHalf) return 1;
    if (first_column + 8 * tile + column_of_tile >= p.m) return 1;
    using Layout = PartsOf<Format>;
    const uint64_t column = first_column + 8 * tile + column_of_tile;
    const uint8_t* from = reinterpret_cast<const uint8_t*>(p.parts) + Layout::kScalesAt;
    from += Layout::at(column, groups, segment * kGroupsOfSegment);
    return reinterpret_cast<const float*>(from)[column % kPartsRows];
  }

  // [8 * kTiles columns][kOutputStride] of this warp's segment.
  __device__ __forceinline__ void put_sums(uint64_t segment, float* to) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      if (!has_tile(tile)) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t column = 2 * lane.t + i % 2, row = lane.g + i / 2 * 8;
        to[(8 * tile + column) * kOutputStride + row] = sums[tile][i] * scale_of(segment, tile, column);
      }
    }
  }
};

template <typename Format, int kTiles>
__device__ __forceinline__ void run_product(const Product& p) {
  constexpr int kColumns = 8 * kTiles, kOutputs = kColumns * static_cast<int>(kTileRows);
  constexpr int kOfThread = (kOutputs + kThreads - 1) / kThreads;
  __shared__ float partial[kProductWarps][kColumns * kOutputStride];
  Multiplier<Format, kTiles> multiplier(p);
  const auto rows = multiplier.rows_of_weights();
#pragma unroll
  for (int i = 0; i < Format::kRing; ++i)
    Format::load(multiplier.ring[i], rows, multiplier.group_at(i), multiplier.lane);
  begin_kernel();

  float outputs[kOfThread] = {};
  for (uint64_t round = 0; round < multiplier.rounds; ++round) {
    const uint64_t segment = multiplier.segment_at(round);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) multiplier.sums[tile][i] = 0;
    }
#pragma unroll
    for (int i = 0; i < kGroupsOfSegment; ++i) {
      auto& weights = multiplier.ring[i % Format::kRing];
      const uint64_t group = segment * kGroupsOfSegment + i;
      if (group < multiplier.groups) multiplier.multiply_group(weights, group);
      Format::load(weights, rows, multiplier.group_at(round * kGroupsOfSegment + i + Format::kRing), multiplier.lane);
    }
    if (segment < multiplier.segments) multiplier.put_sums(segment, partial[multiplier.warp]);
    __syncthreads();
    const uint64_t left = multiplier.segments - round * kProductWarps;
    const int count = static_cast<int>(left < kProductWarps ? left : kProductWarps);
#pragma unroll
    for (int j = 0; j < kOfThread; ++j) {
      const int output = static_cast<int>(threadIdx.x) + j * kThreads;
      if (output >= kOutputs) continue;
      const int at = output / static_cast<int>(kTileRows) * kOutputStride + output % static_cast<int>(kTileRows);
      for (int warp = 0; warp < count; ++warp) outputs[j] += partial[warp][at];
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < kOfThread; ++j) {
    const int output = static_cast<int>(threadIdx.x) + j * kThreads;
    if (output >= kOutputs) continue;
    finish_output(p, multiplier.first_column + output / kTileRows, blockIdx.x * kTileRows + output % kTileRows,
                  outputs[j]);
  }
}

// ---------------------------------------------------------------- any type, any layout, any size
constexpr int kPlainTile = 16;

__device__ __forceinline__ float plain_weight(const PlainProduct& p, const uint8_t* weights, uint64_t k, uint64_t n) {
  const auto type = static_cast<WeightType>(p.weight_type);
  return p.in_out != 0 ? weight_at(type, weights + k * p.row_bytes, n) : weight_at(type, weights + n * p.row_bytes, k);
}

// ---------------------------------------------------------------- repacking
// The codes of row r of a tile, without what the format takes from them, and 0 behind the matrix.
template <typename Format>
struct BlockTile {
  const uint8_t* from;
  uint64_t first_row, n, k, row_bytes;

  __device__ __forceinline__ uint32_t code(int row, uint64_t term) const {
    if (first_row + row >= n || term >= k) return 0;
    const CodedValue value = coded_value(Format::kType, from + (first_row + row) * row_bytes, term);
    return static_cast<uint32_t>(value.code + Format::kCodeOffset);
  }
};

template <typename Format>
__device__ void pack_codes(const BlockTile<Format>& tile, uint64_t group, const Lane& lane, uint8_t* out) {
  constexpr int kLow = Format::kLowBits, kHigh = Format::kHighBits;
  uint32_t low[8] = {}, high[2] = {};
  for (int r = 0; r < 2; ++r) {
    for (int h = 0; h < 2; ++h) {
      for (int j = 0; j < 8; ++j) {
        const uint64_t term = group * kGroupTerms + h * 32 + j / 4 * 16 + lane.t * 4 + j % 4;
        const uint32_t code = tile.code(static_cast<int>(lane.g) + 8 * r, term);
        const uint32_t below = code & ((1U << kLow) - 1), above = code >> kLow;
        const int pair = j / 2, side = j % 2 * 16;
        if (kLow == 8) low[h * 4 + r * 2 + j / 4] |= below << (8 * (j % 4));
        if (kLow == 4) low[h * 2 + r] |= below << (pair * 4 + side);
        if (kLow == 2) low[r] |= below << ((h * 4 + pair) * 2 + side);
        if (kHigh == 1) high[0] |= above << ((r * 2 + h) * 4 + pair + side);
        if (kHigh == 2) high[r] |= above << ((h * 4 + pair) * 2 + side);
      }
    }
  }
  if (kLow == 2) {
    reinterpret_cast<uint2*>(out)[lane.index] = make_uint2(low[0], low[1]);
  } else {
    for (int i = 0; i < kLow / 4; ++i) {
      reinterpret_cast<uint4*>(out + i * 512)[lane.index] =
          make_uint4(low[4 * i], low[4 * i + 1], low[4 * i + 2], low[4 * i + 3]);
    }
  }
  out += 32 * Format::kLowBytes;
  if (kHigh == 1) reinterpret_cast<uint32_t*>(out)[lane.index] = high[0];
  if (kHigh == 2) reinterpret_cast<uint2*>(out)[lane.index] = make_uint2(high[0], high[1]);
}

__device__ __forceinline__ uint32_t bytes_at(const uint8_t* from, int count) {
  uint32_t word = 0;
  for (int i = 0; i < count; ++i) word |= static_cast<uint32_t>(from[i]) << (8 * i);
  return word;
}

// What scales 64 terms of one row of a type with blocks of 32 terms: of each of two blocks the first bytes.
template <typename Format>
__device__ uint2 small_meta(const uint8_t* row, uint64_t group, uint64_t blocks) {
  constexpr int kBytes = Format::kType == WeightType::kQ8_0   ? 34
                         : Format::kType == WeightType::kQ4_0 ? 18
                         : Format::kType == WeightType::kQ4_1 ? 20
                         : Format::kType == WeightType::kQ5_0 ? 22
                                                              : 24;
  const uint8_t* first = row + group * 2 * kBytes;
  const bool has_second = group * 2 + 1 < blocks;
  if (Format::kMetaBytes == 4) {
    return make_uint2(bytes_at(first, 2) | (has_second ? bytes_at(first + kBytes, 2) << 16 : 0), 0);
  }
  return make_uint2(bytes_at(first, 4), has_second ? bytes_at(first + kBytes, 4) : 0);
}

// The same of a type with blocks of 256: d and, where there are minima, theirs; then four bytes.
template <typename Format>
__device__ uint2 large_meta(const uint8_t* row, uint64_t group) {
  const int quarter = static_cast<int>(group % 4);
  const uint64_t block = group / 4;
  if (Format::kType == WeightType::kQ2K) {
    const uint8_t* from = row + block * 84;
    return make_uint2(bytes_at(from + 80, 4), bytes_at(from + quarter * 4, 4));
  }
  if (Format::kType == WeightType::kQ6K) {
    const uint8_t* from = row + block * 210;
    return make_uint2(bytes_at(from + 208, 2), bytes_at(from + 192 + quarter * 4, 4));
  }
  if (Format::kType == WeightType::kQ3K) {
    const uint8_t* from = row + block * 110;
    uint32_t scales = 0;
    for (int i = 0; i < 4; ++i) {
      scales |= (static_cast<uint32_t>(q3k_scale(from + 96, quarter * 4 + i)) & 255U) << (8 * i);
    }
    return make_uint2(bytes_at(from + 108, 2), scales);
  }
  const uint8_t* from = row + block * (Format::kType == WeightType::kQ4K ? 144 : 176);
  uint32_t scales = 0;
  for (int i = 0; i < 2; ++i) {
    const KScale scale(from + 4, quarter * 2 + i);
    scales |= static_cast<uint32_t>(scale.scale | scale.minimum << 8) << (16 * i);
  }
  return make_uint2(bytes_at(from, 4), scales);
}

template <typename Format>
__device__ void pack_meta(const BlockTile<Format>& tile, uint64_t group, int row, uint8_t* out) {
  uint2 meta = make_uint2(0, 0);
  if (tile.first_row + row < tile.n) {
    const uint8_t* from = tile.from + (tile.first_row + row) * tile.row_bytes;
    if constexpr (Format::kIsK) meta = large_meta<Format>(from, group);
    else meta = small_meta<Format>(from, group, tile.k / 32);
  }
  if (Format::kMetaBytes == 4) reinterpret_cast<uint32_t*>(out)[row] = meta.x;
  else reinterpret_cast<uint2*>(out)[row] = meta;
}

// A warp a group. Products read what this writes before they wait for it, so it lets none of them start early.
template <typename Format>
__device__ void repack(const uint8_t* from, uint8_t* to, uint64_t n, uint64_t k, uint64_t row_bytes) {
  wait_for_earlier();
  const uint64_t groups = (k + kGroupTerms - 1) / kGroupTerms, tiles = (n + kTileRows - 1) / kTileRows;
  const Lane lane;
  for (uint64_t index = first_index() / 32; index < tiles * groups; index += index_step() / 32) {
    const BlockTile<Format> tile{from, index / groups * kTileRows, n, k, row_bytes};
    uint8_t* out = to + index * Format::kGroupBytes;
    pack_codes(tile, index % groups, lane, out);
    if (lane.index < kTileRows) {
      pack_meta(tile, index % groups, static_cast<int>(lane.index),
                out + 32 * (Format::kLowBytes + Format::kHighBytes));
    }
  }
}

template <typename T>
__device__ __forceinline__ void transpose(const T* from, T* to, uint64_t rows, uint64_t columns) {
  __shared__ T tile[32][33];
  wait_for_earlier();
  const uint64_t first_row = blockIdx.y * 32ULL, first_column = blockIdx.x * 32ULL;
  const uint32_t tx = threadIdx.x % 32, ty = threadIdx.x / 32;
  for (uint32_t i = ty; i < 32; i += 8) {
    if (first_row + i < rows && first_column + tx < columns)
      tile[i][tx] = from[(first_row + i) * columns + first_column + tx];
  }
  __syncthreads();
  for (uint32_t i = ty; i < 32; i += 8) {
    if (first_column + i < columns && first_row + tx < rows)
      to[(first_column + i) * rows + first_row + tx] = tile[tx][i];
  }
}

}  // namespace

extern "C" {

// x as split_activations_* left it, 16 or 32 rows a block.
#define BALLAST_PRODUCT(name, Format)                                                                             \
  __global__ void __launch_bounds__(kThreads, 2) product_##name##_tile(const __grid_constant__ Product product) { \
    run_product<Format, 2>(product);                                                                              \
  }                                                                                                               \
  __global__ void __launch_bounds__(kThreads, 2) product_##name##_wide(const __grid_constant__ Product product) { \
    run_product<Format, 4>(product);                                                                              \
  }
#define BALLAST_BLOCK_PRODUCT(name, Format)                                                                     \
  BALLAST_PRODUCT(name, Format)                                                                                 \
  __global__ void repack_##name(const uint8_t* from, uint8_t* to, uint64_t n, uint64_t k, uint64_t row_bytes) { \
    repack<Format>(from, to, n, k, row_bytes);                                                                  \
  }

BALLAST_PRODUCT(f32, F32Format)
BALLAST_PRODUCT(f16, F16Format)
BALLAST_PRODUCT(bf16_fast, BF16FastFormat)
BALLAST_PRODUCT(bf16_exact, BF16ExactFormat)
BALLAST_BLOCK_PRODUCT(q8_0, Q8_0Format)
BALLAST_BLOCK_PRODUCT(q4_0, Q4_0Format)
BALLAST_BLOCK_PRODUCT(q4_1, Q4_1Format)
BALLAST_BLOCK_PRODUCT(q5_0, Q5_0Format)
BALLAST_BLOCK_PRODUCT(q5_1, Q5_1Format)
BALLAST_BLOCK_PRODUCT(q2_k, Q2KFormat)
BALLAST_BLOCK_PRODUCT(q3_k, Q3KFormat)
BALLAST_BLOCK_PRODUCT(q4_k, Q4KFormat)
BALLAST_BLOCK_PRODUCT(q5_k, Q5KFormat)
BALLAST_BLOCK_PRODUCT(q6_k, Q6KFormat)

#undef BALLAST_BLOCK_PRODUCT
#undef BALLAST_PRODUCT

// By how operands are split, not by type: blocks, without sums and with those of 32 and of 16 terms, f16, bf16 in two
// and in three parts (f32 too).
#define BALLAST_SPLIT(name, Format, totals)                                              \
  __global__ void __launch_bounds__(kThreads)                                            \
      split_activations_##name(const float* x, uint8_t* parts, uint64_t m, uint64_t k) { \
    split_rows<Format, totals>(x, parts, m, k);                                          \
  }
BALLAST_SPLIT(blocks, Q8_0Format, 0)
BALLAST_SPLIT(blocks_32, Q8_0Format, 2)
BALLAST_SPLIT(blocks_16, Q8_0Format, 4)
BALLAST_SPLIT(f16, F16Format, 0)
BALLAST_SPLIT(bf16_2, BF16FastFormat, 0)
BALLAST_SPLIT(bf16_3, BF16ExactFormat, 0)
#undef BALLAST_SPLIT

// One thread an output: terms in ascending order, f32 with fused multiply-add.
__global__ void product_plain(const __grid_constant__ PlainProduct p) {
  __shared__ float x[kPlainTile][kPlainTile + 1], w[kPlainTile][kPlainTile + 1];
  begin_kernel();
  const uint32_t tx = threadIdx.x % kPlainTile, ty = threadIdx.x / kPlainTile;
  const uint64_t row = static_cast<uint64_t>(blockIdx.y) * kPlainTile + ty;
  const uint64_t column = static_cast<uint64_t>(blockIdx.x) * kPlainTile + tx;
  for (uint64_t batch = blockIdx.z; batch < p.batch; batch += gridDim.z) {
    const float* a = reinterpret_cast<const float*>(p.x) + batch * p.x_batch;
    const uint8_t* weights = reinterpret_cast<const uint8_t*>(p.weights) + batch * p.weight_batch;
    float sum = 0;
    for (uint64_t begin = 0; begin < p.k; begin += kPlainTile) {
      x[ty][tx] = row < p.m && begin + tx < p.k ? a[row * p.k + begin + tx] : 0;
      // The index that is consecutive in memory goes with tx.
      const uint64_t k = begin + (p.in_out != 0 ? ty : tx);
      const uint64_t n = static_cast<uint64_t>(blockIdx.x) * kPlainTile + (p.in_out != 0 ? tx : ty);
      const float value = n < p.n && k < p.k ? plain_weight(p, weights, k, n) : 0;
      if (p.in_out != 0) w[ty][tx] = value;
      else w[tx][ty] = value;
      __syncthreads();
      const int terms = p.k - begin < kPlainTile ? static_cast<int>(p.k - begin) : kPlainTile;
      for (int i = 0; i < terms; ++i) sum = fmaf(x[ty][i], w[i][tx], sum);
      __syncthreads();
    }
    if (row >= p.m || column >= p.n) continue;
    const uint64_t at = batch * p.y_batch + row * p.n + column;
    sum += value_or(reinterpret_cast<const uint8_t*>(p.bias), p.bias_type, column, 0);
    sum = bent(p.bend, sum);
    if (p.residual != 0) sum += reinterpret_cast<const float*>(p.residual)[at];
    reinterpret_cast<float*>(p.y)[at] = sum;
  }
}

// [rows, columns] to [columns, rows], elements of 2 or 4 bytes: weights [in, out] as [out, in].
__global__ void transpose_2(const uint16_t* from, uint16_t* to, uint64_t rows, uint64_t columns) {
  transpose(from, to, rows, columns);
}
__global__ void transpose_4(const uint32_t* from, uint32_t* to, uint64_t rows, uint64_t columns) {
  transpose(from, to, rows, columns);
}

}  // extern "C"
