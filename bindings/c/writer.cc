#include "ballast/base/shape.h"
#include "bindings/c/boundary.h"
#include "bindings/c/output_format.h"

namespace ballast::c {

namespace {

struct WriterObject {
  OneCall one_call;
  WritePlan plan;
};

}  // namespace

template <>
struct HandleTraits<ballast_writer> {
  using Object = WriterObject;
  static constexpr HandleKind kKind = HandleKind::kWriter;
  static constexpr const char* kName = "writer";
};

namespace {

Result<TensorInfo> make_tensor_info(const char* name, const char* dtype, std::span<const uint64_t> dims, size_t size) {
  TensorInfo info;
  info.name = name;
  const auto type = parse_dtype(dtype);
  if (!type || !has_fixed_size(*type)) {
    return make_error(ErrorCode::kInvalidArgument,
                      info.name + ": " + dtype + (type ? " cannot be written this way" : " is no element type"));
  }
  info.dtype = *type;
  info.shape = Shape(dims);
  info.byte_size = size;
  Status fits = check_packed_size(info.shape, info.dtype, size);
  if (!fits) return std::move(fits).error().with_context(info.name);
  return info;
}

Result<MetaValue> given_value(const ballast_meta& meta) {
  switch (meta.type) {
    case BALLAST_META_TEXT: {
      BALLAST_TRY(const std::string_view text, given_text(meta.text.data, meta.text.size, "the text"));
      return MetaValue(std::string(text));
    }
    case BALLAST_META_INT: return MetaValue(meta.int_value);
    case BALLAST_META_UINT: return MetaValue(meta.uint_value);
    case BALLAST_META_FLOAT: return MetaValue(meta.float_value);
    case BALLAST_META_BOOL: return MetaValue(meta.bool_value);
    case BALLAST_META_ARRAY: break;
  }
  return make_error(ErrorCode::kUnsupported, "metadata of this type cannot be written");
}

void set_entry(std::vector<MetaEntry>& metadata, MetaEntry entry) {
  const auto known = std::ranges::find(metadata, entry.key, &MetaEntry::key);
  if (known != metadata.end()) known->value = std::move(entry.value);
  else metadata.push_back(std::move(entry));
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_writer_create(ballast_writer** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    *out = hand_out<ballast_writer>(std::make_shared<WriterObject>());
    return {};
  });
}
ballast_error* ballast_writer_add_tensor(ballast_writer* writer, const char* name, const char* dtype,
                                         const uint64_t* dims, size_t rank, const void* data, size_t size) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(writer));
    BALLAST_CHECK(need(name, "the name"));
    BALLAST_CHECK(need(dtype, "the dtype"));
    if (rank != 0) BALLAST_CHECK(need(dims, "the pointer to the dimensions"));
    if (size != 0) BALLAST_CHECK(need(data, "the pointer to the data"));
    BALLAST_TRY(TensorInfo info, make_tensor_info(name, dtype, {dims, rank}, size));
    BALLAST_TRY(const auto turn, object->one_call.enter());
    object->plan.add_tensor(std::move(info), ByteSpan(static_cast<const std::byte*>(data), size));
    return {};
  });
}
ballast_error* ballast_writer_set_meta(ballast_writer* writer, const ballast_meta* meta) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(writer));
    BALLAST_CHECK(need(meta, "the metadata"));
    BALLAST_TRY(const ballast_meta given, given_options(meta));
    BALLAST_TRY(const std::string_view key, given_text(given.key.data, given.key.size, "the key"));
    BALLAST_TRY(MetaValue value, given_value(given));
    BALLAST_TRY(const auto turn, object->one_call.enter());
    set_entry(object->plan.description.metadata, {std::string(key), std::move(value)});
    return {};
  });
}
ballast_error* ballast_writer_set_config(ballast_writer* writer, const char* schema, const char* config) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(writer));
    BALLAST_CHECK(need(schema, "the schema"));
    BALLAST_CHECK(need(config, "the config"));
    BALLAST_TRY(const auto turn, object->one_call.enter());
    object->plan.description.config = ModelConfig{schema, config};
    return {};
  });
}
ballast_error* ballast_writer_write(ballast_writer* writer, const char* path, const ballast_write_options* options) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(writer));
    BALLAST_CHECK(need(path, "the path"));
    BALLAST_TRY(const ballast_write_options given, given_options(options));
    BALLAST_TRY(const FormatDriver* format, choose_format(text_or_empty(given.format), path));
    BALLAST_TRY(const ConvertOptions convert, written_as(given));
    BALLAST_TRY(const auto turn, object->one_call.enter());
    BALLAST_TRY(const ConvertReport report, convert_plan(object->plan, path, *format, convert));
    for (const std::string& note : report.notes) log(BALLAST_LOG_INFO, note);
    return {};
  });
}
ballast_error* ballast_writer_write_bytes(ballast_writer* writer, const ballast_write_options* options,
                                          ballast_buffer** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(writer));
    BALLAST_TRY(const ballast_write_options given, given_options(options));
    BALLAST_TRY(const FormatDriver* format, choose_format(text_or_empty(given.format)));
    BALLAST_TRY(const auto turn, object->one_call.enter());
    BALLAST_TRY(const ByteVector bytes, write_archive_bytes(*format, object->plan, format_options(given)));
    *out = hand_out_text(std::string(as_text(bytes)));
    return {};
  });
}
void ballast_writer_close(ballast_writer* writer) { drop(writer); }

}  // extern "C"
