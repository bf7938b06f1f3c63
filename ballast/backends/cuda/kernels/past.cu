// Keys and values of new rows into the pages of their sequences, turned by rotary embeddings where they are to be.
#include "common.cuh"

using namespace ballast::cuda;

namespace {

__device__ __forceinline__ const AttentionPart& part_with_row(const Attention& a, uint64_t row) {
  const AttentionPart* parts = a.parts != 0 ? reinterpret_cast<const AttentionPart*>(a.parts) : a.few_parts;
  uint32_t i = 0;
  while (i + 1 < a.part_count && parts[i + 1].row <= row) ++i;
  return parts[i];
}

// A channel of a key or a value of that row.
__device__ __forceinline__ void store_channel(const Attention& a, uint64_t row, bool is_key, uint32_t channel,
                                              float value) {
  const AttentionPart& part = part_with_row(a, row);
  const DeviceAddress* pages = a.pages != 0 ? reinterpret_cast<const DeviceAddress*>(a.pages) : a.few_pages;
  const uint64_t position = part.position + row - part.row;
  const DeviceAddress plane =
      pages[part.first_page + position / kChunkPositions] + (is_key ? a.keys_offset : a.values_offset);
  const auto size = static_cast<uint32_t>(a.head_dim);
  const uint64_t at = (channel / size * kChunkPositions + position % kChunkPositions) * size + channel % size;
  if (a.is_half != 0) reinterpret_cast<__half*>(plane)[at] = __float2half_rn(value);
  else reinterpret_cast<float*>(plane)[at] = value;
}

// A row of qkv, as pairs_to_halves_f32 and rope_f32 would leave it (rows.cu).
struct Turner {
  const Turning& t;
  const float* row;  // q | k | v
  uint64_t index;
  uint32_t head_dim;

  __device__ __forceinline__ float at(uint32_t head_begin, uint32_t channel) const {
    if (t.from_pairs == 0) return row[head_begin + channel];
    const uint32_t half = head_dim / 2;
    return row[head_begin + (channel < half ? 2 * channel : 2 * (channel - half) + 1)];
  }
  __device__ __forceinline__ float turned(uint32_t column) const {
    const uint32_t channel = column % head_dim, head = column - channel;
    const auto half = static_cast<uint32_t>(t.half);
    if (channel >= 2 * half) return at(head, channel);
    const bool is_second = t.in_pairs != 0 ? channel % 2 != 0 : channel >= half;
    const uint32_t place = t.in_pairs != 0 ? channel / 2 : channel % half;
    const float a = at(head, t.in_pairs != 0 ? 2 * place : place);
    const float b = at(head, t.in_pairs != 0 ? 2 * place + 1 : place + half);
    const float cosine = reinterpret_cast<const float*>(t.cosines)[index * half + place];
    const float sine = reinterpret_cast<const float*>(t.sines)[index * half + place];
    return is_second ? b * cosine + a * sine : a * cosine - b * sine;
  }
};

}  // namespace

extern "C" {

// A thread a channel, blocks [rows, columns]. Queries go to t.queries, [rows, q_heads * head_dim].
__global__ void turn_and_store(const __grid_constant__ Attention a, const __grid_constant__ Turning t) {
  begin_kernel();
  const uint32_t column = blockIdx.y * blockDim.x + threadIdx.x;
  if (column >= a.width) return;
  const uint64_t row = blockIdx.x;
  const auto size = static_cast<uint32_t>(a.head_dim);
  const auto q_width = static_cast<uint32_t>(a.q_heads) * size, kv_width = static_cast<uint32_t>(a.kv_heads) * size;
  const Turner turner{t, reinterpret_cast<const float*>(a.qkv) + row * a.width, row, size};
  const float value = column < q_width + kv_width ? turner.turned(column) : turner.row[column];
  if (column < q_width) {
    reinterpret_cast<float*>(t.queries)[row * q_width + column] = value;
  } else {
    const bool is_key = column < q_width + kv_width;
    store_channel(a, row, is_key, column - q_width - (is_key ? 0 : kv_width), value);
  }
}

}  // extern "C"
