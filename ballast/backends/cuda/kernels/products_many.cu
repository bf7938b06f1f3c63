// Products of activations of many rows, for GPUs of compute capability 9.0 exactly: the operations of products.cu, in
// its order, by instructions that multiply 64 outputs with 64 or 128 rows of x.
//
// Four warps are a warpgroup, and each has 16 outputs' weights as a fragment in registers: the same fragment, of the
// same weights, as for mma.sync. Parts of x are read from shared memory, where they lie as split_activations_* wrote
// them. An instruction adds up the same 16 terms as mma.sync does, to the same bits.
//
// A block has two warpgroups, each with 64 outputs and all of the block's rows; a thread of a third copies x for both.
#include "products_parts.cuh"
#include "warpgroup.cuh"

using namespace ballast::cuda;

namespace {

#if BALLAST_HAS_WARPGROUPS

constexpr int kWarpgroupThreads = 128, kConsumerWarps = 8;
constexpr uint32_t kBandOfBlocks = 8;  // blocks of rows whose x the cache holds while weights are read

// Blocks that run at a time share weights and x: of a band of rows, all that have the same outputs come first.
struct ManyPlace {
  uint64_t first_output, first_row;

  __device__ __forceinline__ ManyPlace(const Product& p, uint32_t rows) {
    const uint64_t across = (p.n + kManyOutputs - 1) / kManyOutputs, down = (p.m + rows - 1) / rows;
    const uint64_t band = blockIdx.x / (across * kBandOfBlocks), in_band = blockIdx.x % (across * kBandOfBlocks);
    const uint64_t left = down - band * kBandOfBlocks, high = left < kBandOfBlocks ? left : kBandOfBlocks;
    first_output = in_band / high * kManyOutputs;
    first_row = (band * kBandOfBlocks + in_band % high) * rows;
  }
};

// What is in shared memory: stages, each with one group of terms, then the barriers that say that a stage is full and
// that it is empty. In a stage come the parts of all rows, then what else there is of each 64 rows.
template <typename Format, int kRows>
struct ManyStages {
  using Layout = PartsOf<Format>;
  static constexpr uint32_t kSets = kRows / kPartsRows;
  static constexpr uint32_t kCount = many_stages(kRows, Format::kActivationParts, Layout::kTotals);
  static constexpr uint32_t kBytes = kSets * Layout::kBytes;
  static constexpr uint32_t kPartsBytes = Layout::kScalesAt, kRestBytes = Layout::kBytes - kPartsBytes;

  uint32_t first;  // address
  uint32_t at = 0, parity = 0;

  __device__ __forceinline__ explicit ManyStages(const void* shared) : first(shared_address(shared)) {}
  __device__ __forceinline__ uint32_t stage() const { return first + at * kBytes; }
  __device__ __forceinline__ uint32_t full() const { return first + kCount * kBytes + at * 8; }
  __device__ __forceinline__ uint32_t empty() const { return full() + kCount * 8; }
  __device__ __forceinline__ void next() {
    if (++at == kCount) {
      at = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void make() {
    for (at = 0; at < kCount; ++at) {
      make_barrier(full(), 1);
      make_barrier(empty(), kConsumerWarps);
    }
    at = 0;
    show_barriers();
  }
  // Of 64 rows: scales and totals.
  __device__ __forceinline__ uint32_t rest(uint32_t set) const {
    return stage() + kSets * kPartsBytes + set * kRestBytes;
  }
  // Of a tile of 8 rows.
  __device__ __forceinline__ uint32_t scales(uint32_t tile) const { return rest(tile / 8) + tile % 8 * 32; }
  __device__ __forceinline__ uint32_t totals(uint32_t tile) const {
    return rest(tile / 8) + (Layout::kTotalsAt - Layout::kScalesAt) + tile % 8 * Layout::kTotals * 32;
  }
};

// The thread that copies. A copy takes the tensor cores' time of a few instructions however short it is, so they are
// few.
template <typename Format, int kRows>
__device__ __forceinline__ void copy_stages(const Product& p, uint64_t first_row, ManyStages<Format, kRows> stages) {
  using Stages = ManyStages<Format, kRows>;
  using Layout = PartsOf<Format>;
  constexpr uint32_t kWanted = Format::kHalf ? Layout::kBytes : Stages::kPartsBytes;
  const uint64_t groups = (p.k + kGroupTerms - 1) / kGroupTerms;
  const uint32_t sets = first_row + kPartsRows >= p.m ? 1 : Stages::kSets;
  const uint8_t* parts = reinterpret_cast<const uint8_t*>(p.parts);
  for (uint64_t group = 0; group < groups; ++group, stages.next()) {
    wait_for_phase(stages.empty(), stages.parity ^ 1);
    arrive_and_expect(stages.full(), sets * kWanted);
    for (uint32_t set = 0; set < sets; ++set) {
      const uint8_t* from = parts + Layout::at(first_row + set * kPartsRows, groups, group);
      const uint32_t to = stages.stage() + set * Stages::kPartsBytes;
      copy_bulk(to, from, Stages::kSets == 1 ? kWanted : Stages::kPartsBytes, stages.full());
      if (Stages::kSets == 1 || !Format::kHalf) continue;
      copy_bulk(stages.rest(set), from + Stages::kPartsBytes, Stages::kRestBytes, stages.full());
    }
  }
}

__device__ __forceinline__ float2 shared_pair(uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address));
  return v;
}

// One of the warpgroups that multiply: 64 outputs, and all of the block's rows of x.
template <typename Format, int kRows>
struct ManyMultiplier {
  using Stages = ManyStages<Format, kRows>;
  using Layout = PartsOf<Format>;
  using Group = typename Format::Group;
  static constexpr int kRing = Format::kManyRing;
  // Rows of one instruction: blocks have a third set of sums, for which registers are few.
  static constexpr int kPiece = Format::kBlock == 0 ? kRows : 64;
  // Where a segment's groups are code of their own, registers need not be moved on.
  static constexpr bool kIsUnrolled = Format::kBlock == 0 && Format::kWeightParts == 1;

  const Lane lane;
  Group ring[kRing];
  float sums[kRows / 2];  // [tiles of 8 rows of x][4]
  float outputs[kRows / 2];

  __device__ __forceinline__ ManyMultiplier() {
#pragma unroll
    for (float& output : outputs) output = 0;
  }

  __device__ __forceinline__ static auto rows_of_weights(const Product& p, uint64_t first_output, const Lane& lane) {
    const uint64_t tile = first_output / kTileRows + threadIdx.x / 32;
    if constexpr (Format::kBlock == 0) return typename Format::Rows(p, tile, lane);
    else return PackedRows::of<Format>(p, tile);
  }

  // As multiply_parts, for fragment q of half h. `stage`: where the first of the columns are.
  __device__ __forceinline__ void multiply_fragment(float (&c)[kPiece / 2],
                                                    const uint32_t (&a)[Format::kWeightParts][4], uint32_t stage, int h,
                                                    int q) {
#pragma unroll
    for (int order = Format::kActivationParts - 1; order >= 0; --order) {
#pragma unroll
      for (int w = Format::kWeightParts - 1; w >= 0; --w) {
        const int p = order - w;
        if (p < 0) continue;
        const uint32_t at = stage + (p * 2 + h) * Layout::kHalfBytes + q * (Layout::kHalfBytes / 2);
        multiply_rows<Format::kHalf>(c, a[w], operand_at(at, 128, Layout::kTileBytes));
      }
    }
  }

  // A group of a plain type: f32 by halves, since its fragments take three times the registers.
  __device__ __forceinline__ void multiply_plain(const Group& weights, uint32_t stage) {
    constexpr int kTogether = Format::kWeightParts == 1 ? 2 : 1;
#pragma unroll
    for (int first = 0; first < 2; first += kTogether) {
      uint32_t a[2 * kTogether][Format::kWeightParts][4];
#pragma unroll
      for (int i = 0; i < 2 * kTogether; ++i) Format::fragments(weights, first + i / 2, i % 2, a[i]);
      begin_products();
#pragma unroll
      for (int i = 0; i < 2 * kTogether; ++i) multiply_fragment(sums, a[i], stage, first + i / 2, i % 2);
      end_products();
      finish_products(sums);
    }
  }

  // As add_block, for the tiles of 8 rows of a piece.
  __device__ __forceinline__ void add_blocks(const float (&c)[kPiece / 2], const Group& weights, const Stages& stages,
                                             int piece, int h, int q) {
    const float scales[2] = {Format::scale(weights, h, q, 0), Format::scale(weights, h, q, 1)};
    float offsets[2] = {};
    if constexpr (Format::kHasOffsets) {
      offsets[0] = Format::offset(weights, h, q, 0);
      offsets[1] = Format::offset(weights, h, q, 1);
    }
#pragma unroll
    for (int i = 0; i < kPiece / 8; ++i) {
      const int tile = piece * (kPiece / 8) + i;
      float2 total;
      if constexpr (Format::kHasOffsets) {
        total = shared_pair(stages.totals(tile) + (Format::kBlock == 32 ? h : 2 * h + q) * 32 + lane.t * 8);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float& sum = sums[tile * 4 + j];
        sum = fmaf(scales[j / 2], c[i * 4 + j], sum);
        if constexpr (Format::kHasOffsets) sum = fmaf(offsets[j / 2], j % 2 == 0 ? total.x : total.y, sum);
      }
    }
  }

  // A group of blocks. kFragments: how many of them have one scale.
  __device__ __forceinline__ void multiply_blocks(const Group& weights, const Stages& stages) {
    constexpr int kFragments = Format::kBlock / 16;
#pragma unroll
    for (int block = 0; block < 4 / kFragments; ++block) {
      const int h = block * kFragments / 2, q = block * kFragments % 2;
      uint32_t a[kFragments][1][4];
#pragma unroll
      for (int i = 0; i < kFragments; ++i) Format::fragments(weights, h, q + i, a[i]);
#pragma unroll
      for (int piece = 0; piece < kRows / kPiece; ++piece) {
        const uint32_t columns = stages.stage() + piece * (kPiece / 8) * Layout::kTileBytes;
        float c[kPiece / 2] = {};
        begin_products();
#pragma unroll
        for (int i = 0; i < kFragments; ++i) multiply_fragment(c, a[i], columns, h, q + i);
        end_products();
        finish_products(c);
        add_blocks(c, weights, stages, piece, h, q + kFragments - 1);
      }
    }
  }

  __device__ __forceinline__ void multiply_group(const Group& weights, const Stages& stages) {
    if constexpr (Format::kBlock == 0) multiply_plain(weights, stages.stage());
    else multiply_blocks(weights, stages);
  }

  __device__ __forceinline__ void begin_segment() {
#pragma unroll
    for (float& sum : sums) sum = 0;
  }
  // The segment's sums to the outputs; the stage is that of its last group.
  __device__ __forceinline__ void end_segment(Stages& stages) {
#pragma unroll
    for (int tile = 0; tile < kRows / 8; ++tile) {
      float2 scale = make_float2(1, 1);
      if constexpr (Format::kHalf) scale = shared_pair(stages.scales(tile) + lane.t * 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float sum = sums[tile * 4 + i];
        outputs[tile * 4 + i] += Format::kHalf ? sum * (i % 2 == 0 ? scale.x : scale.y) : sum;
      }
    }
    leave(stages);
    stages.next();
  }

  __device__ __forceinline__ void leave(const Stages& stages) const {
    if (lane.index == 0) arrive(stages.empty());
  }

  // kCount groups from `first` on, a segment or what is left of one.
  template <int kCount, typename Rows>
  __device__ __forceinline__ void run_segment(const Rows& rows, uint64_t first, Stages& stages) {
    begin_segment();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      wait_for_phase(stages.full(), stages.parity);
      multiply_group(ring[i % kRing], stages);
      Format::load(ring[i % kRing], rows, first + i + kRing, lane);
      if (i == kCount - 1) break;
      leave(stages);
      stages.next();
    }
    end_segment(stages);
  }
  template <typename Rows>
  __device__ __forceinline__ void run_unrolled(uint64_t groups, const Rows& rows, Stages& stages) {
    static_assert(kRing == kGroupsOfSegment);
    uint64_t first = 0;
#pragma unroll 1
    for (; first + kGroupsOfSegment <= groups; first += kGroupsOfSegment) {
      run_segment<kGroupsOfSegment>(rows, first, stages);
    }
    if (groups - first == 1) run_segment<1>(rows, first, stages);
    if (groups - first == 2) run_segment<2>(rows, first, stages);
    if (groups - first == 3) run_segment<3>(rows, first, stages);
  }

  // Group by group, for types whose groups are much code.
  template <typename Rows>
  __device__ __forceinline__ void run_rolled(uint64_t groups, const Rows& rows, Stages& stages) {
    begin_segment();
#pragma unroll 1
    for (uint64_t group = 0; group < groups; ++group) {
      wait_for_phase(stages.full(), stages.parity);
      multiply_group(ring[0], stages);
#pragma unroll
      for (int i = 0; i + 1 < kRing; ++i) ring[i] = ring[i + 1];
      Format::load(ring[kRing - 1], rows, group + kRing, lane);
      if ((group + 1) % kGroupsOfSegment == 0 || group + 1 == groups) {
        end_segment(stages);
        begin_segment();
      } else {
        leave(stages);
        stages.next();
      }
    }
  }

  // The outputs go through shared memory, where nobody reads x any more, so that the block writes whole lines.
  __device__ __forceinline__ void write(const Product& p, const ManyPlace& place, float* shared) const {
    constexpr int kThreads = 2 * kWarpgroupThreads, kOutputs = kManyOutputs, kStride = kOutputs + 4;
    const uint32_t own_row = threadIdx.x / 32 * 16 + lane.g;
    meet(1, kThreads);
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) {
      const uint32_t column = i / 4 * 8 + lane.t * 2 + i % 2;
      shared[column * kStride + own_row + i / 2 % 2 * 8] = outputs[i];
    }
    meet(1, kThreads);
    if (p.n % 4 != 0 || p.bias != 0 || p.bend != 0) {
#pragma unroll 1
      for (uint32_t i = threadIdx.x; i < kRows * kOutputs; i += kThreads) {
        const uint32_t column = i / kOutputs, row = i % kOutputs;
        finish_output(p, place.first_row + column, place.first_output + row, shared[column * kStride + row]);
      }
      return;
    }
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < kRows * kOutputs / 4; i += kThreads) {
      const uint32_t column = i / (kOutputs / 4), row = i % (kOutputs / 4) * 4;
      const float4 sums = *reinterpret_cast<const float4*>(shared + column * kStride + row);
      write_four(p, place.first_row + column, place.first_output + row, sums);
    }
  }

  // Four outputs beside each other, without bias and activation.
  __device__ __forceinline__ static void write_four(const Product& p, uint64_t column, uint64_t row, float4 sums) {
    if (column >= p.m || row >= p.n) return;
    const uint64_t at = column * p.n + row;
    if (p.residual != 0) {
      const float4 more = *reinterpret_cast<const float4*>(reinterpret_cast<const float*>(p.residual) + at);
      sums = make_float4(sums.x + more.x, sums.y + more.y, sums.z + more.z, sums.w + more.w);
    }
    *reinterpret_cast<float4*>(reinterpret_cast<float*>(p.y) + at) = sums;
  }
};

template <typename Format, int kRows>
__device__ __forceinline__ void run_many(const Product& p) {
  extern __shared__ __align__(128) uint4 shared[];
  const ManyPlace place(p, kRows);
  ManyStages<Format, kRows> stages(shared);
  if (threadIdx.x == 0) stages.make();
  __syncthreads();
  if (threadIdx.x >= 2 * kWarpgroupThreads) {
    give_registers<24>();
    begin_kernel();
    if (threadIdx.x == 2 * kWarpgroupThreads) copy_stages<Format, kRows>(p, place.first_row, stages);
    return;
  }
  take_registers<240>();
  ManyMultiplier<Format, kRows> multiplier;
  const auto rows = multiplier.rows_of_weights(p, place.first_output, multiplier.lane);
#pragma unroll
  for (int i = 0; i < multiplier.kRing; ++i) Format::load(multiplier.ring[i], rows, i, multiplier.lane);
  begin_kernel();
  const uint64_t groups = (p.k + kGroupTerms - 1) / kGroupTerms;
  if constexpr (multiplier.kIsUnrolled) multiplier.run_unrolled(groups, rows, stages);
  else multiplier.run_rolled(groups, rows, stages);
  multiplier.write(p, place, reinterpret_cast<float*>(shared));
}

#else

template <typename Format, int kRows>
__device__ __forceinline__ void run_many(const Product&) {
  __trap();  // never launched: launches ask for the instructions first
}

#endif

}  // namespace

extern "C" {

// By rows of x that a block takes.
#define BALLAST_MANY(name, Format, rows)                                      \
  __global__ void __launch_bounds__(kManyThreads, 1)                          \
      product_##name##_many_##rows(const __grid_constant__ Product product) { \
    run_many<Format, rows>(product);                                          \
  }
BALLAST_MANY(f32, F32Format, 64)
BALLAST_MANY(f16, F16Format, 64)
BALLAST_MANY(f16, F16Format, 128)
BALLAST_MANY(bf16_fast, BF16FastFormat, 64)
BALLAST_MANY(bf16_fast, BF16FastFormat, 128)
BALLAST_MANY(bf16_exact, BF16ExactFormat, 64)
BALLAST_MANY(bf16_exact, BF16ExactFormat, 128)
BALLAST_MANY(q8_0, Q8_0Format, 64)
BALLAST_MANY(q8_0, Q8_0Format, 128)
BALLAST_MANY(q4_0, Q4_0Format, 64)
BALLAST_MANY(q4_0, Q4_0Format, 128)
BALLAST_MANY(q4_1, Q4_1Format, 64)
BALLAST_MANY(q4_1, Q4_1Format, 128)
BALLAST_MANY(q5_0, Q5_0Format, 64)
BALLAST_MANY(q5_0, Q5_0Format, 128)
BALLAST_MANY(q5_1, Q5_1Format, 64)
BALLAST_MANY(q5_1, Q5_1Format, 128)
BALLAST_MANY(q2_k, Q2KFormat, 64)
BALLAST_MANY(q2_k, Q2KFormat, 128)
BALLAST_MANY(q3_k, Q3KFormat, 64)
BALLAST_MANY(q3_k, Q3KFormat, 128)
BALLAST_MANY(q4_k, Q4KFormat, 64)
BALLAST_MANY(q4_k, Q4KFormat, 128)
BALLAST_MANY(q5_k, Q5KFormat, 64)
BALLAST_MANY(q5_k, Q5KFormat, 128)
BALLAST_MANY(q6_k, Q6KFormat, 64)
BALLAST_MANY(q6_k, Q6KFormat, 128)
#undef BALLAST_MANY

}  // extern "C"
