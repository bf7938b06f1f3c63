#include "bindings/python/module/arrays.h"

#include <nanobind/stl/string.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "ballast/base/shape.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/looked_up_once.h"

namespace ballast::python {

namespace {

using Code = nb::dlpack::dtype_code;
constexpr nb::dlpack::dtype dl(Code code, uint8_t bits) { return {static_cast<uint8_t>(code), bits, 1}; }

// Where a NumPy type serves two of ours (float32: f32 and flex32), the first row is what arrays are stored as.
constexpr std::array kArrayTypes = {
    ArrayType{DType::kF64, "numpy", "float64", dl(Code::Float, 64)},
    ArrayType{DType::kF32, "numpy", "float32", dl(Code::Float, 32)},
    ArrayType{DType::kF16, "numpy", "float16", dl(Code::Float, 16)},
    ArrayType{DType::kBF16, "ml_dtypes", "bfloat16", dl(Code::Bfloat, 16)},
    ArrayType{DType::kI64, "numpy", "int64", dl(Code::Int, 64)},
    ArrayType{DType::kI32, "numpy", "int32", dl(Code::Int, 32)},
    ArrayType{DType::kI16, "numpy", "int16", dl(Code::Int, 16)},
    ArrayType{DType::kI8, "numpy", "int8", dl(Code::Int, 8)},
    ArrayType{DType::kU64, "numpy", "uint64", dl(Code::UInt, 64)},
    ArrayType{DType::kU32, "numpy", "uint32", dl(Code::UInt, 32)},
    ArrayType{DType::kU16, "numpy", "uint16", dl(Code::UInt, 16)},
    ArrayType{DType::kU8, "numpy", "uint8", dl(Code::UInt, 8)},
    ArrayType{DType::kBool, "numpy", "bool", dl(Code::Bool, 8)},
    ArrayType{DType::kC64, "numpy", "complex64", dl(Code::Complex, 64)},
    ArrayType{DType::kC128, "numpy", "complex128", dl(Code::Complex, 128)},
    ArrayType{DType::kF8E4M3, "ml_dtypes", "float8_e4m3fn", dl(Code::Float8_E4M3FN, 8)},
    ArrayType{DType::kF8E5M2, "ml_dtypes", "float8_e5m2", dl(Code::Float8_E5M2, 8)},
    ArrayType{DType::kF8E8M0, "ml_dtypes", "float8_e8m0fnu", dl(Code::Float8_E8M0FNU, 8)},
    ArrayType{DType::kF8E4M3Fnuz, "ml_dtypes", "float8_e4m3fnuz", dl(Code::Float8_E4M3FNUZ, 8)},
    ArrayType{DType::kF8E5M2Fnuz, "ml_dtypes", "float8_e5m2fnuz", dl(Code::Float8_E5M2FNUZ, 8)},
    ArrayType{DType::kFlex32, "numpy", "float32", dl(Code::Float, 32)},
    ArrayType{DType::kBool32, "numpy", "uint32", dl(Code::UInt, 32)},
    ArrayType{DType::kF128, "numpy", "longdouble", dl(Code::Float, 128)},
    ArrayType{DType::kC256, "numpy", "clongdouble", dl(Code::Complex, 255)},
};

const ArrayType* find_by_name(std::string_view name) {
  for (const ArrayType& row : kArrayTypes) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

nb::handle numpy_ndarray() {
  static constinit LookedUpOnce type;
  return type.get([] { return nb::object(nb::module_::import_("numpy").attr("ndarray")); });
}

bool is_module_type(nb::handle object, const char* module, const char* name) {
  const nb::handle type = object.type();
  nb::object in = nb::getattr(type, "__module__", nb::none());
  nb::object called = nb::getattr(type, "__name__", nb::none());
  return nb::isinstance<nb::str>(in) && nb::isinstance<nb::str>(called) &&
         std::string_view(nb::cast<nb::str>(in).c_str()).starts_with(module) &&
         std::string_view(nb::cast<nb::str>(called).c_str()) == name;
}

// nb::str(x) of an attribute takes it for a str already, so str() is called by name.
std::string text_of(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return nb::cast<std::string>(text);
}

[[noreturn]] void raise_no_type(const std::string& type) {
  const std::string text = "arrays of type " + type + " cannot be stored";
  throw nb::value_error(text.c_str());
}

Shape shape_from(nb::handle dims) {
  std::vector<uint64_t> sizes;
  for (nb::handle dim : dims) sizes.push_back(nb::cast<uint64_t>(dim));
  return Shape(sizes);
}

// Strides in the unit of `unit`; axes of length one may have any.
bool is_row_major(const Shape& shape, nb::handle strides, uint64_t unit) {
  if (shape.element_count().value_or(1) == 0) return true;
  uint64_t expected = unit;
  for (size_t axis = shape.rank(); axis-- > 0;) {
    if (shape[axis] != 1 && nb::cast<int64_t>(strides[nb::int_(axis)]) != static_cast<int64_t>(expected)) return false;
    expected *= shape[axis];
  }
  return true;
}

void finish_view(ArrayView& view) {
  const auto size = packed_size(view.shape, view.dtype);
  if (!size) raise_no_type(std::string(dtype_name(view.dtype)) + " and shape " + view.shape.to_string());
  view.byte_size = *size;
}

ArrayView view_numpy(nb::handle array) {
  ArrayView view;
  view.owner = nb::borrow(array);
  const nb::object dtype = array.attr("dtype");
  const auto known = dtype_from_python(dtype);
  if (!known) raise_no_type(text_of(dtype));
  view.dtype = *known;
  const nb::dict interface = nb::cast<nb::dict>(array.attr("__array_interface__"));
  view.shape = shape_from(interface["shape"]);
  view.data = reinterpret_cast<const std::byte*>(nb::cast<uintptr_t>(interface["data"][0]));
  const bool native = nb::cast<bool>(dtype.attr("isnative"));
  const nb::object strides = interface["strides"];
  view.canonical =
      native && (strides.is_none() || is_row_major(view.shape, strides, nb::cast<uint64_t>(dtype.attr("itemsize"))));
  finish_view(view);
  return view;
}

ArrayView view_torch(nb::handle given) {
  nb::object tensor = given.attr("detach")();
  if (text_of(nb::object(tensor.attr("layout"))) != "torch.strided") {
    throw nb::value_error("sparse and other unusual layouts of torch cannot be stored: call .to_dense() first");
  }
  if (nb::cast<std::string>(tensor.attr("device").attr("type")) != "cpu") tensor = tensor.attr("cpu")();
  // Lazy conjugation and negation are not in the bytes yet.
  if (nb::hasattr(tensor, "resolve_conj")) tensor = tensor.attr("resolve_conj")().attr("resolve_neg")();
  ArrayView view;
  view.owner = tensor;
  const auto known = dtype_from_python(nb::object(tensor.attr("dtype")));
  if (!known) raise_no_type(text_of(nb::object(tensor.attr("dtype"))));
  view.dtype = *known;
  view.shape = shape_from(tensor.attr("shape"));
  view.data = reinterpret_cast<const std::byte*>(nb::cast<uintptr_t>(tensor.attr("data_ptr")()));
  view.canonical = is_row_major(view.shape, tensor.attr("stride")(), 1);
  finish_view(view);
  return view;
}

ArrayView view_typed(const TypedBytes& typed) {
  ArrayView view;
  // A memoryview keeps the buffer open, so that its memory cannot move.
  view.owner = nb::steal(PyMemoryView_FromObject(typed.memory.ptr()));
  if (!view.owner.is_valid()) throw nb::python_error();
  Py_buffer buffer;
  if (PyObject_GetBuffer(view.owner.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
  view.data = static_cast<const std::byte*>(buffer.buf);
  const auto size = static_cast<uint64_t>(buffer.len);
  PyBuffer_Release(&buffer);
  view.dtype = typed.dtype;
  view.shape = typed.shape;
  finish_view(view);
  unwrap(check_packed_size(typed.shape, typed.dtype, size));
  return view;
}

// ---------------------------------------------------------------- the buffer protocol

int get_buffer(PyObject* self, Py_buffer* out, int flags) noexcept {
  static std::byte nothing;  // an empty buffer has an address too
  const Buffer* buffer = nb::inst_ptr<Buffer>(self);
  // The protocol has no const; `readonly` stands for it.
  void* address =
      buffer->bytes().empty() ? &nothing : const_cast<void*>(static_cast<const void*>(buffer->bytes().data()));
  return PyBuffer_FillInfo(out, self, address, static_cast<Py_ssize_t>(buffer->bytes().size()),
                           buffer->writable() ? 0 : 1, flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

const ArrayType* find_array_type(DType dtype) {
  for (const ArrayType& row : kArrayTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

nb::object numpy_dtype(DType dtype) {
  static constinit std::array<LookedUpOnce, 256> known;
  return nb::borrow(known[static_cast<size_t>(dtype)].get([dtype] {
    const ArrayType* type = find_array_type(dtype);
    if (type == nullptr) {
      raise_error(make_error(ErrorCode::kUnsupported, std::string(dtype_name(dtype)) + " has no type in NumPy"));
    }
    nb::object scalar = nb::module_::import_(type->module).attr(type->name);
    return nb::object(nb::module_::import_("numpy").attr("dtype")(scalar));
  }));
}

std::optional<DType> dtype_from_python(nb::handle dtype) {
  // numpy.dtype and ml_dtypes have a name; torch.dtype prints as torch.float32; classes (numpy.float32) too.
  nb::object named = nb::getattr(dtype, "name", nb::none());
  if (named.is_none()) named = nb::getattr(dtype, "__name__", nb::none());
  std::string text = text_of(named.is_none() ? dtype : nb::handle(named));
  if (text.starts_with("torch.")) text = text.substr(6);
  if (text == "bool_") text = "bool";
  if (text == "float128") text = "longdouble";
  if (text == "complex256") text = "clongdouble";
  if (const ArrayType* row = find_by_name(text)) return row->dtype;
  return nb::isinstance<nb::str>(dtype) ? parse_dtype(text) : std::nullopt;
}

nb::tuple shape_tuple(const Shape& shape) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.rank())));
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(axis), PyLong_FromUnsignedLongLong(shape[axis]));
  }
  return nb::cast<nb::tuple>(tuple);
}

nb::object make_buffer(ByteVector bytes) {
  auto owned = std::make_shared<ByteVector>(std::move(bytes));
  return nb::cast(Buffer(owned, MutableByteSpan(*owned)));
}

Shape stored_shape(DType dtype, const Shape& shape, uint64_t byte_size) {
  if (find_array_type(dtype) != nullptr) return shape;
  const auto elements = shape.element_count();
  if (shape.rank() == 0 || !elements || *elements == 0) return Shape({byte_size});
  const uint64_t rows = *elements / shape[shape.rank() - 1];
  if (byte_size % rows != 0) return Shape({byte_size});
  std::vector<uint64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = byte_size / rows;
  return Shape(dims);
}

nb::object numpy_over(nb::handle buffer, uint64_t offset, DType dtype, const Shape& shape) {
  const nb::object type = numpy_dtype(find_array_type(dtype) != nullptr ? dtype : DType::kU8);
  return numpy_ndarray()(shape_tuple(shape), type, buffer, offset);
}

nb::object numpy_owning(ByteVector bytes, DType dtype, const Shape& shape) {
  const Shape stored = stored_shape(dtype, shape, bytes.size());
  return numpy_over(make_buffer(std::move(bytes)), 0, dtype, stored);
}

ArrayView view_array(nb::handle array) {
  if (nb::isinstance<TypedBytes>(array)) return view_typed(nb::cast<const TypedBytes&>(array));
  if (is_module_type(array, "torch", "Tensor") || is_module_type(array, "torch", "Parameter")) return view_torch(array);
  if (nb::isinstance(array, numpy_ndarray())) return view_numpy(array);
  if (nb::hasattr(array, "data_ptr") && nb::hasattr(array, "detach")) return view_torch(array);  // subclasses
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object host = nb::borrow(array);
  // CuPy refuses to become a NumPy array unasked.
  if (is_module_type(array, "cupy", "ndarray")) host = array.attr("get")();
  if (!nb::hasattr(host, "__array__") && !nb::hasattr(host, "__array_interface__") && nb::hasattr(host, "__dlpack__")) {
    host = numpy.attr("from_dlpack")(host);
  }
  nb::object made = numpy.attr("asarray")(host);
  if (nb::cast<std::string>(made.attr("dtype").attr("kind")) == "O") {
    const std::string text = "not an array: " + text_of(array.type());
    throw nb::type_error(text.c_str());
  }
  return view_numpy(made);
}

ArrayView canonical_view(const ArrayView& view) {
  if (view.canonical) return view;
  if (nb::hasattr(view.owner, "contiguous")) return view_torch(view.owner.attr("contiguous")());
  const nb::object dtype = numpy_dtype(view.dtype);
  nb::object copy = nb::module_::import_("numpy").attr("ascontiguousarray")(view.owner, dtype);
  ArrayView made = view_numpy(copy);
  made.shape = view.shape;  // ascontiguousarray gives a scalar an axis
  return made;
}

void bind_arrays(nb::module_& module) {
  nb::class_<TypedBytes>(module, "TypedBytes", "Bytes with a type and a shape, to be saved.");
  module.def(
      "typed_bytes",
      [](nb::object memory, const std::string& dtype, nb::handle shape) {
        const auto known = parse_dtype(dtype);
        if (!known) raise_no_type(dtype);
        return TypedBytes{std::move(memory), *known, shape_from(shape)};
      },
      nb::arg("memory"), nb::arg("dtype"), nb::arg("shape"));
  nb::class_<Buffer>(module, "Buffer", nb::type_slots(buffer_slots),
                     "Bytes of a file or a result, with the buffer protocol. Arrays over them keep them alive.")
      .def("__len__", [](const Buffer& self) { return self.bytes().size(); })
      .def_prop_ro("readonly", [](const Buffer& self) { return !self.writable(); });
}

}  // namespace ballast::python
