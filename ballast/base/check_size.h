// Are these as many bytes as a tensor has?
#pragma once

#include "ballast/base/result.h"
#include "ballast/base/shape.h"

namespace ballast {

// kInvalidArgument, with the numbers, where a packed tensor of this type and shape has another size, or none.
Status check_packed_size(const Shape& shape, DType dtype, uint64_t size);

}  // namespace ballast
