#include "ballast/ops/kv_cache.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <new>

#include "ballast/base/checked.h"
#include "ballast/tensor/element.h"

namespace ballast {

namespace {

constexpr uint64_t kFirstCapacity = 64;

uint64_t bytes_of_element(DType dtype) { return dtype_info(dtype).bits / 8; }

std::optional<uint64_t> cache_bytes(const KvCacheShape& shape, uint64_t capacity) {
  uint64_t bytes = 2 * bytes_of_element(shape.dtype);
  for (const uint64_t factor : {shape.layers, shape.kv_heads, shape.head_dim, capacity}) {
    const auto product = checked_mul(bytes, factor);
    if (!product) return std::nullopt;
    bytes = *product;
  }
  return bytes;
}

template <typename T>
void store_row(DType dtype, const T* from, std::byte* to, uint64_t count) {
  if (dtype == DType::kF16) {
    for (uint64_t i = 0; i < count; ++i) store_le<uint16_t>(to + 2 * i, F16::encode(from[i]));
  } else if (bytes_of_element(dtype) == sizeof(T)) {
    std::memcpy(to, from, count * sizeof(T));
  } else if (dtype == DType::kF32) {
    for (uint64_t i = 0; i < count; ++i) reinterpret_cast<float*>(to)[i] = static_cast<float>(from[i]);
  } else {
    for (uint64_t i = 0; i < count; ++i) reinterpret_cast<double*>(to)[i] = static_cast<double>(from[i]);
  }
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
  KvCache cache;
  cache.shape_ = shape;
  BALLAST_CHECK(cache.set_capacity(0));
  if (capacity != 0) {
    BALLAST_CHECK(cache.check_positions(capacity));
    BALLAST_CHECK(cache.set_capacity(capacity));
  }
  return cache;
}

uint64_t KvCache::bytes() const { return data_.size(); }

uint64_t KvCache::layer_bytes() const {
  return shape_.kv_heads * capacity_ * shape_.head_dim * bytes_of_element(shape_.dtype);
}

Status KvCache::check_positions(uint64_t positions) const {
  if (positions <= shape_.most_positions) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} positions do not fit the model's context of {}", positions, shape_.most_positions));
}

Status KvCache::reserve(uint64_t positions) {
  if (positions <= capacity_) return {};
  BALLAST_CHECK(check_positions(positions));
  return set_capacity(std::min(std::bit_ceil(std::max(positions, kFirstCapacity)), shape_.most_positions));
}

// Copies all positions that there was room for, not just length(): a pass that is under way has written beyond it.
Status KvCache::set_capacity(uint64_t capacity) {
  const auto bytes = cache_bytes(shape_, capacity);
  std::vector<std::byte> grown;
  if (!bytes || *bytes > grown.max_size()) return out_of_memory(capacity);
  try {
    grown.resize(*bytes);
  } catch (const std::bad_alloc&) {
    return out_of_memory(capacity);
  }
  const uint64_t row_bytes = shape_.head_dim * bytes_of_element(shape_.dtype);
  const uint64_t planes = shape_.layers * 2 * shape_.kv_heads;  // of [capacity, head_dim] each
  for (uint64_t plane = 0; capacity_ != 0 && plane < planes; ++plane) {
    std::memcpy(grown.data() + plane * capacity * row_bytes, data_.data() + plane * capacity_ * row_bytes,
                capacity_ * row_bytes);
  }
  data_ = std::move(grown);
  capacity_ = capacity;
  return {};
}

Error KvCache::out_of_memory(uint64_t capacity) const {
  return make_error(ErrorCode::kOutOfMemory,
                    fmt::format("no memory for a KV cache of {} positions: {} layers, {} heads of {} {}", capacity,
                                shape_.layers, shape_.kv_heads, shape_.head_dim, dtype_name(shape_.dtype)));
}

template <typename T>
void KvCache::write_rows(uint64_t layer, uint64_t at, uint64_t count, const T* k, const T* v, uint64_t stride) {
  const uint64_t row_bytes = shape_.head_dim * bytes_of_element(shape_.dtype);
  for (uint64_t head = 0; head < shape_.kv_heads; ++head) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t from = i * stride + head * shape_.head_dim;
      const uint64_t to = (head * capacity_ + at + i) * row_bytes;
      store_row(shape_.dtype, k + from, keys(layer) + to, shape_.head_dim);
      store_row(shape_.dtype, v + from, values(layer) + to, shape_.head_dim);
    }
  }
}

void KvCache::write(uint64_t layer, uint64_t at, uint64_t count, const float* k, const float* v, uint64_t stride) {
  write_rows(layer, at, count, k, v, stride);
}

void KvCache::write(uint64_t layer, uint64_t at, uint64_t count, const double* k, const double* v, uint64_t stride) {
  write_rows(layer, at, count, k, v, stride);
}

}  // namespace ballast
