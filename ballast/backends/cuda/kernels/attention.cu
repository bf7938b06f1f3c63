// Attention over keys and values in pages, or packed beside the queries.
//
// Positions are divided into chunks of 64 that begin at multiples of 64. Of each chunk a query gets the largest score,
// the sum of exp(score - largest) and the sum of values times that; the chunks are then merged in ascending order. That
// is one chain of operations for each query, whoever computes it: a block that goes from chunk to chunk, where there
// are many queries, or a block for each chunk and a merge behind them, where there are few. What a query does not see
// is left out, so positions behind it, other rows and other sequences change nothing.
#include "common.cuh"

using namespace ballast::cuda;

namespace {

constexpr int kThreads = 256, kQuarters = 4, kChunk = static_cast<int>(kChunkPositions);

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

__device__ const AttentionPart* parts_of(const Attention& a) {
  return a.parts != 0 ? reinterpret_cast<const AttentionPart*>(a.parts) : a.few_parts;
}
__device__ DeviceAddress page_of(const Attention& a, const AttentionPart& part, uint64_t chunk) {
  const DeviceAddress* pages = a.pages != 0 ? reinterpret_cast<const DeviceAddress*>(a.pages) : a.few_pages;
  return pages[part.first_page + chunk];
}
// Parts are in the order of their rows and tiles.
__device__ const AttentionPart& part_of_row(const Attention& a, uint64_t row) {
  const AttentionPart* parts = parts_of(a);
  uint32_t i = 0;
  while (i + 1 < a.part_count && parts[i + 1].row <= row) ++i;
  return parts[i];
}
__device__ const AttentionPart& part_of_tile(const Attention& a, uint32_t tile) {
  const AttentionPart* parts = parts_of(a);
  uint32_t i = 0;
  while (i + 1 < a.part_count && parts[i + 1].first_tile <= tile) ++i;
  return parts[i];
}

// ---------------------------------------------------------------- keys and values
// Four elements of a key or a value at once, or one where heads are no multiple of four.
template <int kWidth>
struct Elements {
  float v[kWidth];
};
template <int kWidth>
__device__ __forceinline__ Elements<kWidth> load_elements(const float* from) {
  if constexpr (kWidth == 4) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    return {{v.x, v.y, v.z, v.w}};
  } else {
    return {{*from}};
  }
}
template <int kWidth>
__device__ __forceinline__ Elements<kWidth> load_elements(const __half* from) {
  if constexpr (kWidth == 4) {
    const uint2 v = *reinterpret_cast<const uint2*>(from);
    const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&v.x));
    const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&v.y));
    return {{a.x, a.y, b.x, b.y}};
  } else {
    return {{__half2float(*from)}};
  }
}

// The keys or values of one chunk, for one head.
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

// ---------------------------------------------------------------- merging
// What a query has of some chunks: the largest score, and the sum of exp(score - largest).
struct Weight {
  float largest, sum;
};
// What the sums before and those of a chunk are multiplied by when they meet.
struct Meeting {
  float largest, before, chunk;
  __device__ __forceinline__ Meeting(float largest_before, float largest_of_chunk)
      : largest(Largest()(largest_before, largest_of_chunk)),
        before(expf(largest_before - largest)),
        chunk(expf(largest_of_chunk - largest)) {}
  __device__ __forceinline__ float merge(float sum_before, float sum_of_chunk) const {
    return __fmaf_rn(sum_before, before, __fmul_rn(sum_of_chunk, chunk));
  }
};

// ---------------------------------------------------------------- a block
struct SharedArrays {
  float* q;         // [queries, head_dim]
  float* weights;   // [queries, 64]: scores, then exp(score - largest)
  float* quarters;  // [queries, 4, head_dim]: sums over a quarter of the chunk
  float* merged;    // [queries, head_dim]
  Weight* total;    // [queries]
  Weight* chunk;    // [queries]
  float* before;    // [queries]: a Meeting's
  float* share;

  __device__ SharedArrays(float* memory, uint64_t queries, uint64_t head_dim)
      : q(memory),
        weights(q + queries * head_dim),
        quarters(weights + queries * kChunk),
        merged(quarters + queries * kQuarters * head_dim),
        total(reinterpret_cast<Weight*>(merged + queries * head_dim)),
        chunk(total + queries),
        before(reinterpret_cast<float*>(chunk + queries)),
        share(before + queries) {}
};

// Queries of some rows and heads of one sequence that have the same keys. Query i is of row i / heads and head i %
// heads.
template <typename T, int kWidth>
struct Block {
  const Attention& a;
  const AttentionPart& part;
  const uint64_t first_row, first_head;  // the row counts from the part's first
  const int heads, rows, queries;
  const SharedArrays s;

  __device__ Block(const Attention& attention, float* memory)
      : a(attention),
        part(part_of_tile(attention, blockIdx.x)),
        first_row((blockIdx.x - part.first_tile) * static_cast<uint64_t>(attention.rows_of_tile)),
        first_head(blockIdx.z * static_cast<uint64_t>(attention.heads_of_tile)),
        heads(static_cast<int>(attention.heads_of_tile)),
        rows(static_cast<int>(part.rows - first_row < attention.rows_of_tile ? part.rows - first_row
                                                                             : attention.rows_of_tile)),
        queries(rows * heads),
        s(memory, attention.rows_of_tile * attention.heads_of_tile, attention.head_dim) {}

  __device__ uint64_t kv_head() const { return first_head / (a.q_heads / a.kv_heads); }
  __device__ Seen seen_by(int query) const { return Seen(a, part, first_row + query / heads); }
  __device__ uint64_t row_of(int query) const { return part.row + first_row + query / heads; }
  __device__ uint64_t head_of(int query) const { return first_head + query % heads; }

  // [begin, end) of the chunk's positions that the query sees, counted in the chunk.
  struct Range {
    int begin, end;
  };
  __device__ Range range_in(int query, uint64_t chunk) const {
    const Seen seen = seen_by(query);
    const uint64_t first = chunk * kChunkPositions, behind = first + kChunkPositions;
    if (seen.end <= first || seen.oldest >= behind) return {0, 0};
    return {static_cast<int>(seen.oldest > first ? seen.oldest - first : 0),
            static_cast<int>(seen.end < behind ? seen.end - first : kChunkPositions)};
  }

  __device__ void load_queries() const {
    const uint64_t size = a.head_dim;
    for (uint64_t i = threadIdx.x; i < queries * size; i += kThreads) {
      const int query = static_cast<int>(i / size);
      s.q[i] = reinterpret_cast<const float*>(a.qkv)[row_of(query) * a.width + head_of(query) * size + i % size];
      s.merged[i] = 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < queries; i += kThreads) s.total[i] = {-INFINITY, 0};
    __syncthreads();
  }

  // Four lanes a position: each has every fourth run of kWidth channels.
  __device__ void score_chunk(const Plane<T>& plane, uint64_t chunk) const {
    const int position = static_cast<int>(threadIdx.x) / 4, lane = static_cast<int>(threadIdx.x) % 4;
    // The first query sees the oldest of what all see, the last one the newest.
    const uint64_t at = chunk * kChunkPositions + position;
    const bool is_seen = at >= seen_by(0).oldest && at < seen_by(queries - 1).end;
    const T* key = plane.keys + position * plane.stride;
    const int size = static_cast<int>(a.head_dim);
    for (int query = 0; query < queries; ++query) {
      float sum = 0;
      const float* q = s.q + static_cast<uint64_t>(query) * size;
      if (is_seen) {
#pragma unroll 4
        for (int d = lane * kWidth; d < size; d += 4 * kWidth) {
          const Elements<kWidth> k = load_elements<kWidth>(key + d), x = load_elements<kWidth>(q + d);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) sum = __fmaf_rn(x.v[i], k.v[i], sum);
        }
      }
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 1));
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 2));
      float score = __fmul_rn(sum, a.scale);
      if (a.soft_cap != 0) score = a.soft_cap * tanhf(score / a.soft_cap);
      if (lane == 0) s.weights[query * kChunk + position] = score;
    }
    __syncthreads();
  }

  // A warp a query.
  __device__ void weigh_chunk(uint64_t chunk) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int query = static_cast<int>(threadIdx.x) / 32; query < queries; query += kThreads / 32) {
      const Range range = range_in(query, chunk);
      float* weights = s.weights + query * kChunk;
      float value[2], largest = -INFINITY;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int position = lane + 32 * i;
        value[i] = position >= range.begin && position < range.end ? weights[position] : -INFINITY;
        largest = Largest()(value[i], largest);
      }
      largest = reduce_warp(largest, Largest());
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int position = lane + 32 * i;
        const bool is_seen = position >= range.begin && position < range.end;
        const float weight = is_seen ? expf(value[i] - largest) : 0;
        weights[position] = weight;
        sum = __fadd_rn(sum, weight);
      }
      sum = reduce_warp(sum, Sum());
      if (lane != 0) continue;
      s.chunk[query] = {largest, sum};
      if (range.begin == range.end) {
        s.before[query] = 1;
        s.share[query] = 0;
        continue;
      }
      const Meeting meeting(s.total[query].largest, largest);
      s.before[query] = meeting.before;
      s.share[query] = meeting.chunk;
      s.total[query] = {meeting.largest, meeting.merge(s.total[query].sum, sum)};
    }
    __syncthreads();
  }

  // Sums over a quarter of the chunk, kWidth channels at a time.
  __device__ void sum_quarters(const Plane<T>& plane, uint64_t chunk) const {
    const int size = static_cast<int>(a.head_dim), runs = size / kWidth;
    constexpr int kQuarter = kChunk / kQuarters;
    for (int i = static_cast<int>(threadIdx.x); i < queries * kQuarters * runs; i += kThreads) {
      const int run = i % runs, quarter = i / runs % kQuarters, query = i / runs / kQuarters;
      const Range range = range_in(query, chunk);
      const int begin = range.begin > quarter * kQuarter ? range.begin : quarter * kQuarter;
      const int end = range.end < (quarter + 1) * kQuarter ? range.end : (quarter + 1) * kQuarter;
      Elements<kWidth> sum = {};
      const T* value = plane.values + run * kWidth;
      const float* weights = s.weights + query * kChunk;
#pragma unroll 8
      for (int position = begin; position < end; ++position) {
        const Elements<kWidth> v = load_elements<kWidth>(value + position * plane.stride);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sum.v[j] = __fmaf_rn(weights[position], v.v[j], sum.v[j]);
      }
      float* to = s.quarters + (query * kQuarters + quarter) * size + run * kWidth;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) to[j] = sum.v[j];
    }
    __syncthreads();
  }
  __device__ float chunk_sum(int query, int d) const {
    const int size = static_cast<int>(a.head_dim);
    const float* from = s.quarters + query * kQuarters * size + d;
    return __fadd_rn(__fadd_rn(from[0], from[size]), __fadd_rn(from[2 * size], from[3 * size]));
  }

  template <typename Body>
  __device__ void for_each_output(const Body& body) const {
    const int size = static_cast<int>(a.head_dim);
    for (int i = static_cast<int>(threadIdx.x); i < queries * size; i += kThreads) body(i / size, i % size);
  }

  __device__ void take_chunk(uint64_t chunk) const {
    const Plane<T> plane(a, part, kv_head(), chunk);
    score_chunk(plane, chunk);
    weigh_chunk(chunk);
    sum_quarters(plane, chunk);
  }

  __device__ void run_all() const {
    load_queries();
    const uint64_t last = seen_by(queries - 1).last_chunk();
    for (uint64_t chunk = seen_by(0).first_chunk(); chunk <= last; ++chunk) {
      take_chunk(chunk);
      for_each_output([&](int query, int d) {
        const Range range = range_in(query, chunk);
        if (range.begin == range.end) return;
        float& merged = s.merged[query * static_cast<int>(a.head_dim) + d];
        merged = __fmaf_rn(merged, s.before[query], __fmul_rn(chunk_sum(query, d), s.share[query]));
      });
      __syncthreads();
    }
    for_each_output([&](int query, int d) {
      reinterpret_cast<float*>(a.out)[(row_of(query) * a.q_heads + head_of(query)) * a.head_dim + d] =
          s.merged[query * static_cast<int>(a.head_dim) + d] / s.total[query].sum;
    });
  }

  // One chunk, for attention_merge.
  __device__ void run_one(uint64_t index) const {
    const uint64_t chunk = Seen(a, part, 0).first_chunk() + index;
    if (chunk < seen_by(0).first_chunk() || chunk > seen_by(queries - 1).last_chunk()) return;
    load_queries();
    take_chunk(chunk);
    for_each_output([&](int query, int d) {
      const uint64_t at = ((row_of(query) * a.q_heads + head_of(query)) * a.chunks + index) * (a.head_dim + 2);
      float* to = reinterpret_cast<float*>(a.partial) + at;
      to[2 + d] = chunk_sum(query, d);
      if (d > 0) return;
      to[0] = s.chunk[query].largest;
      to[1] = s.chunk[query].sum;
    });
  }
};

template <typename T, int kWidth>
__device__ void run_attention(const Attention& a) {
  extern __shared__ float4 memory[];
  begin_kernel();
  const Block<T, kWidth> block(a, reinterpret_cast<float*>(memory));
  if (a.chunks != 0) block.run_one(blockIdx.y);
  else block.run_all();
}

}  // namespace

extern "C" {

// Grid: chunks (or 1), tiles of rows, tiles of heads.
__global__ void __launch_bounds__(kThreads) attention_f32_4(const __grid_constant__ Attention a) {
  run_attention<float, 4>(a);
}
__global__ void __launch_bounds__(kThreads) attention_f32_1(const __grid_constant__ Attention a) {
  run_attention<float, 1>(a);
}
__global__ void __launch_bounds__(kThreads) attention_f16_4(const __grid_constant__ Attention a) {
  run_attention<__half, 4>(a);
}
__global__ void __launch_bounds__(kThreads) attention_f16_1(const __grid_constant__ Attention a) {
  run_attention<__half, 1>(a);
}

// A block a row and head.
__global__ void attention_merge(const __grid_constant__ Attention a) {
  begin_kernel();
  const uint64_t row = blockIdx.x / a.q_heads, head = blockIdx.x % a.q_heads;
  const AttentionPart& part = part_of_row(a, row);
  const Seen seen(a, part, row - part.row);
  const uint64_t part_chunk = Seen(a, part, 0).first_chunk();
  const float* partial = reinterpret_cast<const float*>(a.partial) + blockIdx.x * a.chunks * (a.head_dim + 2);
  for (uint64_t d = threadIdx.x; d < a.head_dim; d += blockDim.x) {
    Weight total = {-INFINITY, 0};
    float merged = 0;
#pragma unroll 4
    for (uint64_t chunk = seen.first_chunk(); chunk <= seen.last_chunk(); ++chunk) {
      const float* from = partial + (chunk - part_chunk) * (a.head_dim + 2);
      const Meeting meeting(total.largest, from[0]);
      total = {meeting.largest, meeting.merge(total.sum, from[1])};
      merged = meeting.merge(merged, from[2 + d]);
    }
    reinterpret_cast<float*>(a.out)[(row * a.q_heads + head) * a.head_dim + d] = merged / total.sum;
  }
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
    const DeviceAddress plane =
        page_of(a, part, position / kChunkPositions) + (column < kv_width ? a.keys_offset : a.values_offset);
    const uint64_t at =
        (channel / a.head_dim * kChunkPositions + position % kChunkPositions) * a.head_dim + channel % a.head_dim;
    if (a.is_half != 0) reinterpret_cast<__half*>(plane)[at] = __float2half_rn(value);
    else reinterpret_cast<float*>(plane)[at] = value;
  });
}

}  // extern "C"
