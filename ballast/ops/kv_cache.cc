#include "ballast/ops/kv_cache.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <new>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

constexpr uint64_t kFirstCapacity = 64;
// What a layer keeps beside its window: of the positions before it, for texts that are taken back a little, and room
// for those that follow, so that rows move seldom and a piece of a prompt fits.
constexpr uint64_t kKeptBefore = 448;
constexpr uint64_t kSpare = 1024;

uint64_t bytes_of_element(DType dtype) { return dtype_info(dtype).bits / 8; }

// Rows of a layer in a cache of so many positions.
uint64_t rows_of_window(uint64_t window, uint64_t capacity) {
  if (window == 0 || window >= capacity) return capacity;
  return window + std::min(capacity - window, kSpare);
}

std::optional<uint64_t> bytes_of_rows(const KvCacheShape& shape, uint64_t rows) {
  uint64_t bytes = 2 * bytes_of_element(shape.dtype);
  for (const uint64_t factor : {shape.kv_heads, shape.head_dim, rows}) {
    const auto product = checked_mul(bytes, factor);
    if (!product) return std::nullopt;
    bytes = *product;
  }
  return bytes;
}

}  // namespace

Result<KvCache> KvCache::make(const KvCacheShape& shape, uint64_t capacity) {
  if (shape.dtype != DType::kF32 && shape.dtype != DType::kF16 && shape.dtype != DType::kF64) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a KV cache holds f32 or f16, not {}", dtype_name(shape.dtype)));
  }
  if (shape.layers == 0 || shape.kv_heads == 0 || shape.head_dim == 0 || shape.most_positions == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a KV cache of {} layers, {} heads of {} and {} positions holds nothing",
                                  shape.layers, shape.kv_heads, shape.head_dim, shape.most_positions));
  }
  if (!shape.windows.empty() && shape.windows.size() != shape.layers) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} windows for a KV cache of {} layers", shape.windows.size(), shape.layers));
  }
  KvCache cache;
  cache.shape_ = shape;
  cache.layers_.resize(shape.layers);
  for (uint64_t& window : cache.shape_.windows) {
    if (window >= shape.most_positions) window = 0;
  }
  BALLAST_CHECK(cache.check_positions(capacity));
  BALLAST_CHECK(cache.set_capacity(capacity, 0));
  return cache;
}

std::optional<uint64_t> KvCache::bytes_for(const KvCacheShape& shape, uint64_t capacity) {
  if (shape.windows.empty()) {
    const auto bytes = bytes_of_rows(shape, capacity);
    return bytes ? checked_mul(*bytes, shape.layers) : std::nullopt;
  }
  std::optional<uint64_t> sum = 0;
  for (size_t i = 0; sum && i < shape.windows.size(); ++i) {
    const auto bytes = bytes_of_rows(shape, rows_of_window(shape.windows[i], capacity));
    sum = bytes ? checked_add(*sum, *bytes) : std::nullopt;
  }
  return sum;
}

uint64_t KvCache::plane_bytes(uint64_t rows) const { return rows * shape_.head_dim * bytes_of_element(shape_.dtype); }

Status KvCache::check_positions(uint64_t positions) const {
  if (positions <= shape_.most_positions) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} positions do not fit the model's context of {}", positions, shape_.most_positions));
}

Status KvCache::reserve(uint64_t positions) {
  if (positions <= room_) return {};
  BALLAST_CHECK(check_positions(positions));
  const uint64_t grown = std::min(std::bit_ceil(std::max(positions, kFirstCapacity)), shape_.most_positions);
  const uint64_t capacity = positions <= capacity_ ? capacity_ : grown;
  bool fits = capacity == capacity_;
  for (uint64_t i = 0; fits && i < shape_.layers; ++i) fits = rows_for(i, capacity, positions) <= layers_[i].rows;
  if (!fits) BALLAST_CHECK(set_capacity(capacity, positions));
  for (uint64_t i = 0; i < shape_.layers; ++i) {
    if (positions > layers_[i].first + layers_[i].rows) drop_old(i);
  }
  count_room();
  return {};
}

// A pass over more positions than there is spare room for gets what it needs.
uint64_t KvCache::rows_for(uint64_t layer, uint64_t capacity, uint64_t positions) const {
  const uint64_t rows = std::max(rows_of_window(window(layer), capacity), layers_[layer].rows);
  const uint64_t first = first_needed(layer);
  return positions > first ? std::max(rows, std::min(capacity, positions - first)) : rows;
}

uint64_t KvCache::first_needed(uint64_t layer) const {
  const uint64_t kept = window(layer) == 0 ? length_ : std::min(length_, window(layer) - 1 + kKeptBefore);
  return std::max(layers_[layer].first, (length_ - kept) / kFirstMultiple * kFirstMultiple);
}

void KvCache::drop_old(uint64_t layer) {
  Layer& rows = layers_[layer];
  const uint64_t dropped = first_needed(layer) - rows.first;
  for (uint64_t plane = 0; plane < 2 * shape_.kv_heads; ++plane) {
    std::byte* const begin = keys(layer) + plane * plane_bytes(rows.rows);
    std::memmove(begin, begin + plane_bytes(dropped), plane_bytes(rows.rows - dropped));
  }
  rows.first += dropped;
}

void KvCache::count_room() {
  room_ = capacity_;
  for (const Layer& layer : layers_) room_ = std::min(room_, layer.first + layer.rows);
}

// Copies all rows that there were, not just up to length(): a pass that is under way has written beyond it.
Status KvCache::set_capacity(uint64_t capacity, uint64_t positions) {
  std::vector<Layer> layers = layers_;
  std::vector<std::byte> grown;
  std::optional<uint64_t> end = 0;
  for (uint64_t i = 0; i < shape_.layers; ++i) {
    layers[i].offset = *end;
    layers[i].rows = rows_for(i, capacity, positions);
    const auto bytes = bytes_of_rows(shape_, layers[i].rows);
    end = bytes ? checked_add(*end, *bytes) : std::nullopt;
    if (!end || *end > grown.max_size()) return out_of_memory(capacity);
  }
  try {
    grown.resize(*end);
  } catch (const std::bad_alloc&) {
    return out_of_memory(capacity);
  }
  for (uint64_t i = 0; i < shape_.layers; ++i) {
    for (uint64_t plane = 0; layers_[i].rows != 0 && plane < 2 * shape_.kv_heads; ++plane) {
      std::memcpy(grown.data() + layers[i].offset + plane * plane_bytes(layers[i].rows),
                  data_.data() + layers_[i].offset + plane * plane_bytes(layers_[i].rows),
                  plane_bytes(layers_[i].rows));
    }
  }
  data_ = std::move(grown);
  layers_ = std::move(layers);
  capacity_ = capacity;
  count_room();
  return {};
}

bool KvCache::holds_past(uint64_t layer, uint64_t position) const {
  const uint64_t first = layers_[layer].first;
  return first == 0 || position + 1 >= first + window(layer);
}

void KvCache::truncate(uint64_t length) {
  length = std::min(length_, length);
  for (uint64_t i = 0; i < shape_.layers; ++i) {
    if (!holds_past(i, length)) length = 0;
  }
  expected_ = length_ = length;
  if (length != 0) return;
  for (Layer& layer : layers_) layer.first = 0;
  count_room();
}

Error KvCache::out_of_memory(uint64_t capacity) const {
  return make_error(ErrorCode::kOutOfMemory,
                    fmt::format("no memory for a KV cache of {} positions: {} layers, {} heads of {} {}", capacity,
                                shape_.layers, shape_.kv_heads, shape_.head_dim, dtype_name(shape_.dtype)));
}

}  // namespace ballast
