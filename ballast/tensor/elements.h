// Payload bytes as numbers, a chunk at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"

namespace ballast {

// True for types whose values can be computed with: everything but f128, c256, qfloat, opaque and the block types that
// are only carried (tensor/blocks.h). Values of blocks are f32.
bool is_arithmetic(DType dtype);

// As few elements as share no byte with others, whatever the type: eight, or one block. A byte where there are none.
struct ElementUnit {
  uint64_t elements;
  uint64_t bytes;
};
inline ElementUnit element_unit(DType dtype) {
  const DTypeInfo& type = dtype_info(dtype);
  if (is_block(dtype)) return {type.block_elements, type.block_bytes};
  return type.bits != 0 ? ElementUnit{8, type.bits} : ElementUnit{1, 1};
}

// How many whole elements so many bytes hold, and in which byte an element, or its block, begins.
inline uint64_t elements_in(DType dtype, uint64_t bytes) {
  if (has_elements(dtype)) return bytes * 8 / dtype_info(dtype).bits;
  const ElementUnit unit = element_unit(dtype);
  return bytes / unit.bytes * unit.elements;
}
inline uint64_t byte_of_element(DType dtype, uint64_t element) {
  if (has_elements(dtype)) return element * dtype_info(dtype).bits / 8;
  const ElementUnit unit = element_unit(dtype);
  return element / unit.elements * unit.bytes;
}

inline bool is_integer(DType dtype) {
  const DTypeKind kind = dtype_info(dtype).kind;
  return kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned || kind == DTypeKind::kBool;
}

// Numbers per element: 2 for complex types, 1 otherwise.
inline size_t component_count(DType dtype) { return dtype_info(dtype).kind == DTypeKind::kComplex ? 2 : 1; }

// The numbers in `in` from number `first` on, as many as `out` holds, which must be there. Complex numbers give their
// real and imaginary parts in turn. Exact but for integers beyond 2^53. Only arithmetic types; of blocks, `in` holds
// whole ones, and chunks that begin with a block cost the least.
void to_doubles(DType dtype, ByteSpan in, size_t first, std::span<double> out);
inline void to_doubles(DType dtype, ByteSpan in, std::span<double> out) { to_doubles(dtype, in, 0, out); }

// The same for integer types, exact wherever `out` has the signedness of the type.
void to_integers(DType dtype, ByteSpan in, size_t first, std::span<int64_t> out);
void to_integers(DType dtype, ByteSpan in, size_t first, std::span<uint64_t> out);

// |a - b|, where equal infinities, and NaN and NaN, are 0 apart, and NaN is infinitely far from everything else.
inline double distance_between(double a, double b) {
  const double difference = std::abs(a - b);
  if (!std::isnan(difference)) return difference;
  return a == b || (std::isnan(a) && std::isnan(b)) ? 0 : std::numeric_limits<double>::infinity();
}

// What is not a finite number in a payload of a floating, complex or block type; nothing for other types.
struct NonFinite {
  uint64_t nan = 0;
  uint64_t positive_infinity = 0;
  uint64_t negative_infinity = 0;
  uint64_t first = 0;  // element of the first of them

  bool any() const { return nan + positive_infinity + negative_infinity != 0; }
  // Adds what a later part of the payload, beginning at element `offset`, holds.
  void append(const NonFinite& part, uint64_t offset);
};
NonFinite find_non_finite(DType dtype, ByteSpan in);

}  // namespace ballast
