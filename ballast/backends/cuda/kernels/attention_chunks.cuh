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
constexpr int kTilesOfChunk = kChunk / 8;      // tiles of 8 positions
constexpr int kLanesOfRow = 16;                // that load a row together, four channels each at a time
constexpr float kLog2E = 1.4426950408889634F;  // scores are exponents of two

// ---------------------------------------------------------------- who sees what
// Positions are below 2^31: see supports_decode.
struct Seen {
  int oldest, end;
  __device__ Seen(int window, int end_of_seen)
      : oldest(window != 0 && end_of_seen > window ? end_of_seen - window : 0), end(end_of_seen) {}
  __device__ Seen(const Attention& a, const AttentionPart& part, uint64_t row)
      : Seen(window_of(a), static_cast<int>(a.is_causal != 0 ? part.position + row + 1 : part.rows)) {}
  static __device__ int window_of(const Attention& a) {
    return static_cast<int>(a.window < 0x7FFFFFFF ? a.window : 0x7FFFFFFF);
  }
  __device__ int first_chunk() const { return oldest / kChunk; }
  __device__ int last_chunk() const { return (end - 1) / kChunk; }
};

// [begin, end) of a chunk's positions, counted in the chunk.
struct Range {
  int begin, end;
  __device__ __forceinline__ Range(int oldest, int end_of_seen, int chunk)
      : begin(max(oldest - chunk * kChunk, 0)), end(min(end_of_seen - chunk * kChunk, kChunk)) {}
  __device__ __forceinline__ bool is_empty() const { return begin >= end; }
  __device__ __forceinline__ bool is_all() const { return begin == 0 && end == kChunk; }
  __device__ __forceinline__ bool has(int position) const { return position >= begin && position < end; }
};

__device__ __forceinline__ const AttentionPart* parts_of(const Attention& a) {
  return a.parts != 0 ? reinterpret_cast<const AttentionPart*>(a.parts) : a.few_parts;
}
__device__ __forceinline__ const DeviceAddress* pages_of(const Attention& a) {
  return a.pages != 0 ? reinterpret_cast<const DeviceAddress*>(a.pages) : a.few_pages;
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
// What the parts of b add for 16 terms to some tiles of c, the smallest first. Tile i of part p has the words
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
__device__ __forceinline__ float half_range_over(float x) { return __uint_as_float((269U << 23) - __float_as_uint(x)); }
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
  static constexpr int kPlane = kChunk * kStride;  // of one part
  // Keys and values have the same place, one after the other.
  static constexpr bool kTakesTurns = attention_takes_turns(kDim);
};

__device__ __forceinline__ float load_one(const float* from) { return *from; }
__device__ __forceinline__ float load_one(const __half* from) { return __half2float(*from); }
// The larger one, or NaN where there is one.
__device__ __forceinline__ float largest_or_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// What one lane has of a row: four channels, and four more for each 64 that a head has. A row is read without asking
// whether it is there, so that many are under way at once, and cleared behind that.
template <typename T>
struct FourChannels;

template <>
struct FourChannels<float> {
  float4 v;

  __device__ __forceinline__ void load(const float* from) { v = *reinterpret_cast<const float4*>(from); }
  __device__ __forceinline__ void load_one_by_one(const float* row, int channel, int size) {
    const auto at = [&](int i) { return row[channel + i < size ? channel + i : 0]; };
    v = make_float4(at(0), at(1), at(2), at(3));
  }
  __device__ __forceinline__ void clear_from(int count) {
    if (count <= 0) v.x = 0;
    if (count <= 1) v.y = 0;
    if (count <= 2) v.z = 0;
    if (count <= 3) v.w = 0;
  }
  __device__ __forceinline__ void clear_what_is_not_finite() {
    v.x = is_finite(v.x) ? v.x : 0;
    v.y = is_finite(v.y) ? v.y : 0;
    v.z = is_finite(v.z) ? v.z : 0;
    v.w = is_finite(v.w) ? v.w : 0;
  }
  __device__ __forceinline__ bool is_odd() const { return !is_finite(largest()); }
  __device__ __forceinline__ float largest() const {
    return largest_or_nan(largest_or_nan(fabsf(v.x), fabsf(v.y)), largest_or_nan(fabsf(v.z), fabsf(v.w)));
  }
  __device__ __forceinline__ void store(__half* to, int plane, float scale) const {
    uint2 large, small;
    split(v.x * scale, v.y * scale, large.x, small.x);
    split(v.z * scale, v.w * scale, large.y, small.y);
    *reinterpret_cast<uint2*>(to) = large;
    *reinterpret_cast<uint2*>(to + plane) = small;
  }
};

template <>
struct FourChannels<__half> {
  uint2 v;

  __device__ __forceinline__ void load(const __half* from) { v = *reinterpret_cast<const uint2*>(from); }
  __device__ __forceinline__ void load_one_by_one(const __half* row, int channel, int size) {
    const auto at = [&](int i) {
      return static_cast<uint32_t>(__half_as_ushort(row[channel + i < size ? channel + i : 0]));
    };
    v = make_uint2(at(0) | at(1) << 16, at(2) | at(3) << 16);
  }
  __device__ __forceinline__ void clear_from(int count) {
    v.x &= count <= 0 ? 0 : count == 1 ? 0xFFFFU : ~0U;
    v.y &= count <= 2 ? 0 : count == 3 ? 0xFFFFU : ~0U;
  }
  // The highest bit of each half where all bits of an exponent are set.
  static __device__ __forceinline__ uint32_t odd_bits(uint32_t pair) {
    return ((pair & 0x7C007C00U) + 0x04000400U) & 0x80008000U;
  }
  __device__ __forceinline__ void clear_what_is_not_finite() {
    v.x &= ~(odd_bits(v.x) / 0x8000U * 0xFFFFU);
    v.y &= ~(odd_bits(v.y) / 0x8000U * 0xFFFFU);
  }
  __device__ __forceinline__ bool is_odd() const { return (odd_bits(v.x) | odd_bits(v.y)) != 0; }
  __device__ __forceinline__ void store(__half* to, int, float) const { *reinterpret_cast<uint2*>(to) = v; }
};

template <typename T, int kRuns>
struct RowPiece {
  FourChannels<T> runs[kRuns];

  static __device__ __forceinline__ int channel_of(int run) {
    return 4 * (static_cast<int>(threadIdx.x) % kLanesOfRow + run * kLanesOfRow);
  }
  __device__ __forceinline__ void load(const T* row, int size) {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int channel = channel_of(run);
      runs[run].load(row + (channel < size ? channel : 0));
    }
  }
  __device__ __forceinline__ void load_one_by_one(const T* row, int size) {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) runs[run].load_one_by_one(row, channel_of(run), size);
  }
  // All but the first `size` channels.
  __device__ __forceinline__ void clear_from(int size) {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) runs[run].clear_from(size - channel_of(run));
  }
  __device__ __forceinline__ void clear_what_is_not_finite() {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) runs[run].clear_what_is_not_finite();
  }

  __device__ __forceinline__ float largest() const {
    float largest = runs[0].largest();
#pragma unroll
    for (int run = 1; run < kRuns; ++run) largest = largest_or_nan(largest, runs[run].largest());
    return largest;
  }
  __device__ __forceinline__ bool is_odd() const {
    bool is_odd = false;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) is_odd |= runs[run].is_odd();
    return is_odd;
  }
};

// A few rows on their way to shared memory. What is done with one is done with all before the next step, so that none
// waits for another.
template <typename T, int kDim, int kRows>
struct RowPieces {
  static constexpr int kRuns = kDim / 4 / kLanesOfRow;
  RowPiece<T, kRuns> rows[kRows];

  __device__ __forceinline__ void load(const T* const (&from)[kRows], int size) {
    if (size % 4 == 0) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) rows[i].load(from[i], size);
    } else {
#pragma unroll
      for (int i = 0; i < kRows; ++i) rows[i].load_one_by_one(from[i], size);
    }
  }

  // Of whole rows, the same for all lanes of one; NaN where there is one.
  __device__ __forceinline__ void find_largest(float (&largest)[kRows]) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) largest[i] = rows[i].largest();
#pragma unroll
    for (int offset = kLanesOfRow / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        largest[i] = largest_or_nan(largest[i], __shfl_xor_sync(0xFFFFFFFFU, largest[i], offset));
      }
    }
  }

  // Zeros in place of what is not finite. True where there was any.
  __device__ __forceinline__ bool clear_what_is_not_finite() {
    bool found = false;
#pragma unroll
    for (int i = 0; i < kRows; ++i) found |= rows[i].is_odd();
    if (!found) return false;
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows[i].clear_what_is_not_finite();
    return true;
  }

  // Row i to row first + i * step of `to`, below `end`: of f32 scaled, in two parts, the second of which lies `plane`
  // elements behind the first, with factors that sums are to be multiplied by; of f16 as it is.
  __device__ __forceinline__ void store(__half* to, float* factors, int plane, int first, int step, int end) const {
    constexpr int kStride = Format<T, kDim>::kStride;
    float scale[kRows] = {};
    if constexpr (sizeof(T) == 4) {
      find_largest(scale);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int row = first + i * step, shift = shift_of(scale[i]);
        scale[i] = power_of_two(shift);
        if (threadIdx.x % kLanesOfRow == 0 && row < end) factors[row] = power_of_two(-shift);
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first + i * step;
      if (row >= end) continue;
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        rows[i].runs[run].store(to + row * kStride + RowPiece<T, kRuns>::channel_of(run), plane, scale[i]);
      }
    }
  }
};

// Where the keys and values of one chunk lie, for one head.
template <typename T>
struct Plane {
  const T* keys;
  const T* values;
};
// Of all chunks.
template <typename T>
struct Planes {
  const DeviceAddress* pages;  // null: keys and values are packed beside the queries
  DeviceAddress keys, values;  // in a page, or of the first position
  uint32_t stride;             // elements from position to position

  __device__ __forceinline__ Planes(const Attention& a, const AttentionPart& part, uint32_t kv_head) : pages(nullptr) {
    if (a.is_paged != 0) {
      const uint64_t at = static_cast<uint64_t>(kv_head) * kChunkPositions * a.head_dim * sizeof(T);
      pages = pages_of(a) + part.first_page;
      keys = a.keys_offset + at;
      values = a.values_offset + at;
      stride = static_cast<uint32_t>(a.head_dim);
    } else {
      keys = a.qkv + (part.row * a.width + (a.q_heads + kv_head) * a.head_dim) * sizeof(T);
      values = keys + a.kv_heads * a.head_dim * sizeof(T);
      stride = static_cast<uint32_t>(a.width);
    }
  }
  __device__ __forceinline__ Plane<T> of(int chunk) const {
    const DeviceAddress base =
        pages != nullptr ? pages[chunk] : static_cast<uint64_t>(chunk) * kChunkPositions * stride * sizeof(T);
    return {reinterpret_cast<const T*>(base + keys), reinterpret_cast<const T*>(base + values)};
  }
};

// Rows of a chunk: those from a first one on, in steps of as many as the block takes at a time. Nothing is read of rows
// that no query of the block sees.
template <typename T, int kDim, int kRows>
struct RowsOfChunk {
  using F = Format<T, kDim>;
  RowPieces<T, kDim, kRows> pieces;

  static __device__ __forceinline__ int step() { return static_cast<int>(blockDim.x) / kLanesOfRow; }

  __device__ __forceinline__ void load(const T* plane, uint32_t stride, int size, const Range& seen, int first) {
    const T* from[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first + i * step();
      from[i] = plane + static_cast<uint32_t>(seen.has(row) ? row : seen.begin) * stride;
    }
    pieces.load(from, size);
  }
  __device__ __forceinline__ void clear_what_is_not_there(int size, const Range& seen, int first) {
    if (size == kDim && seen.is_all()) return;
#pragma unroll
    for (int i = 0; i < kRows; ++i) pieces.rows[i].clear_from(seen.has(first + i * step()) ? size : 0);
  }
  template <bool kValues>
  __device__ __forceinline__ bool store(__half* plane, float* factors, int size, const Range& seen, int first) {
    clear_what_is_not_there(size, seen, first);
    bool found = false;
    if constexpr (kValues) found = pieces.clear_what_is_not_finite();
    pieces.store(plane, factors, F::kPlane, first, step(), kChunk);
    return found;
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

  __device__ __forceinline__ void load_keys(const Plane<T>& plane, uint32_t stride, int size, const Range& seen) const {
    for_each_first([&](int first) {
      RowsOfChunk<T, kDim, kRowsAtOnce> rows;
      rows.load(plane.keys, stride, size, seen, first);
      rows.template store<false>(keys, key_factors, size, seen, first);
    });
  }
  // True where something was not finite, in whose place there are zeros.
  __device__ __forceinline__ bool load_values(const Plane<T>& plane, uint32_t stride, int size,
                                              const Range& seen) const {
    bool found = false;
    for_each_first([&](int first) {
      RowsOfChunk<T, kDim, kRowsAtOnce> rows;
      rows.load(plane.values, stride, size, seen, first);
      found |= rows.template store<true>(values, value_factors, size, seen, first);
    });
    return found;
  }
  // All reads are under way before the first one is waited for. `meanwhile` is called once, by all threads.
  template <typename Meanwhile>
  __device__ __forceinline__ bool load_both(const Plane<T>& plane, uint32_t stride, int size, const Range& seen,
                                            const Meanwhile& meanwhile) const {
    bool found = false, is_first = true;
    for_each_first([&](int first) {
      RowsOfChunk<T, kDim, kRowsAtOnce> key_rows, value_rows;
      key_rows.load(plane.keys, stride, size, seen, first);
      value_rows.load(plane.values, stride, size, seen, first);
      if (is_first) meanwhile();
      is_first = false;
      key_rows.template store<false>(keys, key_factors, size, seen, first);
      found |= value_rows.template store<true>(values, value_factors, size, seen, first);
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

// From the sum of products to the exponent of two: sum * query factor * key factor, and then bend() where there is a
// cap.
__device__ __forceinline__ float query_factor_of(const Attention& a) {
  return a.soft_cap != 0 ? a.scale : a.scale * kLog2E;
}
__device__ __forceinline__ float bend(float score, float soft_cap) {
  return kLog2E * (soft_cap * tanhf(score / soft_cap));
}

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
  const int heads, count;
  const uint64_t first_row;    // among all
  const uint64_t first_index;  // of the first query, among all rows and heads
  const int window;
  const int first_end, step;  // where what the first row sees ends, and how much later for each row behind it

  // Of the rows of `part` from `row` on.
  __device__ __forceinline__ Queries(const Attention& attention, const AttentionPart& part, uint32_t row)
      : a(attention),
        heads(static_cast<int>(attention.heads_of_tile)),
        count(heads * static_cast<int>(min(static_cast<uint32_t>(part.rows) - row, attention.rows_of_tile))),
        first_row(part.row + row),
        first_index(first_row * attention.q_heads + blockIdx.z * attention.heads_of_tile),
        window(Seen::window_of(attention)),
        first_end(Seen(attention, part, row).end),
        step(attention.is_causal != 0 ? 1 : 0) {}

  __device__ uint32_t first_head() const { return blockIdx.z * a.heads_of_tile; }
  __device__ uint32_t kv_head() const {
    return first_head() / (static_cast<uint32_t>(a.q_heads) / static_cast<uint32_t>(a.kv_heads));
  }
  __device__ __forceinline__ Seen seen_by(int query) const { return Seen(window, first_end + step * (query / heads)); }
  // Of these queries, the first sees the oldest position and the last one the newest.
  __device__ __forceinline__ Seen seen_by_any(int first, int last) const {
    Seen seen = seen_by(last);
    seen.oldest = seen_by(first).oldest;
    return seen;
  }
  __device__ __forceinline__ Seen seen_by_all(int first, int last) const {
    Seen seen = seen_by(first);
    seen.oldest = seen_by(last).oldest;
    return seen;
  }
  // Among all rows and heads.
  __device__ __forceinline__ uint64_t index_of(int query) const {
    return first_index + static_cast<uint64_t>(query / heads) * a.q_heads + query % heads;
  }
  __device__ __forceinline__ const float* elements_of(int query) const {
    return reinterpret_cast<const float*>(a.qkv) + (first_row + query / heads) * a.width +
           (first_head() + query % heads) * a.head_dim;
  }

  // In parts, and what sums are to be multiplied by. Behind the last one it comes again.
  template <int kDim>
  __device__ __forceinline__ void load(__half* to, float* factors, int room) const {
    using F = Format<float, kDim>;
    const int size = static_cast<int>(a.head_dim), step = static_cast<int>(blockDim.x) / kLanesOfRow;
    const float factor = query_factor_of(a);
    for (int i = static_cast<int>(threadIdx.x) / kLanesOfRow; i < room; i += step) {
      const float* const from[1] = {elements_of(i < count ? i : count - 1)};
      RowPieces<float, kDim, 1> piece;
      piece.load(from, size);
      if (size < kDim) piece.rows[0].clear_from(size);
      piece.store(to, factors, room * F::kStride, i, step, room);
      if (threadIdx.x % kLanesOfRow == 0) factors[i] *= factor;
    }
  }
};

}  // namespace ballast::cuda
