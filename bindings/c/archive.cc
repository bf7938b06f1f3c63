#include "ballast/archive/open.h"
#include "ballast/archive/slice.h"
#include "bindings/c/archive_object.h"

namespace ballast::c {

namespace {

Status hand_out_archive(Result<Archive> opened, ballast_archive** out) {
  BALLAST_TRY(Archive archive, std::move(opened));
  *out = hand_out<ballast_archive>(std::make_shared<ArchiveObject>(std::move(archive)));
  return {};
}

Result<ByteSpan> given_bytes(const void* data, size_t size) {
  if (size != 0) BALLAST_CHECK(need(data, "the pointer to the bytes"));
  return ByteSpan(static_cast<const std::byte*>(data), size);
}

Status check_index(size_t index, size_t count, const char* what) {
  if (index < count) return {};
  return make_error(ErrorCode::kInvalidArgument, "there is no " + std::string(what) + " " + std::to_string(index) +
                                                     ": there are " + std::to_string(count) +
                                                     ", and they number from 0");
}

ballast_tensor_info info_of(const TensorInfo& tensor) {
  const DTypeInfo& dtype = dtype_info(tensor.dtype);
  ballast_tensor_info info = {};
  info.name = to_text(tensor.name);
  info.dtype = dtype.name.data();  // a literal, which ends with a NUL
  info.element_bits = dtype.bits;
  info.scheme = to_text(tensor.scheme());
  info.rank = tensor.shape.rank();
  info.dims = tensor.shape.dims().data();
  info.byte_size = tensor.byte_size;
  return info;
}

// ---------------------------------------------------------------- metadata

void set_value(ballast_meta& meta, const std::string& text) {
  meta.type = BALLAST_META_TEXT;
  meta.text = to_text(text);
}
void set_value(ballast_meta& meta, int64_t value) {
  meta.type = BALLAST_META_INT;
  meta.int_value = value;
}
void set_value(ballast_meta& meta, uint64_t value) {
  meta.type = BALLAST_META_UINT;
  meta.uint_value = value;
}
void set_value(ballast_meta& meta, double value) {
  meta.type = BALLAST_META_FLOAT;
  meta.float_value = value;
}
void set_value(ballast_meta& meta, bool value) {
  meta.type = BALLAST_META_BOOL;
  meta.bool_value = value;
}
void set_value(ballast_meta& meta, const MetaArray& array) {
  meta.type = BALLAST_META_ARRAY;
  meta.array_size = array.size();
}

ballast_meta meta_of(const MetaEntry& entry) {
  ballast_meta meta = {};
  meta.key = to_text(entry.key);
  std::visit([&](const auto& value) { set_value(meta, value); }, entry.value);
  return meta;
}

MetaElements elements_of(const MetaArray& array) {
  MetaElements elements;
  for (const std::string_view text : array.texts()) elements.texts.emplace_back(text);
  elements.integers = array.integers();
  if (elements.texts.empty() && elements.integers.empty()) elements.numbers = array.numbers();
  return elements;
}

Result<ballast_meta> element_meta(ArchiveObject& object, size_t index, const MetaArray& array, size_t element) {
  BALLAST_CHECK(check_index(element, array.size(), "element"));
  const std::lock_guard lock(object.mutex);
  auto known = object.elements.find(index);
  if (known == object.elements.end()) known = object.elements.emplace(index, elements_of(array)).first;
  const MetaElements& elements = known->second;
  ballast_meta meta = {};
  meta.key = {"", 0};
  if (element < elements.texts.size()) set_value(meta, elements.texts[element]);
  else if (element < elements.integers.size()) set_value(meta, elements.integers[element]);
  else if (element < elements.numbers.size()) set_value(meta, elements.numbers[element]);
  else return make_error(ErrorCode::kUnsupported, "an array of arrays has no elements that C can be given");
  return meta;
}

// ---------------------------------------------------------------- tensors

void hand_out_tensor(TensorObject tensor, ballast_tensor** out) {
  *out = hand_out<ballast_tensor>(std::make_shared<TensorObject>(std::move(tensor)));
}

Status view_tensor(const std::shared_ptr<ArchiveObject>& object, size_t index, size_t alignment, ballast_tensor** out) {
  BALLAST_CHECK(check_index(index, object->archive.tensors().size(), "tensor"));
  if (alignment == 0 || alignment > 16 || (alignment & (alignment - 1)) != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the alignment is " + std::to_string(alignment) + "; it can be 1, 2, 4, 8 or 16");
  }
  BALLAST_TRY(Payload payload, object->archive.aligned_payload(index, alignment));
  hand_out_tensor({object, object->archive.tensors()[index], std::move(payload)}, out);
  return {};
}

Status slice_tensor(const std::shared_ptr<ArchiveObject>& object, const char* text, ballast_tensor** out) {
  BALLAST_TRY(const TensorSlice chosen, find_tensor_slice(object->archive, text));
  if (chosen.text.empty()) return view_tensor(object, chosen.tensor, 1, out);
  BALLAST_TRY(SliceResult slice, read_slice(object->archive, chosen.tensor, chosen.slice));
  hand_out_tensor({nullptr, std::move(slice.info), Payload(std::move(slice.payload))}, out);
  return {};
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

// ---------------------------------------------------------------- opening

ballast_error* ballast_archive_open(const char* path, const ballast_open_options* options, ballast_archive** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_CHECK(need(path, "the path"));
    BALLAST_TRY(const ballast_open_options given, given_options(options));
    OpenOptions open;
    if (given.positional) open.access = FileAccess::kPositional;
    return hand_out_archive(open_archive(std::string(path), open), out);
  });
}
ballast_error* ballast_archive_open_bytes(const void* data, size_t size, ballast_archive** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const ByteSpan bytes, given_bytes(data, size));
    return hand_out_archive(open_archive_bytes(ByteVector(bytes.begin(), bytes.end())), out);
  });
}
ballast_error* ballast_archive_borrow_bytes(const void* data, size_t size, ballast_archive** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const ByteSpan bytes, given_bytes(data, size));
    return hand_out_archive(open_archive_borrowed(bytes), out);
  });
}
void ballast_archive_close(ballast_archive* archive) { drop(archive); }

// ---------------------------------------------------------------- what is in it

ballast_text ballast_archive_format(const ballast_archive* archive) {
  return ask(archive, ballast_text{"", 0},
             [](const ArchiveObject& object) { return to_text(object.archive.description().format); });
}
ballast_text ballast_archive_config(const ballast_archive* archive) {
  return ask(archive, ballast_text{nullptr, 0}, [](const ArchiveObject& object) {
    const auto& config = object.archive.description().config;
    return config ? to_text(config->text) : ballast_text{nullptr, 0};
  });
}
size_t ballast_archive_tensor_count(const ballast_archive* archive) {
  return ask(archive, size_t{0}, [](const ArchiveObject& object) { return object.archive.tensors().size(); });
}
ballast_error* ballast_archive_tensor_info(const ballast_archive* archive, size_t index, ballast_tensor_info* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(archive));
    BALLAST_CHECK(check_index(index, object->archive.tensors().size(), "tensor"));
    return give(info_of(object->archive.tensors()[index]), out);
  });
}
ballast_error* ballast_archive_find(const ballast_archive* archive, const char* name, size_t* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(archive));
    BALLAST_CHECK(need(name, "the name"));
    BALLAST_CHECK(need(out, "the pointer to the result"));
    if (const auto found = object->archive.find(std::string_view(name))) return *out = *found, Status();
    // An id, or an error that says which names are near.
    BALLAST_TRY(const TensorSlice slice, find_tensor_slice(object->archive, name));
    if (!slice.text.empty()) return make_error(ErrorCode::kNotFound, "no tensor is called " + std::string(name));
    *out = slice.tensor;
    return {};
  });
}
size_t ballast_archive_meta_count(const ballast_archive* archive) {
  return ask(archive, size_t{0},
             [](const ArchiveObject& object) { return object.archive.description().metadata.size(); });
}
ballast_error* ballast_archive_meta(const ballast_archive* archive, size_t index, ballast_meta* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(archive));
    const auto& metadata = object->archive.description().metadata;
    BALLAST_CHECK(check_index(index, metadata.size(), "entry of the metadata"));
    return give(meta_of(metadata[index]), out);
  });
}
ballast_error* ballast_archive_meta_element(const ballast_archive* archive, size_t index, size_t element,
                                            ballast_meta* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(archive));
    const auto& metadata = object->archive.description().metadata;
    BALLAST_CHECK(check_index(index, metadata.size(), "entry of the metadata"));
    const auto* array = std::get_if<MetaArray>(&metadata[index].value);
    if (array == nullptr) return make_error(ErrorCode::kInvalidArgument, metadata[index].key + " is no array");
    BALLAST_TRY(const ballast_meta meta, element_meta(*object, index, *array, element));
    return give(meta, out);
  });
}

// ---------------------------------------------------------------- bytes

ballast_error* ballast_archive_read(const ballast_archive* archive, size_t index, void* out, size_t size) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(archive));
    BALLAST_CHECK(check_index(index, object->archive.tensors().size(), "tensor"));
    const TensorInfo& tensor = object->archive.tensors()[index];
    if (size != tensor.byte_size) {
      return make_error(ErrorCode::kInvalidArgument, tensor.name + " has " + std::to_string(tensor.byte_size) +
                                                         " bytes, but there is room for " + std::to_string(size));
    }
    if (size != 0) BALLAST_CHECK(need(out, "the pointer to the result"));
    return object->archive.read_into(index, MutableByteSpan(static_cast<std::byte*>(out), size));
  });
}
ballast_error* ballast_archive_view(const ballast_archive* archive, size_t index, size_t alignment,
                                    ballast_tensor** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(archive));
    return view_tensor(object, index, alignment, out);
  });
}
ballast_error* ballast_archive_slice(const ballast_archive* archive, const char* name_and_slice, ballast_tensor** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(archive));
    BALLAST_CHECK(need(name_and_slice, "the name"));
    return slice_tensor(object, name_and_slice, out);
  });
}

const void* ballast_tensor_data(const ballast_tensor* tensor) {
  return ask(tensor, static_cast<const void*>(nullptr),
             [](const TensorObject& object) { return static_cast<const void*>(object.payload.bytes().data()); });
}
size_t ballast_tensor_size(const ballast_tensor* tensor) {
  return ask(tensor, size_t{0}, [](const TensorObject& object) { return object.payload.bytes().size(); });
}
bool ballast_tensor_is_view(const ballast_tensor* tensor) {
  return ask(tensor, false, [](const TensorObject& object) { return object.payload.is_view(); });
}
ballast_error* ballast_tensor_get_info(const ballast_tensor* tensor, ballast_tensor_info* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(tensor));
    return give(info_of(object->info), out);
  });
}
void ballast_tensor_close(ballast_tensor* tensor) { drop(tensor); }

}  // extern "C"
