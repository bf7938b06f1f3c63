// Arrays of Python's libraries over memory of ours, and the other way round. Nothing is copied unless it says so.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <optional>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"
#include "ballast/base/shape.h"

namespace ballast::python {

namespace nb = nanobind;

// ---------------------------------------------------------------- types

// How NumPy and DLPack see a type: an element is one of theirs, or, for types whose elements do not lie by themselves
// (quantised blocks, 4 and 6 bits, opaque bytes), bytes are all there is to show.
struct ArrayType {
  DType dtype;
  const char* module;  // "numpy" or "ml_dtypes"
  const char* name;    // "float32"
  nb::dlpack::dtype dlpack;
};
// Null where there is none.
const ArrayType* find_array_type(DType dtype);

// numpy.dtype("float32"), or ml_dtypes' for bf16 and fp8. kUnsupported is raised for types that have none.
nb::object numpy_dtype(DType dtype);
// What a dtype of NumPy, of ml_dtypes or of torch, its name, or our own name for it means; nullopt for none.
std::optional<DType> dtype_from_python(nb::handle dtype);

nb::tuple shape_tuple(const Shape& shape);

// ---------------------------------------------------------------- memory of ours

// Bytes with the buffer protocol, kept alive by `owner`: what arrays over our memory have as their base.
class Buffer {
 public:
  Buffer(std::shared_ptr<const void> owner, ByteSpan bytes) : owner_(std::move(owner)), data_(bytes) {}
  Buffer(std::shared_ptr<const void> owner, MutableByteSpan bytes)
      : owner_(std::move(owner)), data_(bytes), writable_(true) {}

  ByteSpan bytes() const { return data_; }
  bool writable() const { return writable_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  ByteSpan data_;
  bool writable_ = false;
};

// A Buffer that owns the bytes, which may be written to.
nb::object make_buffer(ByteVector bytes);

// A NumPy array over part of `buffer`, which it keeps alive; writable where the buffer is. Types without elements of
// their own give bytes, in the shape that stored_shape() says.
nb::object numpy_over(nb::handle buffer, uint64_t offset, DType dtype, const Shape& shape);
// A NumPy array that owns `bytes`.
nb::object numpy_owning(ByteVector bytes, DType dtype, const Shape& shape);
// The shape of the stored bytes: the last axis counts bytes where that comes out even; one axis otherwise.
Shape stored_shape(DType dtype, const Shape& shape, uint64_t byte_size);

// ---------------------------------------------------------------- memory of others

// An array of NumPy, PyTorch, JAX, or anything with DLPack or the buffer protocol. Memory of another device has been
// copied to the host.
struct ArrayView {
  nb::object owner;  // keeps `data` valid
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;
  uint64_t byte_size = 0;
  bool canonical = true;  // row-major and little-endian, so that `data` is the payload

  ByteSpan bytes() const { return {data, static_cast<size_t>(byte_size)}; }
};
// Bytes of Python's with a type and a shape that no array library has words for: 4-bit floats, quantised blocks.
struct TypedBytes {
  nb::object memory;  // has the buffer protocol
  DType dtype = DType::kU8;
  Shape shape;
};

// Raises TypeError for what is no array, and ValueError for a type that no file holds.
ArrayView view_array(nb::handle array);
// The same numbers, row-major and little-endian: a copy where they were not.
ArrayView canonical_view(const ArrayView& view);

void bind_arrays(nb::module_& module);

}  // namespace ballast::python
