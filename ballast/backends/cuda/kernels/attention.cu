// Attention over keys and values in pages, or packed beside the queries.
//
// Positions are divided into chunks of 64 that begin at multiples of 64. Of each chunk a query gets the largest score,
// the sum of exp2(score - largest) and the sum of values times that; the chunks are then merged in ascending order. In
// a chunk
//   a score          is a sum over channels, 16 at a time, added up by tensor cores
//   the sum          is a tree over positions
//   sums of values   are over positions, 16 at a time, added up by tensor cores
// That is one chain of operations for each query, whoever computes it: attention_tiles, where a block has many queries
// and goes from chunk to chunk, or attention_chunks, where a block has few and one chunk, and attention_merge behind
// it. Queries are rows of a tensor core's operand, which do not meet. What a query does not see has the weight 0, and
// is finite or taken for 0, so positions behind it, other rows and other sequences change nothing.
#include "attention_chunks.cuh"

using namespace ballast::cuda;

namespace {

constexpr int kMostThreads = 32 * static_cast<int>(kAttentionWarps);
constexpr int kTile = static_cast<int>(kQueriesOfTile);

// Addresses of matrices for load_matrices: lane l gives row l % 8 of matrix l / 8.
struct MatrixLane {
  int g, t;             // of this lane's elements: rows g and g + 8, columns 2 t and 2 t + 1
  int a_row, a_column;  // of [16, 16], rows first: queries, or weights
  int b_row, b_column;  // of [16, 16], columns first: keys
  __device__ MatrixLane() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    g = lane / 4, t = lane % 4;
    a_row = lane % 16, a_column = lane / 16 * 8;
    b_row = lane / 16 * 8 + lane % 8, b_column = lane / 8 % 2 * 8;
  }
};

// ---------------------------------------------------------------- a warp with 16 queries
template <typename T, int kDim>
struct WarpTile {
  using F = Format<T, kDim>;
  static constexpr int kSteps = kDim / 16;
  static constexpr int kPairs = 2;  // of tiles that are multiplied in turn

  const Queries& queries;
  const ChunkMemory<T, kDim>& memory;
  const MatrixLane lane;
  const int first, last;  // queries of this warp
  const Seen any, all;    // what any of them sees, and all
  const int size;
  uint32_t query_address;
  float query_factors[2];
  int oldest[2], end[2];  // of what the rows g and g + 8 see
  Weight total[2] = {{-INFINITY, 0}, {-INFINITY, 0}};
  float merged[2 * kSteps][4] = {};

  __device__ __forceinline__ WarpTile(const Queries& of, const ChunkMemory<T, kDim>& chunk, const __half* parts,
                                      const float* factors)
      : queries(of),
        memory(chunk),
        first(static_cast<int>(threadIdx.x) / 32 * kTile),
        last(min(first + kTile, of.count) - 1),
        any(of.seen_by_any(first, last)),
        all(of.seen_by_all(first, last)),
        size(static_cast<int>(of.a.head_dim)),
        query_address(shared_address(parts + (first + lane.a_row) * F::kStride + lane.a_column)) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = query_of(row);
      const Seen seen = queries.seen_by(query < of.count ? query : of.count - 1);
      query_factors[row] = factors[query];
      oldest[row] = seen.oldest;
      end[row] = seen.end;
    }
  }
  __device__ __forceinline__ int query_of(int row) const { return first + lane.g + 8 * row; }
  __device__ __forceinline__ int room() const { return static_cast<int>(blockDim.x) / 32 * kTile; }

  // Sums over channels for tiles of 8 positions.
  __device__ __forceinline__ void score(float (&s)[kTilesOfChunk][4]) const {
    const uint32_t keys = shared_address(memory.keys + lane.b_row * F::kStride + lane.b_column);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (16 * step >= size) break;
      uint32_t q[2][4];
#pragma unroll
      for (int p = 0; p < 2; ++p) load_matrices(q[p], query_address + 2 * (p * room() * F::kStride + 16 * step));
#pragma unroll
      for (int tile = 0; tile < kTilesOfChunk; tile += 2 * kPairs) {
        uint32_t k[F::kParts][kPairs][4];
#pragma unroll
        for (int p = 0; p < F::kParts; ++p) {
#pragma unroll
          for (int pair = 0; pair < kPairs; ++pair) {
            load_matrices(k[p][pair], keys + 2 * (p * F::kPlane + (8 * tile + 16 * pair) * F::kStride + 16 * step));
          }
        }
        multiply_parts<F::kParts, kPairs>(*reinterpret_cast<float(*)[2 * kPairs][4]>(&s[tile]), q, k);
      }
    }
  }

  // What becomes of the sums before and of the chunk's in the rows g and g + 8.
  struct Shares {
    float value_factors[2], before[2], chunk[2];
    bool sees[2];
  };

  // From sums to weights, times the factors of values.
  template <bool kMasked>
  __device__ __forceinline__ Shares weigh(float (&s)[kTilesOfChunk][4], int chunk) {
    const Range seen[2] = {Range(oldest[0], end[0], chunk), Range(oldest[1], end[1], chunk)};
    const auto is_seen = [&](int tile, int i) { return !kMasked || seen[i / 2].has(8 * tile + 2 * lane.t + i % 2); };
#pragma unroll
    for (int tile = 0; tile < kTilesOfChunk; ++tile) {
      float2 of_keys = make_float2(1, 1);
      if constexpr (!F::kHalf) {
        of_keys = *reinterpret_cast<const float2*>(memory.key_factors + 8 * tile + 2 * lane.t);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) s[tile][i] *= query_factors[i / 2] * (i % 2 == 0 ? of_keys.x : of_keys.y);
    }
    if (queries.a.soft_cap != 0) bend_all(s);
    float largest[2] = {-INFINITY, -INFINITY}, factor[2] = {kLeastFactor, kLeastFactor};
#pragma unroll
    for (int tile = 0; tile < kTilesOfChunk; ++tile) {
      float2 of_values = make_float2(1, 1);
      if constexpr (!F::kHalf) {
        of_values = *reinterpret_cast<const float2*>(memory.value_factors + 8 * tile + 2 * lane.t);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!is_seen(tile, i)) continue;
        largest[i / 2] = fmaxf(largest[i / 2], s[tile][i]);
        if constexpr (!F::kHalf) factor[i / 2] = fmaxf(factor[i / 2], i % 2 == 0 ? of_values.x : of_values.y);
      }
    }
    Shares shares;
    float range[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      largest[row] = reduce_row(largest[row]);
      factor[row] = F::kHalf ? 1 : reduce_row(factor[row]);
      range[row] = half_range_over(factor[row]);
      shares.value_factors[row] = value_factor(factor[row]);
      shares.sees[row] = !kMasked || !seen[row].is_empty();
    }
    float sums[2][kTilesOfChunk];
#pragma unroll
    for (int tile = 0; tile < kTilesOfChunk; ++tile) {
      float2 of_values = make_float2(1, 1);
      if constexpr (!F::kHalf) {
        of_values = *reinterpret_cast<const float2*>(memory.value_factors + 8 * tile + 2 * lane.t);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[tile][i] = is_seen(tile, i) ? exp2_of(s[tile][i] - largest[i / 2]) : 0;
      }
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        sums[row][tile] = s[tile][2 * row] + s[tile][2 * row + 1];
        // What is not seen has factors that may be anything.
        const bool sees_x = is_seen(tile, 2 * row), sees_y = is_seen(tile, 2 * row + 1);
        s[tile][2 * row] = sees_x ? s[tile][2 * row] * (of_values.x * range[row]) : 0;
        s[tile][2 * row + 1] = sees_y ? s[tile][2 * row + 1] * (of_values.y * range[row]) : 0;
      }
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float(&of)[kTilesOfChunk] = sums[row];
      float sum = ((of[0] + of[1]) + (of[2] + of[3])) + ((of[4] + of[5]) + (of[6] + of[7]));
      sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
      const Meeting meeting(total[row].largest, largest[row]);
      shares.before[row] = meeting.before;
      shares.chunk[row] = meeting.chunk;
      if (!shares.sees[row]) continue;
      total[row] = {meeting.largest, merge(total[row].sum, meeting.before, sum, meeting.chunk)};
    }
    return shares;
  }
  __device__ __forceinline__ void bend_all(float (&s)[kTilesOfChunk][4]) const {
#pragma unroll
    for (int tile = 0; tile < kTilesOfChunk; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[tile][i] = bend(s[tile][i], queries.a.soft_cap);
    }
  }
  // Of the four lanes that have a row.
  static __device__ __forceinline__ float reduce_row(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 2));
  }

  // Sums over positions, merged with those before.
  __device__ __forceinline__ void add_values(const float (&s)[kTilesOfChunk][4], const Shares& shares) {
    constexpr int kChunkSteps = kChunk / 16;
    uint32_t w[kChunkSteps][2][4];
#pragma unroll
    for (int tile = 0; tile < kTilesOfChunk; ++tile) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int at = tile % 2 * 2 + row;
        split(s[tile][2 * row], s[tile][2 * row + 1], w[tile / 2][0][at], w[tile / 2][1][at]);
      }
    }
    const uint32_t values = shared_address(memory.values + lane.a_row * F::kStride + lane.a_column);
#pragma unroll
    for (int step = 0; step < kSteps; step += kPairs) {
      if (16 * step >= size) break;
      float sums[2 * kPairs][4] = {};
#pragma unroll
      for (int k = 0; k < kChunkSteps; ++k) {
        uint32_t v[F::kParts][kPairs][4];
#pragma unroll
        for (int p = 0; p < F::kParts; ++p) {
#pragma unroll
          for (int pair = 0; pair < kPairs; ++pair) {
            load_matrices_turned(v[p][pair], values + 2 * (p * F::kPlane + 16 * k * F::kStride + 16 * (step + pair)));
          }
        }
        multiply_parts<F::kParts, kPairs>(sums, w[k], v);
      }
#pragma unroll
      for (int tile = 0; tile < 2 * kPairs; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float sum = sums[tile][i] * shares.value_factors[i / 2];
          float& to = merged[2 * step + tile][i];
          if (shares.sees[i / 2]) to = merge(to, shares.before[i / 2], sum, shares.chunk[i / 2]);
        }
      }
    }
  }
  __device__ __forceinline__ int channel_of(int tile, int i) const { return 8 * tile + 2 * lane.t + i % 2; }
  // Shared memory has zeros in place of values that are not finite, so that a query that does not see them is as if
  // they were not there. One that does has NaN from here on.
  __device__ __forceinline__ void mark_what_is_not_finite(const T* values, uint32_t stride, int chunk) {
    const Range seen[2] = {Range(oldest[0], end[0], chunk), Range(oldest[1], end[1], chunk)};
    for (int position = 0; position < kChunk; ++position) {
      if (!seen[0].has(position) && !seen[1].has(position)) continue;
#pragma unroll
      for (int tile = 0; tile < 2 * kSteps; ++tile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int channel = channel_of(tile, i);
          if (channel >= size || is_finite(load_one(values + position * stride + channel))) continue;
          if (seen[0].has(position)) merged[tile][i] = NAN;
          if (seen[1].has(position)) merged[tile][i + 2] = NAN;
        }
      }
    }
  }

  __device__ __forceinline__ void write() const {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = query_of(row);
      if (query >= queries.count) continue;
      float* out = reinterpret_cast<float*>(queries.a.out) + queries.index_of(query) * size;
#pragma unroll
      for (int tile = 0; tile < 2 * kSteps; ++tile) {
        const int channel = channel_of(tile, 0);
        const float x = merged[tile][2 * row] / total[row].sum, y = merged[tile][2 * row + 1] / total[row].sum;
        if (size % 2 == 0) {
          if (channel < size) *reinterpret_cast<float2*>(out + channel) = make_float2(x, y);
        } else {
          if (channel < size) out[channel] = x;
          if (channel + 1 < size) out[channel + 1] = y;
        }
      }
    }
  }
};

// A block with 16 queries for each warp goes from chunk to chunk.
template <typename T, int kDim>
__device__ __forceinline__ void run_tiles(const Attention& a) {
  using F = Format<T, kDim>;
  extern __shared__ float4 shared[];
  // The last tiles see the most.
  const uint32_t tile = gridDim.x - 1 - blockIdx.x;
  begin_kernel();
  const AttentionPart& part = last_part(a, [&](const AttentionPart& each) { return each.first_tile <= tile; });
  const Queries queries(a, part, (tile - part.first_tile) * a.rows_of_tile);
  const Planes<T> planes(a, part, queries.kv_head());
  const int room = static_cast<int>(blockDim.x) / 32 * kTile;
  __half* const parts = reinterpret_cast<__half*>(shared);
  float* query_factors;
  const ChunkMemory<T, kDim> memory(parts + 2 * room * F::kStride, query_factors);
  queries.load<kDim>(parts, query_factors, room);
  __syncthreads();
  WarpTile<T, kDim> warp(queries, memory, parts, query_factors);
  const int size = static_cast<int>(a.head_dim);
  const bool has_queries = warp.first < queries.count;
  const Seen seen_by_block = queries.seen_by_any(0, queries.count - 1);
  const int last_chunk = seen_by_block.last_chunk();
  for (int chunk = seen_by_block.first_chunk(); chunk <= last_chunk; ++chunk) {
    const Plane<T> plane = planes.of(chunk);
    const Range range(seen_by_block.oldest, seen_by_block.end, chunk);
    const bool sees = has_queries && !Range(warp.any.oldest, warp.any.end, chunk).is_empty();
    float s[kTilesOfChunk][4] = {};
    bool has_odd = false;  // values that are not finite
    __syncthreads();       // nobody reads the chunk before any more
    if constexpr (F::kTakesTurns) {
      memory.load_keys(plane, planes.stride, size, range);
      __syncthreads();
      if (sees) warp.score(s);
      __syncthreads();
      has_odd = __syncthreads_or(memory.load_values(plane, planes.stride, size, range)) != 0;
    } else {
      has_odd = __syncthreads_or(memory.load_both(plane, planes.stride, size, range, [] {})) != 0;
      if (sees) warp.score(s);
    }
    if (!sees) continue;
    if (Range(warp.all.oldest, warp.all.end, chunk).is_all()) warp.add_values(s, warp.template weigh<false>(s, chunk));
    else warp.add_values(s, warp.template weigh<true>(s, chunk));
    if (has_odd) warp.mark_what_is_not_finite(plane.values, planes.stride, chunk);
  }
  if (has_queries) warp.write();
}

// ---------------------------------------------------------------- a block with 16 queries and one chunk
template <typename T, int kDim>
struct ChunkBlock {
  using F = Format<T, kDim>;

  const Queries& queries;
  const ChunkMemory<T, kDim>& memory;
  const MatrixLane lane;
  const Plane<T> plane;
  const uint32_t stride;
  const int chunk, index;  // index: in `partial`
  const int warp, warps, size;
  const __half* query_parts;
  const float* query_factors;
  float* sums;              // [16, kScoreStride]
  __half* weights;          // [2, 16, kScoreStride]
  float* factors;           // [16]: of sums of values
  Weight* weight_of_chunk;  // [16]

  __device__ __forceinline__ ChunkBlock(const Queries& of, const ChunkMemory<T, kDim>& keys_and_values,
                                        const Planes<T>& planes, int which, const __half* parts, float* behind)
      : queries(of),
        memory(keys_and_values),
        plane(planes.of(which)),
        stride(planes.stride),
        chunk(which),
        index(static_cast<int>(blockIdx.y)),
        warp(static_cast<int>(threadIdx.x) / 32),
        warps(static_cast<int>(blockDim.x) / 32),
        size(static_cast<int>(of.a.head_dim)),
        query_parts(parts),
        query_factors(behind),
        sums(behind + kTile),
        weights(reinterpret_cast<__half*>(sums + kTile * kScoreStride)),
        factors(reinterpret_cast<float*>(weights + 2 * kTile * kScoreStride)),
        weight_of_chunk(reinterpret_cast<Weight*>(factors + kTile)) {}

  __device__ __forceinline__ void score() const {
    for (int tile = warp; tile < kTilesOfChunk; tile += warps) score_tile(tile);
  }
  // 8 positions.
  __device__ __forceinline__ void score_tile(int tile) const {
    const uint32_t queries_at = shared_address(query_parts + lane.a_row * F::kStride + lane.a_column);
    const int l = static_cast<int>(threadIdx.x) % 32;
    // Four matrices: two steps of 16 channels for the same positions.
    const uint32_t keys_at = shared_address(memory.keys + (8 * tile + l % 8) * F::kStride + l / 8 * 8);
    float s[1][4] = {};
#pragma unroll
    for (int step = 0; step < kDim / 16; step += 2) {
      if (16 * step >= size) break;
      uint32_t k[F::kParts][4];
#pragma unroll
      for (int p = 0; p < F::kParts; ++p) load_matrices(k[p], keys_at + 2 * (p * F::kPlane + 16 * step));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (16 * (step + half) >= size) break;
        uint32_t q[2][4];
#pragma unroll
        for (int p = 0; p < 2; ++p) {
          load_matrices(q[p], queries_at + 2 * (p * kTile * F::kStride + 16 * (step + half)));
        }
        multiply(s[0], q[1], k[0][2 * half], k[0][2 * half + 1]);
        if constexpr (F::kParts == 2) multiply(s[0], q[0], k[1][2 * half], k[1][2 * half + 1]);
        multiply(s[0], q[0], k[0][2 * half], k[0][2 * half + 1]);
      }
    }
    float* const to = sums + lane.g * kScoreStride + 8 * tile + 2 * lane.t;
    *reinterpret_cast<float2*>(to) = make_float2(s[0][0], s[0][1]);
    *reinterpret_cast<float2*>(to + 8 * kScoreStride) = make_float2(s[0][2], s[0][3]);
  }

  // A warp a query: each lane has two positions.
  __device__ __forceinline__ void weigh() const {
    const int position = static_cast<int>(threadIdx.x) % 32 * 2;
    float2 of_keys = make_float2(1, 1), of_values = make_float2(1, 1);
    if constexpr (!F::kHalf) {
      of_keys = *reinterpret_cast<const float2*>(memory.key_factors + position);
      of_values = *reinterpret_cast<const float2*>(memory.value_factors + position);
    }
    for (int query = warp; query < queries.count; query += warps) {
      const Seen by_query = queries.seen_by(query);
      const Range seen(by_query.oldest, by_query.end, chunk);
      const bool sees_x = seen.has(position), sees_y = seen.has(position + 1);
      const float2 sum = *reinterpret_cast<const float2*>(sums + query * kScoreStride + position);
      float x = sum.x * (query_factors[query] * of_keys.x), y = sum.y * (query_factors[query] * of_keys.y);
      if (queries.a.soft_cap != 0) x = bend(x, queries.a.soft_cap), y = bend(y, queries.a.soft_cap);
      const float largest = reduce_warp(fmaxf(sees_x ? x : -INFINITY, sees_y ? y : -INFINITY),
                                        [](float a, float b) { return fmaxf(a, b); });
      float factor = 1;
      if constexpr (!F::kHalf) {
        factor = reduce_warp(fmaxf(sees_x ? of_values.x : kLeastFactor, sees_y ? of_values.y : kLeastFactor),
                             [](float a, float b) { return fmaxf(a, b); });
      }
      const float range = half_range_over(factor);
      const float weight_x = sees_x ? exp2_of(x - largest) : 0, weight_y = sees_y ? exp2_of(y - largest) : 0;
      // The tree of WarpTile: over tiles of 8 positions, then within them.
      float total = weight_x + weight_y;
#pragma unroll
      for (const int offset : {4, 8, 16, 1, 2}) total += __shfl_xor_sync(0xFFFFFFFFU, total, offset);
      uint32_t large, small;
      split(sees_x ? weight_x * (of_values.x * range) : 0, sees_y ? weight_y * (of_values.y * range) : 0, large, small);
      __half* const to = weights + query * kScoreStride + position;
      *reinterpret_cast<uint32_t*>(to) = large;
      *reinterpret_cast<uint32_t*>(to + kTile * kScoreStride) = small;
      if (position != 0) continue;
      weight_of_chunk[query] = {largest, total};
      factors[query] = value_factor(factor);
    }
  }

  // A warp 8 channels.
  __device__ __forceinline__ void add_values(bool has_odd) const {
    const int l = static_cast<int>(threadIdx.x) % 32;
    const uint32_t weights_at = shared_address(weights + lane.a_row * kScoreStride + lane.a_column);
    for (int tile = warp; 8 * tile < size; tile += warps) {
      // Four matrices: two steps of 16 positions for the same channels.
      const uint32_t values_at = shared_address(memory.values + l * F::kStride + 8 * tile);
      float s[4] = {};
#pragma unroll
      for (int k = 0; k < kChunk / 16; k += 2) {
        uint32_t w[2][2][4], v[F::kParts][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int p = 0; p < 2; ++p) {
            load_matrices(w[half][p], weights_at + 2 * (p * kTile * static_cast<int>(kScoreStride) + 16 * (k + half)));
          }
        }
#pragma unroll
        for (int p = 0; p < F::kParts; ++p) {
          load_matrices_turned(v[p], values_at + 2 * (p * F::kPlane + 16 * k * F::kStride));
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          multiply(s, w[half][1], v[0][2 * half], v[0][2 * half + 1]);
          if constexpr (F::kParts == 2) multiply(s, w[half][0], v[1][2 * half], v[1][2 * half + 1]);
          multiply(s, w[half][0], v[0][2 * half], v[0][2 * half + 1]);
        }
      }
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        put(lane.g + 8 * row, 8 * tile + 2 * lane.t, make_float2(s[2 * row], s[2 * row + 1]), has_odd);
      }
    }
  }

  // As WarpTile::mark_what_is_not_finite.
  __device__ __forceinline__ bool sees_odd_value(const Range& seen, int channel) const {
    for (int position = seen.begin; position < seen.end; ++position) {
      if (channel < size && !is_finite(load_one(plane.values + position * stride + channel))) return true;
    }
    return false;
  }

  // Sums over positions for a channel and the next.
  __device__ __forceinline__ void put(int query, int channel, float2 sum, bool has_odd) const {
    if (query >= queries.count || channel >= size) return;
    const Seen by_query = queries.seen_by(query);
    const Range seen(by_query.oldest, by_query.end, chunk);
    if (seen.is_empty()) return;
    sum.x *= factors[query];
    sum.y *= factors[query];
    if (has_odd && sees_odd_value(seen, channel)) sum.x = NAN;
    if (has_odd && sees_odd_value(seen, channel + 1)) sum.y = NAN;
    const Weight weight = weight_of_chunk[query];
    const uint64_t at = queries.index_of(query);
    float* to = reinterpret_cast<float*>(queries.a.out) + at * size + channel;
    if (queries.a.chunks == 0) {
      const Meeting meeting(-INFINITY, weight.largest);
      const float total = merge(0, meeting.before, weight.sum, meeting.chunk);
      sum.x = merge(0, meeting.before, sum.x, meeting.chunk) / total;
      sum.y = merge(0, meeting.before, sum.y, meeting.chunk) / total;
    } else {
      float* const row = reinterpret_cast<float*>(queries.a.partial) + (at * queries.a.chunks + index) * (size + 2);
      if (channel == 0) *reinterpret_cast<Weight*>(row) = weight;
      to = row + 2 + channel;
    }
    if (size % 2 == 0) {
      *reinterpret_cast<float2*>(to) = sum;
    } else {
      to[0] = sum.x;
      if (channel + 1 < size) to[1] = sum.y;
    }
  }
};

// Into the cache that all multiprocessors share. This may come before the kernels are waited for that write the newest
// keys and values.
template <typename T>
__device__ __forceinline__ void fetch_into_cache(const Plane<T>& plane, int size) {
  constexpr int kLine = 128;
  const int lines = kChunk * size * static_cast<int>(sizeof(T)) / kLine;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * lines; i += static_cast<int>(blockDim.x)) {
    const auto* from = reinterpret_cast<const char*>(i < lines ? plane.keys : plane.values) + i % lines * kLine;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(from)));
  }
}

// Not later than where it stands.
__device__ __forceinline__ float load_now(const float* from) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(__cvta_generic_to_global(from)));
  return value;
}

template <typename T, int kDim>
__device__ __forceinline__ void run_chunks(const Attention& a) {
  using F = Format<T, kDim>;
  extern __shared__ float4 shared[];
  let_later_start();
  const uint32_t tile = blockIdx.x;
  const AttentionPart& part = last_part(a, [&](const AttentionPart& each) { return each.first_tile <= tile; });
  const Queries queries(a, part, (tile - part.first_tile) * a.rows_of_tile);
  const Seen seen_by_block = queries.seen_by_any(0, queries.count - 1);
  const int chunk = Seen(a, part, 0).first_chunk() + static_cast<int>(blockIdx.y);
  const Range seen(seen_by_block.oldest, seen_by_block.end, chunk);
  if (seen.is_empty()) return wait_for_earlier();
  __half* const parts = reinterpret_cast<__half*>(shared);
  float* behind;
  const ChunkMemory<T, kDim> memory(parts + 2 * kTile * F::kStride, behind);
  const Planes<T> planes(a, part, queries.kv_head());
  const ChunkBlock<T, kDim> block(queries, memory, planes, chunk, parts, behind);
  if (a.is_paged != 0) fetch_into_cache(block.plane, block.size);
  wait_for_earlier();
  bool has_odd = false;
  if constexpr (F::kTakesTurns) {
    queries.load<kDim>(parts, behind, kTile);
    memory.load_keys(block.plane, block.stride, block.size, seen);
    __syncthreads();
    block.score();
    __syncthreads();
    has_odd = __syncthreads_or(memory.load_values(block.plane, block.stride, block.size, seen)) != 0;
  } else {
    const auto load_queries = [&] { queries.load<kDim>(parts, behind, kTile); };
    has_odd = __syncthreads_or(memory.load_both(block.plane, block.stride, block.size, seen, load_queries)) != 0;
    block.score();
    __syncthreads();
  }
  block.weigh();
  __syncthreads();
  block.add_values(has_odd);
}

}  // namespace

extern "C" {

// _WIDTH: heads of up to so many channels. Grid: tiles of rows, chunks (or 1), tiles of heads.
#define BALLAST_ATTENTION(type, T, width, tile_blocks, chunk_blocks)           \
  __global__ void __launch_bounds__(kMostThreads, tile_blocks)                 \
      attention_tiles_##type##_##width(const __grid_constant__ Attention a) {  \
    run_tiles<T, width>(a);                                                    \
  }                                                                            \
  __global__ void __launch_bounds__(kMostThreads, chunk_blocks)                \
      attention_chunks_##type##_##width(const __grid_constant__ Attention a) { \
    run_chunks<T, width>(a);                                                   \
  }
BALLAST_ATTENTION(f32, float, 64, 2, 4)
BALLAST_ATTENTION(f32, float, 128, 1, 2)
BALLAST_ATTENTION(f32, float, 256, 1, 1)
BALLAST_ATTENTION(f16, __half, 64, 2, 4)
BALLAST_ATTENTION(f16, __half, 128, 1, 2)
BALLAST_ATTENTION(f16, __half, 256, 1, 1)
#undef BALLAST_ATTENTION

// Behind attention_chunks_*: a block a row and head, a thread a channel. Each lane finds out what one chunk is
// multiplied by; they are then added up in order.
__global__ void attention_merge(const __grid_constant__ Attention a) {
  constexpr int kAtOnce = 16;
  let_later_start();
  const uint64_t row = blockIdx.x / static_cast<uint32_t>(a.q_heads);
  const AttentionPart& part = last_part(a, [&](const AttentionPart& each) { return each.row <= row; });
  const Seen seen(a, part, row - part.row);
  const int size = static_cast<int>(a.head_dim), stride = size + 2, place = static_cast<int>(threadIdx.x) % kAtOnce;
  const int first_of_part = Seen(a, part, 0).first_chunk(), channel = static_cast<int>(threadIdx.x);
  const int first = seen.first_chunk() - first_of_part, end = seen.last_chunk() + 1 - first_of_part;
  const float* const from =
      reinterpret_cast<const float*>(a.partial) + blockIdx.x * static_cast<uint64_t>(a.chunks) * stride;
  const auto chunk_at = [&](int i) { return from + static_cast<int64_t>(min(i, end - 1)) * stride; };
  const int at = 2 + min(channel, size - 1);
  float largest = -INFINITY, sum = 0, merged = 0;
  wait_for_earlier();
  for (int begin = first; begin < end; begin += kAtOnce) {
    float values[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) values[i] = load_now(chunk_at(begin + i) + at);
    const float* const mine = chunk_at(begin + place);
    const Weight weight = {load_now(mine), load_now(mine + 1)};
    float until = fmaxf(largest, weight.largest);
#pragma unroll
    for (int offset = 1; offset < kAtOnce; offset *= 2) {
      const float other = __shfl_up_sync(0xFFFFFFFFU, until, offset, kAtOnce);
      if (place >= offset) until = fmaxf(until, other);
    }
    const float until_before = __shfl_up_sync(0xFFFFFFFFU, until, 1, kAtOnce);
    const Meeting meeting(place == 0 ? largest : until_before, weight.largest);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float before = __shfl_sync(0xFFFFFFFFU, meeting.before, i);
      const float chunk = __shfl_sync(0xFFFFFFFFU, meeting.chunk, i);
      const float sum_of_chunk = __shfl_sync(0xFFFFFFFFU, weight.sum, i);
      const bool is_there = begin + i < end;
      sum = is_there ? merge(sum, before, sum_of_chunk, chunk) : sum;
      merged = is_there ? merge(merged, before, values[i], chunk) : merged;
    }
    largest = __shfl_sync(0xFFFFFFFFU, until, kAtOnce - 1);
  }
  if (channel < size)
    reinterpret_cast<float*>(a.out)[blockIdx.x * static_cast<uint64_t>(size) + channel] = merged / sum;
}

// Keys and values of all rows into their pages.
__global__ void store_past(const __grid_constant__ Attention a) {
  begin_kernel();
  const uint64_t kv_width = a.kv_heads * a.head_dim;
  for_each_index(a.rows * 2 * kv_width, [&](uint64_t i) {
    const uint64_t row = i / (2 * kv_width), column = i % (2 * kv_width), channel = column % kv_width;
    const AttentionPart& part = part_of_row(a, row);
    const uint64_t position = part.position + row - part.row;
    const float value = reinterpret_cast<const float*>(a.qkv)[row * a.width + a.q_heads * a.head_dim + column];
    const DeviceAddress plane = pages_of(a)[part.first_page + position / kChunkPositions] +
                                (column < kv_width ? a.keys_offset : a.values_offset);
    const uint64_t at =
        (channel / a.head_dim * kChunkPositions + position % kChunkPositions) * a.head_dim + channel % a.head_dim;
    if (a.is_half != 0) reinterpret_cast<__half*>(plane)[at] = __float2half_rn(value);
    else reinterpret_cast<float*>(plane)[at] = value;
  });
}

}  // extern "C"
