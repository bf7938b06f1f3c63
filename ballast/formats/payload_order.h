// Byte order and axis order of payloads: what turns a stored payload canonical, and back.
#pragma once

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

}  // namespace ballast
