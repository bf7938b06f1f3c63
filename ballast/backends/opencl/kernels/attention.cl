// Attention of one query head of one row: a group. Positions are taken in chunks of 64, one for each work-item, from the
// oldest to the newest; what is seen so far is scaled down whenever a larger score appears. A chunk that a query sees
// nothing of changes nothing, so its bits depend on its own positions alone, not on the pass that they are computed in.

#define CHUNK 64
#define MOST_CHANNELS 4  // of a work-item: heads have up to 256

typedef struct {
  float largest, weight;
  float sums[MOST_CHANNELS];
} Seen;

static inline float stored_at(Bytes plane, ulong i, uint is_half) {
  return is_half != 0 ? half_at(plane + 2 * i) : ((__global const float*)plane)[i];
}

// Positions [from, until) of a chunk. Keys and values lie `stride` elements apart.
static inline void see_chunk(Seen* seen, __local const float* query, Bytes keys, ulong keys_begin, Bytes values,
                      ulong values_begin, ulong stride, uint head_dim, uint is_half, int from, int until, float scale,
                      float soft_cap, __local float* weights, __local float* shared) {
  const int lane = (int)get_local_id(0);
  const bool is_seen = lane >= from && lane < until;
  float score = -INFINITY;
  if (is_seen) {
    float sum = 0;
    const ulong at = keys_begin + lane * stride;
    for (uint c = 0; c < head_dim; ++c) sum = MULTIPLY_ADD(query[c], stored_at(keys, at + c, is_half), sum);
    score = sum * scale;
    if (soft_cap != 0) score = soft_cap * tanh(score / soft_cap);
  }
  const float largest = largest_of(seen->largest, largest_of_group(score, shared));
  const float weight = is_seen ? exp(score - largest) : 0;
  const float kept = seen->largest == -INFINITY ? 0 : exp(seen->largest - largest);
  weights[lane] = weight;  // read behind the barriers of the sum
  seen->weight = seen->weight * kept + sum_of_group(weight, shared);
  seen->largest = largest;
  for (int i = 0; i < MOST_CHANNELS; ++i) {
    const uint channel = lane + i * GROUP;
    if (channel >= head_dim) break;
    float sum = seen->sums[i] * kept;
    for (int p = from; p < until; ++p) {
      sum = MULTIPLY_ADD(weights[p], stored_at(values, values_begin + p * stride + channel, is_half), sum);
    }
    seen->sums[i] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the weights are used
}

static inline void see_nothing(Seen* seen) {
  seen->largest = -INFINITY;
  seen->weight = 0;
  for (int i = 0; i < MOST_CHANNELS; ++i) seen->sums[i] = 0;
}

static inline void take_query(__global const float* from, uint head_dim, __local float* query) {
  for (uint c = (uint)get_local_id(0); c < head_dim; c += GROUP) query[c] = from[c];
  barrier(CLK_LOCAL_MEM_FENCE);
}

static inline void write_output(const Seen* seen, uint head_dim, __global float* out) {
  for (int i = 0; i < MOST_CHANNELS; ++i) {
    const uint channel = (uint)get_local_id(0) + i * GROUP;
    if (channel < head_dim) out[channel] = seen->sums[i] / seen->weight;
  }
}

// The oldest position that a query sees.
static inline ulong oldest_of(ulong window, ulong position) {
  return window == 0 || position < window ? 0 : position + 1 - window;
}
static inline int within_chunk(ulong position, ulong chunk) {
  const ulong begin = chunk * CHUNK;
  return position <= begin ? 0 : position - begin >= CHUNK ? CHUNK : (int)(position - begin);
}

// Without a past: sequences of `length` rows [q | k | v]. Groups [rows, q_heads].
KERNEL attend_rows(__global const float* qkv, __global float* out, ulong length, uint q_heads, uint kv_heads,
                   uint head_dim, ulong window, uint is_causal, float scale, float soft_cap) {
  __local float query[MOST_CHANNELS * GROUP], weights[GROUP], shared[GROUP];
  const ulong row = get_group_id(0), position = row % length, width = (ulong)(q_heads + 2 * kv_heads) * head_dim;
  const uint head = (uint)get_group_id(1), kv_head = head / (q_heads / kv_heads);
  const ulong oldest = oldest_of(window, position), end = is_causal != 0 ? position + 1 : length;
  take_query(qkv + row * width + head * head_dim, head_dim, query);
  Seen seen;
  see_nothing(&seen);
  for (ulong chunk = oldest / CHUNK; chunk * CHUNK < end; ++chunk) {
    const ulong keys = (row - position + chunk * CHUNK) * width + (ulong)(q_heads + kv_head) * head_dim;
    see_chunk(&seen, query, (Bytes)qkv, keys, (Bytes)qkv, keys + (ulong)kv_heads * head_dim, width, head_dim, 0,
              within_chunk(oldest, chunk), within_chunk(end, chunk), scale, soft_cap, weights, shared);
  }
  write_output(&seen, head_dim, out + (row * q_heads + head) * head_dim);
}

// A launch has eight pages, because a buffer is an argument of its own.
#define PAGES(qualifier)                                                                                       \
  __global qualifier uchar *page0, __global qualifier uchar *page1, __global qualifier uchar *page2,            \
      __global qualifier uchar *page3, __global qualifier uchar *page4, __global qualifier uchar *page5,        \
      __global qualifier uchar *page6, __global qualifier uchar *page7
#define CHOOSE_PAGE(i)                                                                                       \
  ((i) == 0   ? page0                                                                                        \
   : (i) == 1 ? page1                                                                                        \
   : (i) == 2 ? page2                                                                                        \
   : (i) == 3 ? page3                                                                                        \
   : (i) == 4 ? page4                                                                                        \
   : (i) == 5 ? page5                                                                                        \
   : (i) == 6 ? page6                                                                                        \
              : page7)

// The rows [first_row, first_row + rows) of one text, whose first is at `position`, and its pages from first_page on.
// What is seen of earlier pages comes from `state`, and goes there where more follow. Groups [rows, q_heads].
KERNEL attend_pages(__global const float* qkv, __global float* out, __global float* state, PAGES(const),
                    ulong first_page, uint pages, uint is_first, uint is_last, ulong keys_offset, ulong values_offset,
                    ulong first_row, ulong position, uint q_heads, uint kv_heads, uint head_dim, ulong window,
                    float scale, float soft_cap, uint is_half) {
  __local float query[MOST_CHANNELS * GROUP], weights[GROUP], shared[GROUP];
  const uint lane = (uint)get_local_id(0);
  const ulong row = first_row + get_group_id(0), width = (ulong)(q_heads + 2 * kv_heads) * head_dim;
  const uint head = (uint)get_group_id(1), kv_head = head / (q_heads / kv_heads);
  const ulong own = position + get_group_id(0), oldest = oldest_of(window, own);
  take_query(qkv + row * width + head * head_dim, head_dim, query);
  __global float* kept = state + (get_group_id(0) * q_heads + head) * (head_dim + 2);
  Seen seen;
  see_nothing(&seen);
  if (is_first == 0) {
    seen.largest = kept[0];
    seen.weight = kept[1];
    for (int i = 0; i < MOST_CHANNELS; ++i) {
      if (lane + i * GROUP < head_dim) seen.sums[i] = kept[2 + lane + i * GROUP];
    }
    barrier(CLK_GLOBAL_MEM_FENCE);  // all have read before one writes
  }
  for (uint i = 0; i < pages; ++i) {
    const ulong chunk = first_page + i;
    const int from = within_chunk(oldest, chunk), until = within_chunk(own + 1, chunk);
    if (from >= until) continue;
    Bytes page = CHOOSE_PAGE(i);
    const ulong begin = (ulong)kv_head * CHUNK * head_dim;
    see_chunk(&seen, query, page + keys_offset, begin, page + values_offset, begin, head_dim, head_dim, is_half, from,
              until, scale, soft_cap, weights, shared);
  }
  if (is_last != 0) {
    write_output(&seen, head_dim, out + (row * q_heads + head) * head_dim);
    return;
  }
  if (lane == 0) {
    kept[0] = seen.largest;
    kept[1] = seen.weight;
  }
  for (int i = 0; i < MOST_CHANNELS; ++i) {
    if (lane + i * GROUP < head_dim) kept[2 + lane + i * GROUP] = seen.sums[i];
  }
}

// Keys and values of the rows whose positions lie in these pages.
KERNEL store_rows(__global const float* qkv, PAGES(), ulong first_page, ulong keys_offset, ulong values_offset,
                  ulong first_row, ulong position, uint q_heads, uint kv_heads, uint head_dim, uint is_half,
                  ulong count) {
  const ulong i = get_global_id(0), kv_width = (ulong)kv_heads * head_dim;
  if (i >= count) return;
  const ulong row = i / (2 * kv_width), column = i % (2 * kv_width), channel = column % kv_width;
  const ulong at = position + row, page_index = at / CHUNK - first_page;
  const float value = qkv[(first_row + row) * ((ulong)q_heads * head_dim + 2 * kv_width) + (ulong)q_heads * head_dim +
                          column];
  __global uchar* plane = CHOOSE_PAGE(page_index) + (column < kv_width ? keys_offset : values_offset);
  const ulong place = (channel / head_dim * CHUNK + at % CHUNK) * head_dim + channel % head_dim;
  if (is_half != 0) vstore_half_rte(value, place, (__global half*)plane);
  else ((__global float*)plane)[place] = value;
}
