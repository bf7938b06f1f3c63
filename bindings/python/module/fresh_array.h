// A NumPy array to be filled: its memory is not touched before.
#pragma once

#include <nanobind/nanobind.h>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"
#include "ballast/base/shape.h"

namespace ballast::python {

namespace nb = nanobind;

// Made and taken with the GIL held; `bytes` may be filled without. MemoryError where there is no memory for it.
class FreshArray {
 public:
  FreshArray(DType dtype, const Shape& shape);

  MutableByteSpan bytes() const { return bytes_; }
  nb::object take() { return std::move(array_); }

 private:
  nb::object array_;
  MutableByteSpan bytes_;
};

}  // namespace ballast::python
