// What the kernels of attention.cu share: who sees what, keys and values in parts, and the chain of operations that a
// query goes through in a chunk.
//
// Tensor cores multiply f16. A row of f32 (a query, a key, a value) is scaled by a power of two that brings its largest
// element near the end of f16's range, and then is the sum of two f16: what is lost is 2^-23 of an element, or 2^-39 of
// the row's largest. Rows of an f16 cache are as they are, in one part. Products of parts are exact in f32; that of
// both small parts is left out, being 2^-22 of the whole.
#pragma once

#include "common.cuh"

namespace ballast::cuda {

constexpr int kChunk = static_cast<int>(kChunkPositions);
constexpr int kTilesOfChunk = kChunk / 8;    // tiles of 8 positions
constexpr int kLanesOfRow = 16;              // that load a row together, four channels each at a time
constexpr float kLog2E = 1.4426950408889634F;  // scores are exponents of two

// ---------------------------------------------------------------- who sees what
struct Seen {
  uint64_t oldest, end;
  __device__ Seen(const Attention& a, const AttentionPart& part, uint64_t row)
      : oldest(0), end(a.is_causal != 0 ? part.position + row + 1 : part.rows) {
    if (a.window != 0 && end > a.window) oldest = end - a.window;
  }
  __device__ uint64_t first_chunk() const { return oldest / kChunkPositions; }
  __device__ uint64_t last_chunk() const { return (end - 1) / kChunkPositions; }
};

// [begin, end) of a chunk's positions, counted in the chunk.
struct Range {
  int begin, end;
  __device__ Range(uint64_t oldest_seen, uint64_t end_of_seen, uint64_t chunk) {
    const uint64_t first = chunk * kChunkPositions, behind = first + kChunkPositions;
    const bool is_empty = end_of_seen <= first || oldest_seen >= behind;
    begin = is_empty || oldest_seen <= first ? 0 : static_cast<int>(oldest_seen - first);
    end = is_empty ? 0 : end_of_seen < behind ? static_cast<int>(end_of_seen - first) : kChunk;
  }
  __device__ bool is_empty() const { return begin >= end; }
  __device__ bool is_all() const { return begin == 0 && end == kChunk; }
  __device__ bool has(int position) const { return position >= begin && position < end; }
};

__device__ __forceinline__ const AttentionPart* parts_of(const Attention& a) {
  return a.parts != 0 ? reinterpret_cast<const AttentionPart*>(a.parts) : a.few_parts;
}
__device__ __forceinline__ DeviceAddress page_of(const Attention& a, const AttentionPart& part, uint64_t chunk) {
  const DeviceAddress* pages = a.pages != 0 ? reinterpret_cast<const DeviceAddress*>(a.pages) : a.few_pages;
  return pages[part.first_page + chunk];
}
// The last part for which begins_before(part) holds: parts are in the order of their rows and tiles. A warp looks for
// it together.
template <typename Condition>
__device__ __forceinline__ const AttentionPart& last_part(const Attention& a, const Condition& begins_before) {
  const AttentionPart* parts = parts_of(a);
  uint32_t first = 0, count = a.part_count;
  while (count > 1) {
    const uint32_t step = (count + 31) / 32, i = threadIdx.x % 32 * step;
    const uint32_t found = __popc(__ballot_sync(0xFFFFFFFFU, i < count && begins_before(parts[first + i])));
    first += (found - 1) * step;
    count = min(step, count - (found - 1) * step);
  }
  return parts[first];
}
// The same for one thread.
__device__ __forceinline__ const AttentionPart& part_of_row(const Attention& a, uint64_t row) {
  const AttentionPart* parts = parts_of(a);
  uint32_t first = 0, count = a.part_count;
  while (count > 1) {
    const uint32_t half = count / 2;
    if (parts[first + half].row <= row) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return parts[first];
}

// ---------------------------------------------------------------- tensor cores
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
__device__ __forceinline__ void load_matrices_turned(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
// c += a * b, for 16 queries, 8 positions or channels, and 16 terms.
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// What `Parts` parts of b add for 16 terms to some tiles of c, the smallest first. Tile i of part p has the words
// b[p][i / 2][i % 2 * 2] and the one behind.
template <int kParts, int kPairs>
__device__ __forceinline__ void multiply_parts(float (&c)[2 * kPairs][4], const uint32_t (&a)[2][4],
                                               const uint32_t (&b)[kParts][kPairs][4]) {
#pragma unroll
  for (int i = 0; i < 2 * kPairs; ++i) multiply(c[i], a[1], b[0][i / 2][i % 2 * 2], b[0][i / 2][i % 2 * 2 + 1]);
  if constexpr (kParts == 2) {
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) multiply(c[i], a[0], b[1][i / 2][i % 2 * 2], b[1][i / 2][i % 2 * 2 + 1]);
  }
#pragma unroll
  for (int i = 0; i < 2 * kPairs; ++i) multiply(c[i], a[0], b[0][i / 2][i % 2 * 2], b[0][i / 2][i % 2 * 2 + 1]);
}

// ---------------------------------------------------------------- numbers in parts
// 2^shift brings `largest` into [2^14, 2^15), or as far as 2^100 goes.
__device__ __forceinline__ int shift_of(float largest) {
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23 & 255U);
  if (exponent == 255) return 0;
  return min(14 - (exponent - 127), 100);
}
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(127 + exponent) << 23);
}
__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) < INFINITY; }
// 2^15 / x for powers of two.
__device__ __forceinline__ float half_range_over(float x) {
  return __uint_as_float((269U << 23) - __float_as_uint(x));
}
__device__ __forceinline__ uint32_t bits_of_pair(__half2 pair) { return *reinterpret_cast<const uint32_t*>(&pair); }
// The large and the small part of two numbers.
__device__ __forceinline__ void split(float x, float y, uint32_t& large, uint32_t& small) {
  const __half2 first = __floats2half2_rn(x, y);
  large = bits_of_pair(first);
  small = bits_of_pair(__floats2half2_rn(x - __low2float(first), y - __high2float(first)));
}

// ---------------------------------------------------------------- rows in shared memory
template <typename T, int kDim>
struct Format {
  static constexpr bool kHalf = sizeof(T) == 2;
  static constexpr int kParts = kHalf ? 1 : 2;  // of keys and values
  static constexpr int kStride = static_cast<int>(attention_stride(kDim));
  static constexpr int kRuns = kDim / 4 / kLanesOfRow;  // of four channels that a lane has of a row
  static constexpr int kPlane = kChunk * kStride;       // of one part
  // Keys and values have the same place, one after the other.
  static constexpr bool kTakesTurns = attention_takes_turns(kDim);
};

__device__ __forceinline__ float4 load_four(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ __forceinline__ float4 load_four(const __half* from) {
  const uint2 v = *reinterpret_cast<const uint2*>(from);
  const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&v.x));
  const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&v.y));
  return make_float4(a.x, a.y, b.x, b.y);
}
__device__ __forceinline__ float load_one(const float* from) { return *from; }
__device__ __forceinline__ float load_one(const __half* from) { return __half2float(*from); }

// What one lane has of a row, with zeros behind its end.
template <int kRuns>
struct RowPiece {
  float v[kRuns][4];

  template <typename T>
  __device__ __forceinline__ void load(const T* row, int size, bool is_there) {
    const int lane = static_cast<int>(threadIdx.x) % kLanesOfRow;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int channel = 4 * (lane + run * kLanesOfRow);
      v[run][0] = v[run][1] = v[run][2] = v[run][3] = 0;
      if (!is_there || channel >= size) continue;
      if (size % 4 == 0) {
        const float4 four = load_four(row + channel);
        v[run][0] = four.x, v[run][1] = four.y, v[run][2] = four.z, v[run][3] = four.w;
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (channel + i < size) v[run][i] = load_one(row + channel + i);
        }
      }
    }
  }

  // Of the whole row, the same for its lanes.
  __device__ __forceinline__ float largest() const {
    float largest = 0;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
#pragma unroll
      for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fabsf(v[run][i]));
    }
#pragma unroll
    for (int offset = kLanesOfRow / 2; offset > 0; offset /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, offset));
    }
    return largest;
  }

  // Zeros in place of what is not finite. True where there was any.
  __device__ __forceinline__ bool drop_what_is_not_finite() {
    bool found = false;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (is_finite(v[run][i])) continue;
        v[run][i] = 0;
        found = true;
      }
    }
    return found;
  }

  // In one part or, scaled, in two, the second of which lies `plane` elements behind the first. Returns what sums are
  // to be multiplied by.
  template <int kParts>
  __device__ __forceinline__ float store(__half* row, int plane) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanesOfRow;
    const int shift = kParts == 2 ? shift_of(largest()) : 0;
    const float scale = power_of_two(shift);
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      uint32_t large[2], small[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) split(v[run][2 * i] * scale, v[run][2 * i + 1] * scale, large[i], small[i]);
      __half* const to = row + 4 * (lane + run * kLanesOfRow);
      *reinterpret_cast<uint2*>(to) = make_uint2(large[0], large[1]);
      if constexpr (kParts == 2) *reinterpret_cast<uint2*>(to + plane) = make_uint2(small[0], small[1]);
    }
    return power_of_two(-shift);
  }
};

// Where the keys and values of one chunk lie, for one head.
template <typename T>
struct Plane {
  const T* keys;
  const T* values;
  uint64_t stride;  // elements from position to position

  __device__ Plane(const Attention& a, const AttentionPart& part, uint64_t kv_head, uint64_t chunk) {
    if (a.is_paged != 0) {
      const DeviceAddress page = page_of(a, part, chunk);
      const uint64_t at = kv_head * kChunkPositions * a.head_dim;
      keys = reinterpret_cast<const T*>(page + a.keys_offset) + at;
      values = reinterpret_cast<const T*>(page + a.values_offset) + at;
      stride = a.head_dim;
    } else {
      const T* row = reinterpret_cast<const T*>(a.qkv) + (part.row + chunk * kChunkPositions) * a.width;
      keys = row + (a.q_heads + kv_head) * a.head_dim;
      values = keys + a.kv_heads * a.head_dim;
      stride = a.width;
    }
  }
};

// A few rows of a chunk on their way to shared memory: those from a first one on, in steps of as many as the block takes
// at a time. Nothing is read of rows that no query of the block sees. Both rows of a warp are there or neither is.
template <typename T, int kDim, int kRows>
struct RowsUnderWay {
  using F = Format<T, kDim>;
  RowPiece<F::kRuns> pieces[kRows];

  static __device__ __forceinline__ int step() { return static_cast<int>(blockDim.x) / kLanesOfRow; }

  __device__ __forceinline__ void load(const T* plane, uint64_t stride, int size, const Range& seen, int first) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first + i * step();
      pieces[i].load(plane + row * stride, size, seen.has(row));
    }
  }
  __device__ __forceinline__ bool drop_what_is_not_finite() {
    bool found = false;
#pragma unroll
    for (int i = 0; i < kRows; ++i) found |= pieces[i].drop_what_is_not_finite();
    return found;
  }
  __device__ __forceinline__ void store(__half* plane, float* factors, int first) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first + i * step();
      if (row >= kChunk) continue;
      const float factor = pieces[i].template store<F::kParts>(plane + row * F::kStride, F::kPlane);
      if (F::kParts == 2 && threadIdx.x % kLanesOfRow == 0) factors[row] = factor;
    }
  }
};

// The keys and values of a chunk in shared memory, in parts, with a factor for each row.
template <typename T, int kDim>
struct ChunkMemory {
  using F = Format<T, kDim>;
  static constexpr int kRowsAtOnce = kDim > 128 ? 2 : 4;

  __half* keys;
  __half* values;
  float* key_factors;
  float* value_factors;

  // Behind `memory`; `end` is what lies behind these.
  __device__ ChunkMemory(__half* memory, float*& end)
      : keys(memory),
        values(F::kTakesTurns ? memory : memory + F::kParts * F::kPlane),
        key_factors(reinterpret_cast<float*>(values + F::kParts * F::kPlane)),
        value_factors(key_factors + kChunk) {
    end = value_factors + kChunk;
  }

  __device__ __forceinline__ void load_keys(const Plane<T>& plane, int size, const Range& seen) const {
    for_each_first([&](int first) {
      RowsUnderWay<T, kDim, kRowsAtOnce> rows;
      rows.load(plane.keys, plane.stride, size, seen, first);
      rows.store(keys, key_factors, first);
    });
  }
  // True where something was not finite, in whose place there are zeros.
  __device__ __forceinline__ bool load_values(const Plane<T>& plane, int size, const Range& seen) const {
    bool found = false;
    for_each_first([&](int first) {
      RowsUnderWay<T, kDim, kRowsAtOnce> rows;
      rows.load(plane.values, plane.stride, size, seen, first);
      found |= rows.drop_what_is_not_finite();
      rows.store(values, value_factors, first);
    });
    return found;
  }
  // All reads are under way before the first one is waited for.
  __device__ __forceinline__ bool load_both(const Plane<T>& plane, int size, const Range& seen) const {
    bool found = false;
    for_each_first([&](int first) {
      RowsUnderWay<T, kDim, kRowsAtOnce> key_rows, value_rows;
      key_rows.load(plane.keys, plane.stride, size, seen, first);
      value_rows.load(plane.values, plane.stride, size, seen, first);
      key_rows.store(keys, key_factors, first);
      found |= value_rows.drop_what_is_not_finite();
      value_rows.store(values, value_factors, first);
    });
    return found;
  }

 private:
  template <typename Body>
  static __device__ __forceinline__ void for_each_first(const Body& body) {
    const int step = static_cast<int>(blockDim.x) / kLanesOfRow;
    for (int first = static_cast<int>(threadIdx.x) / kLanesOfRow; first < kChunk; first += kRowsAtOnce * step) {
      body(first);
    }
  }
};

// ---------------------------------------------------------------- scores and weights
__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// From the sum of products to the exponent of two. `query_factor` has query_factor_of in it.
struct Scores {
  float soft_cap;
  __device__ explicit Scores(const Attention& a) : soft_cap(a.soft_cap) {}
  static __device__ float query_factor_of(const Attention& a) { return a.soft_cap != 0 ? a.scale : a.scale * kLog2E; }
  __device__ __forceinline__ float operator()(float sum, float query_factor, float key_factor) const {
    const float score = sum * query_factor * key_factor;
    return soft_cap != 0 ? kLog2E * (soft_cap * tanhf(score / soft_cap)) : score;
  }
};

// What a query has of some chunks: the largest score, and the sum of exp2(score - largest).
struct Weight {
  float largest, sum;
};
// What the sums before and those of a chunk are multiplied by when they meet.
struct Meeting {
  float largest, before, chunk;
  __device__ __forceinline__ Meeting(float largest_before, float largest_of_chunk)
      : largest(fmaxf(largest_before, largest_of_chunk)),
        before(exp2_of(largest_before - largest)),
        chunk(exp2_of(largest_of_chunk - largest)) {}
};
__device__ __forceinline__ float merge(float sum_before, float before, float sum_of_chunk, float chunk) {
  return __fmaf_rn(sum_before, before, __fmul_rn(sum_of_chunk, chunk));
}

// The smallest factor of values that there is.
constexpr float kLeastFactor = 0x1p-100F;
// What sums of values are multiplied by: weights were multiplied by half_range_over(largest factor).
__device__ __forceinline__ float value_factor(float largest_factor) { return largest_factor * 0x1p-15F; }

// ---------------------------------------------------------------- the queries of a block
// Some rows and heads of one sequence that have the same keys. Query i is of row i / heads and head i % heads.
struct Queries {
  const Attention& a;
  const AttentionPart& part;
  const uint64_t first_row, first_head;  // the row counts from the part's first
  const int heads, count;

  __device__ Queries(const Attention& attention, const AttentionPart& of, uint32_t tile)
      : a(attention),
        part(of),
        first_row((tile - of.first_tile) * static_cast<uint64_t>(attention.rows_of_tile)),
        first_head(blockIdx.z * static_cast<uint64_t>(attention.heads_of_tile)),
        heads(static_cast<int>(attention.heads_of_tile)),
        count(heads * static_cast<int>(of.rows - first_row < attention.rows_of_tile ? of.rows - first_row
                                                                                    : attention.rows_of_tile)) {}

  __device__ uint64_t kv_head() const { return first_head / (a.q_heads / a.kv_heads); }
  __device__ Seen seen_by(int query) const { return Seen(a, part, first_row + query / heads); }
  __device__ uint64_t first_chunk() const { return seen_by(0).first_chunk(); }
  __device__ uint64_t last_chunk() const { return seen_by(count - 1).last_chunk(); }
  // Of these queries, the first sees the oldest position and the last one the newest.
  __device__ Range range_of(int first, int last, uint64_t chunk) const {
    return Range(seen_by(first).oldest, seen_by(last).end, chunk);
  }
  // Among all rows and heads.
  __device__ uint64_t index_of(int query) const {
    return (part.row + first_row + query / heads) * a.q_heads + first_head + query % heads;
  }

  // In parts, and what sums are to be multiplied by. Behind the last one it comes again.
  template <int kDim>
  __device__ __forceinline__ void load(__half* to, float* factors, int room) const {
    using F = Format<float, kDim>;
    const int size = static_cast<int>(a.head_dim);
    const float factor = Scores::query_factor_of(a);
    for (int i = static_cast<int>(threadIdx.x) / kLanesOfRow; i < room; i += static_cast<int>(blockDim.x) / kLanesOfRow) {
      const int query = i < count ? i : count - 1;
      const uint64_t index = index_of(query);
      RowPiece<F::kRuns> piece;
      piece.load(reinterpret_cast<const float*>(a.qkv) + index / a.q_heads * a.width + index % a.q_heads * a.head_dim,
                 size, true);
      const float scale = piece.template store<2>(to + i * F::kStride, room * F::kStride);
      if (threadIdx.x % kLanesOfRow == 0) factors[i] = scale * factor;
    }
  }
};

}  // namespace ballast::cuda
