#include "bindings/python/module/fresh_array.h"

#include <new>

#include "bindings/python/module/arrays.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/looked_up_once.h"

namespace ballast::python {

namespace {

// NumPy asks for huge pages where arrays are large, which halves the time to fill them first.
constexpr uint64_t kLarge = uint64_t{1} << 20;

nb::object numpy_bytes(uint64_t size) {
  static constinit LookedUpOnce empty;
  return empty.get([] { return nb::object(nb::module_::import_("numpy").attr("empty")); })(size,
                                                                                           numpy_dtype(DType::kU8));
}

MutableByteSpan bytes_of(nb::handle array) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_WRITABLE) != 0) throw nb::python_error();
  const MutableByteSpan bytes(static_cast<std::byte*>(buffer.buf), static_cast<size_t>(buffer.len));
  PyBuffer_Release(&buffer);  // the array keeps its memory where it is
  return bytes;
}

// For small arrays one object less, and less to ask NumPy.
nb::object own_bytes(uint64_t size, MutableByteSpan& bytes) {
  auto* memory = new (std::align_val_t(64), std::nothrow) std::byte[static_cast<size_t>(size)];
  if (memory == nullptr) throw std::bad_alloc();
  const std::shared_ptr<const void> owner(memory,
                                          [](std::byte* gone) { operator delete[](gone, std::align_val_t(64)); });
  bytes = {memory, static_cast<size_t>(size)};
  return nb::cast(Buffer(owner, bytes));
}

}  // namespace

FreshArray::FreshArray(DType dtype, const Shape& shape) {
  const auto size = packed_size(shape, dtype);
  if (!size)
    raise_error(make_error(ErrorCode::kInvalidArgument, "an array of shape " + shape.to_string() + " is too large"));
  nb::object base;
  if (*size >= kLarge) {
    base = numpy_bytes(*size);
    bytes_ = bytes_of(base);
  } else {
    base = own_bytes(*size, bytes_);
  }
  array_ = numpy_over(base, 0, dtype, shape);
}

}  // namespace ballast::python
