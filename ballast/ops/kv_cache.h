// Keys and values of past positions, so that each token is computed once.
#pragma once

#include <algorithm>
#include <vector>

#include "ballast/ops/tensor.h"

namespace ballast {

struct KvCacheShape {
  uint64_t layers = 0;
  uint64_t kv_heads = 0;
  uint64_t head_dim = 0;
  uint64_t most_positions = 0;  // the model's context
  DType dtype = DType::kF32;    // or kF16; kF64 for activations of that type
};

// Grows in powers of two up to the context, all layers at once, so that a token never moves what is cached.
class KvCache {
 public:
  // `capacity` 0: begin small and grow.
  static Result<KvCache> make(const KvCacheShape& shape, uint64_t capacity = 0);

  const KvCacheShape& shape() const { return shape_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t length() const { return length_; }  // positions that every layer holds
  uint64_t bytes() const;

  // Room for `positions`; kInvalidArgument beyond the context, with both numbers.
  Status reserve(uint64_t positions);
  // [kv_heads, capacity, head_dim] of a layer.
  std::byte* keys(uint64_t layer) { return data_.data() + layer * layer_bytes() * 2; }
  std::byte* values(uint64_t layer) { return keys(layer) + layer_bytes(); }
  // Writes positions [at, at + count) of one layer, for which there must be room, from rows of packed k and v, `stride`
  // elements apart.
  void write(uint64_t layer, uint64_t at, uint64_t count, const float* k, const float* v, uint64_t stride);
  void write(uint64_t layer, uint64_t at, uint64_t count, const double* k, const double* v, uint64_t stride);
  // All layers have `length` positions now.
  void set_length(uint64_t length) { length_ = length; }
  // A text is taken up in pieces: the one that is under way will have `length` positions. Models whose positions depend
  // on the length of the text count with it, so that pieces do not change what they compute.
  void expect(uint64_t length) { expected_ = length; }
  uint64_t expected() const { return std::max(expected_, length_); }
  // Forgets everything from position `length` on.
  void truncate(uint64_t length) { expected_ = length_ = std::min(length_, length); }

 private:
  uint64_t layer_bytes() const;
  Status check_positions(uint64_t positions) const;
  Status set_capacity(uint64_t capacity);
  Error out_of_memory(uint64_t capacity) const;
  template <typename T>
  void write_rows(uint64_t layer, uint64_t at, uint64_t count, const T* k, const T* v, uint64_t stride);

  KvCacheShape shape_;
  uint64_t capacity_ = 0;
  uint64_t length_ = 0;
  uint64_t expected_ = 0;
  std::vector<std::byte> data_;
};

}  // namespace ballast
