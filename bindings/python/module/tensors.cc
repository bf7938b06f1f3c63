// Lazy tensors: arrays of all or part of one, without reading more than that.
#include "bindings/python/module/tensors.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "ballast/archive/slice.h"
#include "bindings/python/module/archives.h"
#include "bindings/python/module/arrays.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/fresh_array.h"
#include "bindings/python/module/native_call.h"

namespace ballast::python {

namespace {

const TensorInfo& info_of(const LazyTensor& tensor, const std::shared_ptr<const Archive>& archive) {
  return archive->tensors()[tensor.index];
}

bool can_view(const Archive& archive, size_t index) {
  const StoredExtent& extent = archive.extent(index);
  return extent.is_canonical() && archive.sources()[extent.source]->view(extent.offset, extent.length).has_value();
}

// The type that numbers read from a tensor have: block types are dequantised to f32.
DType value_dtype(const TensorInfo& info) { return is_block(info.dtype) ? DType::kF32 : info.dtype; }

// ---------------------------------------------------------------- slices

// nullopt: something that only NumPy understands (an array of indices, a new axis, a negative step).
std::optional<SliceItem> item_from(nb::handle key) {
  SliceItem item;
  if (key.ptr() == Py_Ellipsis) {
    item.kind = SliceItem::Kind::kEllipsis;
    return item;
  }
  if (nb::isinstance<nb::slice>(key)) {
    const auto part = [&](const char* name, std::optional<int64_t>& out) {
      const nb::object value = key.attr(name);
      if (value.is_none()) return true;
      int64_t number = 0;
      if (!nb::hasattr(value, "__index__") || !nb::try_cast<int64_t>(value.attr("__index__")(), number)) return false;
      out = number;
      return true;
    };
    std::optional<int64_t> step;
    if (!part("start", item.begin) || !part("stop", item.end) || !part("step", step)) return std::nullopt;
    item.step = step.value_or(1);
    return item.step > 0 ? std::optional(item) : std::nullopt;
  }
  if (nb::isinstance<nb::bool_>(key) || !nb::hasattr(key, "__index__") || nb::hasattr(key, "__array__")) {
    return std::nullopt;
  }
  int64_t index = 0;
  if (!nb::try_cast<int64_t>(key.attr("__index__")(), index)) return std::nullopt;
  item.kind = SliceItem::Kind::kIndex;
  item.index = index;
  return item;
}

std::optional<Slice> slice_from(nb::handle key) {
  Slice slice;
  if (!nb::isinstance<nb::tuple>(key)) {
    const auto item = item_from(key);
    if (item) slice.push_back(*item);
    return item ? std::optional(slice) : std::nullopt;
  }
  for (nb::handle part : nb::borrow<nb::tuple>(key)) {
    const auto item = item_from(part);
    if (!item) return std::nullopt;
    slice.push_back(*item);
  }
  return slice;
}

// An index that is not there is an IndexError, as of any sequence: iterating ends with it.
Selection selection_of(const TensorInfo& info, const Slice& slice) {
  auto selection = select(info, slice);
  if (!selection && selection.error().code == ErrorCode::kInvalidArgument) {
    throw nb::index_error(selection.error().message.c_str());
  }
  return unwrap(std::move(selection));
}

nb::object read_selection(const Archive& archive, size_t index, const Selection& selection) {
  const DType dtype = value_dtype(archive.tensors()[index]);
  FreshArray fresh(dtype, selection.shape);
  auto status = [&] {
    const GilReleased released;
    SpanSink sink(fresh.bytes());
    Status drawn = stream_slice_values(archive, index, selection, sink);
    return drawn ? sink.finish() : drawn;
  }();
  unwrap(std::move(status));
  return fresh.take();
}

nb::object all_values(const LazyTensor& tensor, const std::shared_ptr<const Archive>& archive) {
  const TensorInfo& info = info_of(tensor, archive);
  if (!is_block(info.dtype)) return tensor_array(tensor, false);
  return read_selection(*archive, tensor.index, selection_of(info, {}));
}

nb::object slice_tensor(const LazyTensor& tensor, nb::handle key) {
  const auto archive = tensor.file->get();
  const TensorInfo& info = info_of(tensor, archive);
  const auto slice = slice_from(key);
  const bool by_place = slice && has_elements(info.dtype) && dtype_info(info.dtype).bits >= 8;
  // A view costs nothing, and NumPy understands more than we do.
  if (!slice || (by_place && can_view(*archive, tensor.index)) || (!by_place && !is_block(info.dtype))) {
    return nb::object(all_values(tensor, archive)[key]);
  }
  return read_selection(*archive, tensor.index, selection_of(info, *slice));
}

// ---------------------------------------------------------------- other libraries

nb::object as_array(const LazyTensor& tensor, nb::handle dtype, nb::handle copy) {
  const auto archive = tensor.file->get();
  nb::object values = all_values(tensor, archive);
  const nb::module_ numpy = nb::module_::import_("numpy");
  const bool casts = !dtype.is_none() && !values.attr("dtype").equal(numpy.attr("dtype")(dtype));
  const bool must_not = !copy.is_none() && !nb::cast<bool>(copy);
  if (must_not && (casts || is_block(info_of(tensor, archive).dtype) || !can_view(*archive, tensor.index))) {
    throw nb::value_error("this tensor cannot be had without a copy");
  }
  if (casts) return values.attr("astype")(dtype);
  if (!copy.is_none() && nb::cast<bool>(copy)) return values.attr("copy")();
  return values;
}

// Consumers that do not know DLPack 1.0 cannot be told that memory is read-only, and would end the process by writing
// to it: they get a copy, as do those that ask for one.
nb::object export_dlpack(const LazyTensor& tensor, nb::object stream, nb::object max_version, nb::object device,
                         nb::object copy) {
  const auto archive = tensor.file->get();
  const TensorInfo& info = info_of(tensor, archive);
  const DType dtype = value_dtype(info);
  const ArrayType* type = find_array_type(dtype);
  if (type == nullptr || dtype == DType::kF128 || dtype == DType::kC256) {
    const std::string text = std::string(dtype_name(info.dtype)) + " has no type in DLPack";
    throw nb::buffer_error(text.c_str());
  }
  const bool wants_copy = !copy.is_none() && nb::cast<bool>(copy);
  const bool knows_read_only = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  const bool views = !wants_copy && !is_block(info.dtype) && can_view(*archive, tensor.index) &&
                     (tensor.file->writable() || knows_read_only);
  if (!views && !copy.is_none() && !wants_copy) throw nb::buffer_error("this tensor cannot be exported without a copy");

  std::vector<size_t> shape(info.shape.dims().begin(), info.shape.dims().end());
  nb::object owner = nb::none();
  void* data = nullptr;
  if (views) {
    owner = tensor.file->source_buffer(archive, archive->extent(tensor.index).source);
    const Payload payload = unwrap(archive->payload(tensor.index, Checksum::kSkip));
    data = const_cast<std::byte*>(payload.bytes().data());
  } else {
    FreshArray fresh(dtype, info.shape);
    nb::object values = all_values(tensor, archive);
    const ArrayView from = canonical_view(view_array(values));
    std::copy(from.bytes().begin(), from.bytes().end(), fresh.bytes().begin());
    data = fresh.bytes().data();
    owner = fresh.take();
  }
  nb::dict arguments;
  arguments["stream"] = stream;
  arguments["dl_device"] = device;
  if (!max_version.is_none()) arguments["max_version"] = max_version;
  const auto exported = [&](auto array) { return nb::cast(array).attr("__dlpack__")(**arguments); };
  if (views && !tensor.file->writable()) {
    return exported(nb::ndarray<nb::array_api, nb::ro>(data, shape.size(), shape.data(), owner, nullptr, type->dlpack));
  }
  return exported(nb::ndarray<nb::array_api>(data, shape.size(), shape.data(), owner, nullptr, type->dlpack));
}

std::string describe(const LazyTensor& tensor) {
  if (tensor.file->closed()) return "<ballast.Tensor of a closed archive>";
  const auto archive = tensor.file->get();
  const TensorInfo& info = info_of(tensor, archive);
  return "<ballast.Tensor \"" + info.name + "\" " + info.type_name() + " " + info.shape.to_string() + ">";
}

// A file that another program cut short is an OSError here; later it would end the process. A file loses its end first,
// so what lies last in it is looked at for all.
void check_lengths(const Archive& archive, std::span<const size_t> indices) {
  std::vector<const StoredExtent*> last(archive.sources().size());
  for (const size_t index : indices) {
    const StoredExtent& extent = archive.extent(index);
    if (!can_view(archive, index)) continue;
    const StoredExtent*& found = last[extent.source];
    if (found == nullptr || extent.offset + extent.length > found->offset + found->length) found = &extent;
  }
  for (const StoredExtent* extent : last) {
    if (extent != nullptr) unwrap(archive.sources()[extent->source]->check(extent->offset, extent->length));
  }
}

// Of a file whose length was checked.
nb::object tensor_view(const LazyTensor& tensor, const std::shared_ptr<const Archive>& archive) {
  const TensorInfo& info = info_of(tensor, archive);
  const StoredExtent& extent = archive->extent(tensor.index);
  nb::object buffer = tensor.file->source_buffer(archive, extent.source);
  if (extent.crc32) without_gil([&] { return archive->check_crc(tensor.index); });
  return numpy_over(buffer, extent.offset, info.dtype, stored_shape(info.dtype, info.shape, info.byte_size));
}

nb::object tensor_copy(const LazyTensor& tensor, const std::shared_ptr<const Archive>& archive) {
  const TensorInfo& info = info_of(tensor, archive);
  const Shape shape = stored_shape(info.dtype, info.shape, info.byte_size);
  FreshArray fresh(find_array_type(info.dtype) != nullptr ? info.dtype : DType::kU8, shape);
  auto status = [&] {
    const GilReleased released;
    return archive->read_into(tensor.index, fresh.bytes());
  }();
  unwrap(std::move(status));
  return fresh.take();
}

}  // namespace

nb::object tensor_array(const LazyTensor& tensor, bool copy) {
  const auto archive = tensor.file->get();
  if (copy || !can_view(*archive, tensor.index)) return tensor_copy(tensor, archive);
  check_lengths(*archive, {&tensor.index, 1});
  return tensor_view(tensor, archive);
}

nb::dict tensor_arrays(const std::shared_ptr<ArchiveHandle>& file, std::span<const size_t> indices) {
  const auto archive = file->get();
  check_lengths(*archive, indices);
  nb::dict arrays;
  for (const size_t index : indices) {
    const LazyTensor tensor{file, index};
    arrays[to_python_text(archive->tensors()[index].name)] =
        can_view(*archive, index) ? tensor_view(tensor, archive) : tensor_copy(tensor, archive);
  }
  return arrays;
}

void bind_tensors(nb::module_& module) {
  const auto of = [](const LazyTensor& self) { return self.file->get(); };
  nb::class_<LazyTensor>(
      module, "Tensor",
      "A tensor of an archive. Nothing is read before it is asked for: ``tensor[2:4]`` reads two rows,\n"
      "``numpy.asarray(tensor)`` gives a view of the file without copying it.")
      .def_prop_ro(
          "name", [of](const LazyTensor& self) { return to_python_text(info_of(self, of(self)).name); },
          "Its name in the archive.")
      .def_prop_ro(
          "type", [of](const LazyTensor& self) { return to_python_text(info_of(self, of(self)).type_name()); },
          "The type it is stored in, by Ballast's name: \"f32\", \"bf16\", \"q4_k\".")
      .def_prop_ro(
          "dtype",
          [of](const LazyTensor& self) {
            const DType dtype = value_dtype(info_of(self, of(self)));
            return numpy_dtype(find_array_type(dtype) != nullptr ? dtype : DType::kU8);
          },
          "The NumPy type of what slicing gives. Quantised blocks give float32, types that NumPy does not "
          "have give bytes.")
      .def_prop_ro("shape", [of](const LazyTensor& self) { return shape_tuple(info_of(self, of(self)).shape); })
      .def_prop_ro("ndim", [of](const LazyTensor& self) { return info_of(self, of(self)).shape.rank(); })
      .def_prop_ro(
          "size", [of](const LazyTensor& self) { return info_of(self, of(self)).shape.element_count().value_or(0); },
          "Number of elements.")
      .def_prop_ro(
          "nbytes", [of](const LazyTensor& self) { return info_of(self, of(self)).byte_size; },
          "Bytes of its payload, as stored.")
      .def_prop_ro("requires_grad", [of](const LazyTensor& self) { return info_of(self, of(self)).requires_grad; })
      .def_prop_ro("param_id", [of](const LazyTensor& self) { return info_of(self, of(self)).param_id; })
      .def_prop_ro(
          "offset",
          [of](const LazyTensor& self) -> std::optional<uint64_t> {
            const auto archive = of(self);
            const StoredExtent& extent = archive->extent(self.index);
            return extent.is_canonical() ? std::optional(extent.offset) : std::nullopt;
          },
          "Where its bytes begin in their file; None where they are stored in another form.")
      .def_prop_ro(
          "file", [](const LazyTensor& self) { return self.file; }, "The archive it belongs to.")
      .def(
          "numpy",
          [of](const LazyTensor& self, bool copy) {
            if (!copy) return all_values(self, of(self));
            if (is_block(info_of(self, of(self)).dtype)) return all_values(self, of(self));
            return tensor_array(self, true);
          },
          nb::arg("copy") = false,
          "All of it as an array: a view of the file where it can be had, or memory of its own with ``copy=True``.")
      .def(
          "raw", [](const LazyTensor& self) { return tensor_array(self, false); },
          "The stored bytes as an array; of quantised blocks each row's bytes.")
      .def("__getitem__", [](const LazyTensor& self, nb::object key) { return slice_tensor(self, key); })
      .def("__len__",
           [of](const LazyTensor& self) {
             const auto archive = of(self);
             const Shape& shape = info_of(self, archive).shape;
             if (shape.rank() == 0) throw nb::type_error("len() of a tensor without axes");
             return shape[0];
           })
      .def(
          "__array__",
          [](const LazyTensor& self, nb::object dtype, nb::object copy) { return as_array(self, dtype, copy); },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack__", &export_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const LazyTensor&) { return nb::make_tuple(1, 0); })
      .def("__repr__", [](const LazyTensor& self) { return to_python_text(describe(self)); })
      .def("_repr_html_",
           [](nb::handle self) { return nb::module_::import_("ballast._html").attr("tensor_html")(self); });
}

}  // namespace ballast::python
