// Byte order and axis order of payloads: what turns a stored payload canonical, and back.
#pragma once

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"
#include "ballast/base/shape.h"

namespace ballast {

// Reverses the bytes of every component (a complex number has two) in place. Only types of fixed whole-byte size.
void swap_byte_order(DType dtype, MutableByteSpan payload);

// Column-major <-> row-major for a tensor of this shape; `in` and `out` have the same size, a whole number of bytes per
// element, and must not overlap. The two directions differ.
void fortran_to_row_major(const Shape& shape, ByteSpan in, MutableByteSpan out);
void row_major_to_fortran(const Shape& shape, ByteSpan in, MutableByteSpan out);

}  // namespace ballast
