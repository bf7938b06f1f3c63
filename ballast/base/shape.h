// Tensor dimensions, outermost first. Up to four stand inside the object: an index of a million tensors stays small.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "ballast/base/dtype.h"
#include "ballast/base/result.h"

namespace ballast {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<uint64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const uint64_t> dims);
  Shape(const Shape& other) : Shape(other.dims()) {}
  Shape(Shape&& other) noexcept { swap(other); }
  ~Shape() {
    if (rank_ > kInline) delete[] storage_.heap;
  }
  Shape& operator=(Shape other) noexcept {
    swap(other);
    return *this;
  }

  size_t rank() const { return rank_; }
  std::span<const uint64_t> dims() const { return {rank_ <= kInline ? storage_.inside : storage_.heap, rank_}; }
  uint64_t operator[](size_t axis) const { return dims()[axis]; }

  // Product of the dimensions; nullopt when it does not fit 64 bits, even where a later dimension is 0.
  std::optional<uint64_t> element_count() const;

  // "[2, 3]"
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  void swap(Shape& other) noexcept;

  static constexpr size_t kInline = 4;
  union {
    uint64_t inside[kInline] = {};
    uint64_t* heap;
  } storage_;
  uint32_t rank_ = 0;
};

// Bytes of a packed tensor of this shape. nullopt on overflow, when the bits do not fill whole bytes,
// when the last dimension of a block type is no number of whole blocks, or when the type's length cannot be told from
// the shape.
std::optional<uint64_t> packed_size(const Shape& shape, DType dtype);
// kInvalidArgument, with the numbers, where a packed tensor of this type and shape has another size, or none.
Status check_packed_size(const Shape& shape, DType dtype, uint64_t size);

}  // namespace ballast
