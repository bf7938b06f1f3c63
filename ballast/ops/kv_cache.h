// Keys and values of past positions, so that each token is computed once.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "ballast/device/tensor.h"

namespace ballast {

struct KvCacheShape {
  uint64_t layers = 0;
  uint64_t kv_heads = 0;
  uint64_t head_dim = 0;
  uint64_t most_positions = 0;  // the model's context
  DType dtype = DType::kF32;    // or kF16; kF64 for activations of that type
  // How many positions a query of each layer sees, its own included; 0: all of them. Empty: all, in every layer.
  std::vector<uint64_t> windows = {};
};

// Grows in powers of two up to the context, all layers at once, so that a token never moves what is cached. A layer
// with a window keeps that and some positions before it, however long the text.
class KvCache {
 public:
  // A layer's first position is a multiple of this, so that kernels that take keys in blocks of as many, or of a
  // divisor, meet the same blocks whatever was dropped.
  static constexpr uint64_t kFirstMultiple = 64;

  // `capacity` 0: begin small and grow.
  static Result<KvCache> make(const KvCacheShape& shape, uint64_t capacity = 0);
  // What a cache of that capacity takes; nullopt where that is no number of bytes.
  static std::optional<uint64_t> bytes_for(const KvCacheShape& shape, uint64_t capacity);

  const KvCacheShape& shape() const { return shape_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t length() const { return length_; }  // positions that every layer has seen
  uint64_t bytes() const { return data_.size(); }

  // Room for `positions`; kInvalidArgument beyond the context, with both numbers. Layers with a window may drop
  // positions that nobody behind length() sees.
  Status reserve(uint64_t positions);
  // [kv_heads, rows, head_dim] of a layer, in the host's memory: for backends, which write and read them. The first row
  // is position first(layer).
  std::byte* keys(uint64_t layer) { return data_.data() + layers_[layer].offset; }
  std::byte* values(uint64_t layer) { return keys(layer) + plane_bytes(layers_[layer].rows) * shape_.kv_heads; }
  uint64_t rows(uint64_t layer) const { return layers_[layer].rows; }
  uint64_t first(uint64_t layer) const { return layers_[layer].first; }
  uint64_t window(uint64_t layer) const { return shape_.windows.empty() ? 0 : shape_.windows[layer]; }
  // Whether the layer holds all that a query at `position` sees before it.
  bool holds_past(uint64_t layer, uint64_t position) const;
  // All layers have `length` positions now.
  void set_length(uint64_t length) { length_ = length; }
  // A text is taken up in pieces: the one that is under way will have `length` positions. Models whose positions depend
  // on the length of the text count with it, so that pieces do not change what they compute.
  void expect(uint64_t length) { expected_ = length; }
  uint64_t expected() const { return std::max(expected_, length_); }
  // Forgets everything from position `length` on; everything at all where a window has passed on that far that what is
  // left of it does not do. length() tells.
  void truncate(uint64_t length);

 private:
  struct Layer {
    uint64_t offset = 0;  // of its keys, in bytes
    uint64_t rows = 0;
    uint64_t first = 0;
  };

  uint64_t plane_bytes(uint64_t rows) const;  // of one head
  Status check_positions(uint64_t positions) const;
  uint64_t rows_for(uint64_t layer, uint64_t capacity, uint64_t positions) const;
  uint64_t first_needed(uint64_t layer) const;
  Status set_capacity(uint64_t capacity, uint64_t positions);
  void drop_old(uint64_t layer);
  void count_room();
  Error out_of_memory(uint64_t capacity) const;

  KvCacheShape shape_;
  uint64_t capacity_ = 0;
  uint64_t room_ = 0;  // positions for which there is room as the layers lie
  uint64_t length_ = 0;
  uint64_t expected_ = 0;
  std::vector<Layer> layers_;
  std::vector<std::byte> data_;
};

}  // namespace ballast
