// Products of a few rows of activations, eight at most, in one launch for all weights that multiply the same rows. Bits
// are those of products.cu, and of a norm in front of it and a gate behind it by themselves (rows.cu, elementwise.cu).
//
// A block has up to eight tiles of 16 outputs, whose segments its warps share. Weights are on their way before the
// kernel waits for those that compute x.
#include "norms.cuh"
#include "products_sums.cuh"

using namespace ballast::cuda;

namespace {

constexpr int kMostColumns = 8;

// Vectors of these products are of plain types: what reads the others is much code, and code that is not in its cache
// takes longer than what it does.
__device__ __forceinline__ float plain_value(DeviceAddress values, uint32_t type, uint64_t i) {
  const auto* from = reinterpret_cast<const uint8_t*>(values);
  if (type == static_cast<uint32_t>(WeightType::kF32)) return reinterpret_cast<const float*>(from)[i];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(from)[i];
  if (type == static_cast<uint32_t>(WeightType::kF16)) return __half2float(__ushort_as_half(bits));
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

__device__ __forceinline__ float4 load_four(const float* from) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
  return v;
}
__device__ __forceinline__ float load_one(const float* from) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(from));
  return v;
}
// By its address there, which takes no window into account.
__device__ __forceinline__ uint4 load_shared(uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

// Most products bend nothing, and then no code for it is read.
__device__ __noinline__ float bent_apart(uint32_t bend, float x) { return bent(bend, x); }
__device__ __forceinline__ float bent_or_not(uint32_t bend, float x) {
  if (bend == static_cast<uint32_t>(Bend::kNone)) return x;
  if (bend == static_cast<uint32_t>(Bend::kSilu)) return silu(x);
  return bent_apart(bend, x);
}

// ---------------------------------------------------------------- norms
// As a block of `threads` threads sums a row (rows.cu), by a block of kThreads; eight elements are on their way at
// once.
template <typename Term>
__device__ __forceinline__ float sum_as_block_of(uint32_t threads, const float* x, uint32_t features, float* partial,
                                                 const Term& term) {
  constexpr uint32_t kAtOnce = 8;
#pragma unroll 1
  for (uint32_t first = threadIdx.x; first < threads; first += kThreads) {
    float sum = 0;
#pragma unroll 1
    for (uint32_t begin = first; begin < features; begin += kAtOnce * threads) {
      float values[kAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        const uint32_t at = begin + i * threads;
        values[i] = load_one(x + (at < features ? at : begin));
      }
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        if (begin + i * threads < features) sum += term(values[i]);
      }
    }
    sum = reduce_warp(sum, Sum());
    if (threadIdx.x % 32 == 0) partial[first / 32] = sum;
  }
  __syncthreads();
  const float sum = reduce_warp(threadIdx.x % 32 < threads / 32 ? partial[threadIdx.x % 32] : 0.0F, Sum());
  __syncthreads();  // before the next sum
  return sum;
}

__device__ __forceinline__ RowNorm norm_of(const RowProduct& p, const float* x, float* partial) {
  const auto sum = [&](const auto& term) {
    return sum_as_block_of(p.norm_threads, x, static_cast<uint32_t>(p.k), partial, term);
  };
  if (p.norm == NormOfRow::kRms) return rms_of_row(p.k, p.eps, sum);
  return deviation_of_row(p.k, p.eps, sum);
}

// Of the terms of this lane in a segment.
template <typename Format>
struct NormWeights {
  uint32_t segment = 0xFFFFFFFFU;
  float gamma[8] = {};

  __device__ __forceinline__ void load(const RowProduct& p, uint32_t of_segment) {
    segment = of_segment;
    const TermPlace<Format> place(segment, p.k);
    if (p.norm == NormOfRow::kNone || !place.is_there) return;
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      gamma[i] = plain_value(p.gamma, p.gamma_type, (i < 4 ? place.first : place.second - 4) + i);
    }
  }
  __device__ __forceinline__ void apply(const RowProduct& p, const RowNorm& norm, float4& a, float4& b) const {
    const TermPlace<Format> place(segment, p.k);
    if (!place.is_there) return;
    apply_to(p, norm, a.x, 0, place), apply_to(p, norm, a.y, 1, place);
    apply_to(p, norm, a.z, 2, place), apply_to(p, norm, a.w, 3, place);
    apply_to(p, norm, b.x, 4, place), apply_to(p, norm, b.y, 5, place);
    apply_to(p, norm, b.z, 6, place), apply_to(p, norm, b.w, 7, place);
  }

 private:
  __device__ __forceinline__ void apply_to(const RowProduct& p, const RowNorm& norm, float& x, uint32_t i,
                                           const TermPlace<Format>& place) const {
    if (p.norm == NormOfRow::kRms) {
      x = rms_normed(norm, x, gamma[i], p.shift);
    } else {
      const uint64_t at = (i < 4 ? place.first : place.second - 4) + i;
      x = layer_normed(norm, x, gamma[i], plain_value(p.beta, p.beta_type, at));
    }
  }
};

// ---------------------------------------------------------------- a block
// Shared memory of a stage, which is so many segments: activations in parts, their scales, and the sums of segments.
template <typename Format>
struct Stage {
  uint4* parts;
  float* scales;  // [segments][kMostColumns]
  float* sums;    // [segments][slots][rows of x][kTileRows]
  float* totals;  // [slots][rows of x][kTileRows]

  __device__ __forceinline__ Stage(const RowProduct& p, uint4* memory)
      : parts(memory),
        scales(reinterpret_cast<float*>(memory + p.stage_segments * kGroupsOfSegment * parts_of_group(p))),
        sums(scales + p.stage_segments * kMostColumns),
        totals(sums + p.stage_segments * outputs_of(p)) {}
  __device__ static __forceinline__ uint32_t outputs_of(const RowProduct& p) {
    return static_cast<uint32_t>(kProductWarps) / p.spread * static_cast<uint32_t>(p.m * kTileRows);
  }
  __device__ static __forceinline__ uint32_t parts_of_group(const RowProduct& p) {
    return Format::kActivationParts * 2 * 4 * static_cast<uint32_t>(p.m);
  }
};

template <typename Format>
struct RowMultiplier {
  const RowProduct& p;
  const Lane lane;
  const uint32_t warp, m;
  const uint32_t slots;  // tiles of outputs that the block sums up
  const uint32_t segments, groups;
  const Stage<Format> stage;
  const RowPart* part;  // of the block; of the first slot where parts are gated
  typename Format::Group ring[Format::kRing];

  __device__ __forceinline__ RowMultiplier(const RowProduct& product, uint4* shared)
      : p(product),
        warp(threadIdx.x / 32),
        m(static_cast<uint32_t>(product.m)),
        slots(static_cast<uint32_t>(kProductWarps) / product.spread),
        segments(static_cast<uint32_t>((product.k + kSegmentTerms - 1) / kSegmentTerms)),
        groups(static_cast<uint32_t>((product.k + kGroupTerms - 1) / kGroupTerms)),
        stage(product, shared),
        part(product.parts),
        ring{} {
    if (p.is_gated != 0) return;
    for (uint32_t i = 1; i < p.part_count && p.parts[i].first_block <= blockIdx.x; ++i) part = p.parts + i;
  }

  // Where parts are gated, slots have a tile of the one and the same tile of the other in turn.
  __device__ __forceinline__ const RowPart& part_of(uint32_t slot) const {
    return p.is_gated != 0 ? p.parts[slot % 2] : *part;
  }
  __device__ __forceinline__ uint64_t tile_of(uint32_t slot) const {
    const uint64_t first = static_cast<uint64_t>(blockIdx.x - part->first_block);
    return p.is_gated != 0 ? first * (slots / 2) + slot / 2 : first * slots + slot;
  }
  __device__ __forceinline__ uint32_t own_slot() const { return warp / p.spread; }
  __device__ __forceinline__ bool has_tile() const { return tile_of(own_slot()) * kTileRows < part_of(own_slot()).n; }
  __device__ __forceinline__ auto rows_of_weights() const {
    const RowPart& own = part_of(own_slot());
    Product product{};
    product.weights = own.weights;
    product.n = own.n;
    product.k = p.k;
    product.row_bytes = own.row_bytes;
    if constexpr (Format::kBlock == 0) return typename Format::Rows(product, tile_of(own_slot()), lane);
    else return PackedRows::of<Format>(product, tile_of(own_slot()));
  }

  // Segments [first, first + count) of all rows, two at a time. `weights` are those of the first that a warp takes.
  __device__ __forceinline__ void fill_stage(uint32_t first, uint32_t count, const RowNorm* norms,
                                             NormWeights<Format>& weights) const {
    constexpr int kAtOnce = 2;
    uint32_t next = warp, next_column = 0;
    const auto skip_rows = [&] {
      for (; next >= count && next_column < m; next -= count) ++next_column;
    };
    skip_rows();
#pragma unroll 1
    while (next_column < m) {
      float4 a[kAtOnce], b[kAtOnce];
      uint32_t segment[kAtOnce], column[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        segment[i] = next, column[i] = next_column;
        a[i] = b[i] = make_float4(0, 0, 0, 0);
        const TermPlace<Format> place(first + segment[i], p.k);
        if (column[i] >= m) continue;
        next += kProductWarps;
        skip_rows();
        if (!place.is_there) continue;
        const float* x = reinterpret_cast<const float*>(p.x) + column[i] * p.k;
        a[i] = load_four(x + place.first);
        b[i] = load_four(x + place.second);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (column[i] >= m) continue;
        if (p.norm != NormOfRow::kNone) {
          if (weights.segment != first + segment[i]) weights.load(p, first + segment[i]);
          weights.apply(p, norms[column[i]], a[i], b[i]);
        }
        split_segment<Format>(a[i], b[i], first + segment[i], p.k, segment[i] * kGroupsOfSegment, m, column[i],
                              stage.parts, stage.scales + segment[i] * kMostColumns + column[i]);
      }
    }
  }

  // The i-th of the groups that this warp takes, counted from those of `segment`.
  __device__ __forceinline__ uint32_t group_behind(uint32_t segment, int i) const {
    return (segment + static_cast<uint32_t>(i / kGroupsOfSegment) * p.spread) * kGroupsOfSegment +
           static_cast<uint32_t>(i % kGroupsOfSegment);
  }
  template <typename Rows>
  __device__ __forceinline__ void fetch(typename Format::Group& into, const Rows& rows, uint32_t group) const {
    Format::fetch(into, rows, group, group < groups, lane);
  }

  // Where this lane finds the activations of the stage's first group. Columns that no row of x has get those of the
  // last one: nobody reads what comes of them.
  __device__ __forceinline__ uint32_t own_parts() const {
    const uint32_t column = lane.g < m ? lane.g : m - 1;
    return static_cast<uint32_t>(__cvta_generic_to_shared(stage.parts + column * 4 + lane.t));
  }
  __device__ __forceinline__ void multiply_group(float (&sums)[4], const typename Format::Group& weights,
                                                 uint32_t parts) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint4 b[Format::kActivationParts];
#pragma unroll
      for (int i = 0; i < Format::kActivationParts; ++i) b[i] = load_shared(parts + (i * 2 + h) * 64 * m);
      uint32_t a[2][Format::kWeightParts][4];
      Format::fragments(weights, h, 0, a[0]);
      Format::fragments(weights, h, 1, a[1]);
      multiply_half<Format>(sums, weights, a, b, h);
    }
  }

  // The sums of a segment, of which `staged` is the place in the stage.
  __device__ __forceinline__ void put_sums(const float (&sums)[4], uint32_t staged) const {
    float* to = stage.sums + (staged * slots + own_slot()) * m * kTileRows;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t column = 2 * lane.t + i % 2, row = lane.g + i / 2 * 8;
      if (column >= m) continue;
      const float scale = Format::kHalf ? stage.scales[staged * kMostColumns + column] : 1;
      to[column * kTileRows + row] = sums[i] * scale;
    }
  }

  // kWhole: the segment has all its groups, and all of those are whole. Without branches between them groups overlap.
  template <bool kWhole, typename Rows>
  __device__ __forceinline__ void multiply_segment(const Rows& rows, uint32_t segment, uint32_t staged,
                                                   uint32_t parts) {
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kGroupsOfSegment; ++i) {
      auto& weights = ring[i % Format::kRing];
      const uint32_t group = segment * kGroupsOfSegment + i;
      if (kWhole || group < groups) {
        if constexpr (!kWhole) Format::clear_behind(weights, rows, group, lane);
        multiply_group(sums, weights, parts + i * 16 * Stage<Format>::parts_of_group(p));
      }
      fetch(weights, rows, group_behind(segment, i + Format::kRing));
    }
    put_sums(sums, staged);
  }

  // This warp's of the segments [first, first + count).
  template <typename Rows>
  __device__ __forceinline__ void multiply_stage(const Rows& rows, uint32_t first, uint32_t count) {
    const uint32_t of_segment = kGroupsOfSegment * 16 * Stage<Format>::parts_of_group(p);
    uint32_t parts = own_parts() + warp % p.spread * of_segment;
#pragma unroll 1
    for (uint32_t staged = warp % p.spread; staged < count; staged += p.spread, parts += p.spread * of_segment) {
      const uint32_t segment = first + staged;
      if ((segment + 1) * kSegmentTerms <= p.k) multiply_segment<true>(rows, segment, staged, parts);
      else multiply_segment<false>(rows, segment, staged, parts);
    }
  }
};

// ---------------------------------------------------------------- outputs
// Output `index` of the block: of a slot, a row of x, a row of weights; and what is added to it.
struct Output {
  uint32_t slot;
  uint32_t bend;
  bool is_there;
  uint64_t at;  // in y
  float bias = 0;

  template <typename Format>
  __device__ __forceinline__ Output(const RowMultiplier<Format>& block, uint32_t index) : slot(index / kTileRows) {
    const uint32_t column = slot % block.m;
    slot /= block.m;
    const RowPart& part = block.part_of(slot < block.slots ? slot : 0);
    const uint64_t row = block.tile_of(slot) * kTileRows + index % kTileRows;
    is_there = slot < block.slots && row < part.n;
    at = column * block.p.n + part.column + row;
    bend = part.bend;
    if (is_there && part.bias != 0) bias = plain_value(part.bias, part.bias_type, row);
  }
  __device__ __forceinline__ float residual(const RowProduct& p) const {
    if (!is_there || p.residual == 0) return 0;
    return reinterpret_cast<const float*>(p.residual)[at];
  }
};

// The sums of `count` segments are added to those before them.
template <typename Format>
__device__ __forceinline__ void add_stage(const RowMultiplier<Format>& block, uint32_t first, uint32_t count) {
  const uint32_t outputs = Stage<Format>::outputs_of(block.p);
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < outputs; i += kThreads) {
    float total = first == 0 ? 0 : block.stage.totals[i];
#pragma unroll 8
    for (uint32_t segment = 0; segment < count; ++segment) total += block.stage.sums[segment * outputs + i];
    block.stage.totals[i] = total;
  }
}

// `mine` and `residual` are of the first output of this thread.
template <typename Format>
__device__ __forceinline__ void write_outputs(const RowMultiplier<Format>& block, const Output& mine, float residual) {
  const RowProduct& p = block.p;
  const uint32_t outputs = Stage<Format>::outputs_of(p);
  float* totals = block.stage.totals;
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < outputs; i += kThreads) {
    const bool is_first = i == threadIdx.x;
    const Output output = is_first ? mine : Output(block, i);
    if (!output.is_there) continue;
    float value = totals[i];
    value += output.bias;
    value = bent_or_not(output.bend, value);
    if (p.residual != 0) value += is_first ? residual : output.residual(p);
    if (p.is_gated == 0) reinterpret_cast<float*>(p.y)[output.at] = value;
    else totals[i] = value;
  }
  if (p.is_gated == 0) return;
  __syncthreads();
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < outputs; i += kThreads) {
    const Output output = i == threadIdx.x ? mine : Output(block, i);
    if (!output.is_there || output.slot % 2 != 0) continue;
    reinterpret_cast<float*>(p.y)[output.at] = bent_or_not(p.gate_bend, totals[i]) * totals[i + block.m * kTileRows];
  }
}

template <typename Format>
__device__ __forceinline__ void run_row(const RowProduct& p) {
  extern __shared__ uint4 shared[];
  __shared__ float norm_sums[32];
  __shared__ RowNorm norms[kMostColumns];
  RowMultiplier<Format> block(p, shared);
  const auto rows = block.rows_of_weights();
  const bool has_tile = block.has_tile();
  const uint32_t first_own = block.warp % p.spread;
  if (has_tile) {
#pragma unroll
    for (int i = 0; i < Format::kRing; ++i) block.fetch(block.ring[i], rows, block.group_behind(first_own, i));
  }
  NormWeights<Format> weights;
  weights.load(p, block.warp);
  const Output output(block, threadIdx.x);
  begin_kernel();
  const float residual = output.residual(p);
#pragma unroll 1
  for (uint32_t i = 0; p.norm != NormOfRow::kNone && i < block.m; ++i) {
    const RowNorm norm = norm_of(p, reinterpret_cast<const float*>(p.x) + i * p.k, norm_sums);
    if (threadIdx.x == 0) norms[i] = norm;
  }
#pragma unroll 1
  for (uint32_t first = 0; first < block.segments; first += p.stage_segments) {
    const uint32_t left = block.segments - first, count = left < p.stage_segments ? left : p.stage_segments;
    __syncthreads();  // what was staged before is not read any more, and norms are there
    block.fill_stage(first, count, norms, weights);
    __syncthreads();
    if (has_tile) block.multiply_stage(rows, first, count);
    __syncthreads();
    add_stage(block, first, count);
  }
  write_outputs(block, output, residual);
}

}  // namespace

extern "C" {

#define BALLAST_ROW_PRODUCT(name, Format)                                                                           \
  __global__ void __launch_bounds__(kThreads, 2) product_##name##_row(const __grid_constant__ RowProduct product) { \
    run_row<Format>(product);                                                                                       \
  }

BALLAST_ROW_PRODUCT(f32, F32Format)
BALLAST_ROW_PRODUCT(f16, F16Format)
BALLAST_ROW_PRODUCT(bf16_fast, BF16FastFormat)
BALLAST_ROW_PRODUCT(bf16_exact, BF16ExactFormat)
BALLAST_ROW_PRODUCT(q8_0, Q8_0Format)
BALLAST_ROW_PRODUCT(q4_0, Q4_0Format)
BALLAST_ROW_PRODUCT(q4_1, Q4_1Format)
BALLAST_ROW_PRODUCT(q5_0, Q5_0Format)
BALLAST_ROW_PRODUCT(q5_1, Q5_1Format)
BALLAST_ROW_PRODUCT(q2_k, Q2KFormat)
BALLAST_ROW_PRODUCT(q3_k, Q3KFormat)
BALLAST_ROW_PRODUCT(q4_k, Q4KFormat)
BALLAST_ROW_PRODUCT(q5_k, Q5KFormat)
BALLAST_ROW_PRODUCT(q6_k, Q6KFormat)

#undef BALLAST_ROW_PRODUCT

}  // extern "C"
