// Byte order, axis order and signs of payloads: what turns a stored payload canonical, and back.
#pragma once

#include <span>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"
#include "ballast/base/shape.h"

namespace ballast {

// Whether both byte orders store this type alike: bytes, and blocks of nothing else.
bool is_byte_order_free(DType dtype);
// False for block types of which it is not settled what a big-endian file swaps.
bool can_swap_byte_order(DType dtype);
// Reverses the bytes of every component (a complex number has two; of blocks, their scales) in place. Only types of
// fixed whole-byte size.
void swap_byte_order(DType dtype, MutableByteSpan payload);

// Column-major <-> row-major for a tensor of this shape; `in` and `out` have the same size, a whole number of bytes per
// element, and must not overlap. The two directions differ.
void fortran_to_row_major(const Shape& shape, ByteSpan in, MutableByteSpan out);
void row_major_to_fortran(const Shape& shape, ByteSpan in, MutableByteSpan out);

// `out` gets, row-major, the element at sum(index * stride) of `in` for each index below `dims`. Strides count elements
// of `element_size` bytes, and all that they reach must be inside `in`.
void gather_strided(std::span<const uint64_t> dims, std::span<const uint64_t> strides, size_t element_size, ByteSpan in,
                    MutableByteSpan out);

// Turns the sign of every component, or of the imaginary ones only, in a little-endian payload of a float or complex
// type whose highest bit is its sign.
enum class SignsOf : uint8_t { kAll, kImaginary };
void flip_signs(DType dtype, SignsOf which, MutableByteSpan payload);

}  // namespace ballast
