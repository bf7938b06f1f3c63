#include <algorithm>
#include <bit>

#include "apps/ballast/commands/inspect.h"
#include "apps/ballast/models/running_memory.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/output/tied_output.h"
#include "ballast/archive/model_summary.h"
#include "ballast/archive/origin.h"
#include "ballast/base/param_id.h"

namespace ballast::cli {

namespace {

constexpr size_t kMostInJson = 64;  // of a list, unless --full

void add_metadata(JsonWriter& json, const Description& description) {
  json.key("metadata").begin_object();
  for (const MetaEntry& entry : description.metadata) {
    if (const auto* text = std::get_if<std::string>(&entry.value)) add_text(json, json_text(entry.key), *text);
  }
  json.end_object();
}

// The first elements of a list, in the array that is open; gives how many were left out.
uint64_t add_elements(JsonWriter& json, const MetaArray& array, size_t most) {
  const auto shown = static_cast<size_t>(std::min<uint64_t>(array.size(), most));
  const auto add = [&](const auto& elements, auto&& write) {
    for (size_t i = 0; i < std::min(shown, elements.size()); ++i) write(elements[i]);
  };
  if (array.element() == MetaType::kBool) add(array.integers(), [&](int64_t value) { json.boolean(value != 0); });
  else if (array.element() == MetaType::kU64)
    add(array.integers(), [&](int64_t value) { json.number(static_cast<uint64_t>(value)); });
  else if (array.element() == MetaType::kF32 || array.element() == MetaType::kF64)
    add(array.numbers(), [&](double value) { json.real(value); });
  else add(array.integers(), [&](int64_t value) { json.signed_number(value); });
  add(array.texts(), [&](std::string_view text) { json.string(json_text(text)); });
  add(array.arrays(), [&](const MetaArray& inner) {
    json.begin_array();
    add_elements(json, inner, most);
    json.end_array();
  });
  return array.size() - shown;
}

// Values that are not text. "bits" keeps what a JSON number cannot: the payload of a NaN.
struct ScalarWriter {
  JsonWriter& json;
  size_t most_elements;  // of a list

  void operator()(const std::string&) const {}
  void operator()(int64_t value) const { typed("int").signed_number(value); }
  void operator()(uint64_t value) const { typed("uint").number(value); }
  void operator()(bool value) const { typed("bool").boolean(value); }
  void operator()(double value) const {
    typed("float").real(value);
    std::byte bits[8];
    for (size_t i = 0; i < 8; ++i) bits[i] = static_cast<std::byte>(std::bit_cast<uint64_t>(value) >> (56 - 8 * i));
    add_text(json, "bits", to_hex(bits));
  }
  void operator()(const MetaArray& value) const {
    add_text(json, "type", "array");
    add_text(json, "element", meta_type_name(value.element()));
    add_number(json, "count", value.size());
    json.key("values").begin_array();
    const uint64_t left_out = add_elements(json, value, most_elements);
    json.end_array();
    if (left_out != 0) add_number(json, "left_out", left_out);
  }

 private:
  JsonWriter& typed(std::string_view type) const {
    add_text(json, "type", type);
    return json.key("value");
  }
};

void add_scalars(JsonWriter& json, const Description& description, size_t most_elements) {
  json.key("scalars").begin_object();
  for (const MetaEntry& entry : description.metadata) {
    if (std::holds_alternative<std::string>(entry.value)) continue;
    json.key(json_text(entry.key)).begin_object();
    std::visit(ScalarWriter{json, most_elements}, entry.value);
    json.end_object();
  }
  json.end_object();
}

void add_model(JsonWriter& json, const Inspection& inspection) {
  const auto model = model_of(inspection);
  if (!model) return;
  const auto add_count = [&](std::string_view key, const std::optional<uint64_t>& count) {
    if (count) add_number(json, key, *count);
  };
  json.key("model").begin_object();
  add_text(json, "name", model->name);
  add_text(json, "architecture", model->architecture);
  add_number(json, "parameters", model->parameters);
  add_count("context", model->context);
  add_count("layers", model->layers);
  add_count("width", model->width);
  add_count("heads", model->heads);
  add_count("kv_heads", model->kv_heads);
  add_count("experts", model->experts);
  add_text(json, "file_type", model->file_type);
  add_text(json, "tokenizer", model->tokenizer);
  add_count("vocabulary", model->vocabulary);
  add_boolean(json, "chat_template", model->has_chat_template);
  add_number(json, "weight_bytes", model->weight_bytes);
  add_count("cache_bytes_per_token", model->cache_bytes_per_token);
  const uint64_t tokens = inspection.context != 0 ? inspection.context : model->context.value_or(0);
  if (const auto memory = running_memory(inspection.archive.description(), *model, tokens)) {
    add_number(json, "cache_bytes", memory->cache);
    add_number(json, "running_bytes", memory->total);
  }
  json.key("types").begin_object();
  for (const TypeShare& share : model->types) add_number(json, dtype_name(share.dtype), share.bytes);
  json.end_object().end_object();
}

bool is_strict_json(std::string_view text) {
  JsonReader reader(text, "config");
  return reader.skip_value() && reader.finish();
}

// The value itself where its text is JSON; Python's NaN and Infinity are not, then it is a string.
void add_config(JsonWriter& json, const Description& description) {
  if (!description.config) {
    add_null(json, "config");
    return;
  }
  const std::string& text = description.config->text;
  if (is_strict_json(text)) json.key("config").raw(text);
  else add_text(json, "config", text);
  add_text(json, "config_schema", description.config->schema);
}

void add_files(JsonWriter& json, const Archive& archive) {
  json.key("files").begin_array();
  for (const auto& source : archive.sources()) json.string(json_text(source->name()));
  json.end_array();
}

void add_stored_form(JsonWriter& json, const StoredExtent& extent) {
  json.key("stored").begin_object();
  add_number(json, "bytes", extent.length);
  add_boolean(json, "deflated", extent.deflated);
  add_boolean(json, "big_endian", extent.big_endian);
  add_boolean(json, "fortran_order", extent.fortran_order);
  add_boolean(json, "strided", extent.view != nullptr);
  json.end_object();
}

void add_tensor(JsonWriter& json, const Inspection& inspection, size_t index) {
  const TensorInfo& tensor = inspection.archive.tensors()[index];
  const StoredExtent& extent = inspection.archive.extent(index);
  json.begin_object();
  add_text(json, "name", tensor.name);
  add_text(json, "dtype", dtype_name(tensor.dtype));
  json.key("shape").numbers(tensor.shape.dims());
  add_number(json, "bytes", tensor.byte_size);
  add_number(json, "offset", extent.offset);
  if (tensor.param_id) add_text(json, "param_id", std::to_string(*tensor.param_id));
  else add_null(json, "param_id");
  add_text(json, "base_id", base_param_id(tensor.name).to_bytes_hex());
  if (tensor.requires_grad) add_boolean(json, "requires_grad", *tensor.requires_grad);
  else add_null(json, "requires_grad");
  if (!tensor.scheme().empty()) add_text(json, "scheme", tensor.scheme());
  if (inspection.archive.sources().size() > 1) add_number(json, "file", extent.source);
  if (!extent.is_canonical()) add_stored_form(json, extent);
  if (inspection.hashed) {
    add_text(json, "sha256", inspection.digests[index].sha256);
    add_text(json, "blake3", to_hex(inspection.digests[index].blake3));
  }
  json.end_object();
}

}  // namespace

std::string inspection_json(const Inspection& inspection) {
  const Archive& archive = inspection.archive;
  const Description& description = archive.description();
  JsonWriter json;
  json.begin_object();
  add_text(json, "path", inspection.path);
  add_text(json, "format", description.format);
  add_text(json, "version", description.version);
  add_text(json, "producer", description.producer);
  add_number(json, "bytes", archive.stored_size());
  add_files(json, archive);
  add_model(json, inspection);
  add_metadata(json, description);
  add_scalars(json, description, inspection.full ? SIZE_MAX : kMostInJson);
  add_config(json, description);
  if (description.origin) add_text(json, "origin", origin_summary(*description.origin));
  if (inspection.hashed) add_text(json, "digest", to_hex(archive_digest(archive.tensors(), inspection.digests)));
  json.key("tensors").begin_array();
  for (const size_t index : inspection.shown) add_tensor(json, inspection, index);
  json.end_array();
  add_tied(json, archive, inspection.tied);
  json.end_object();
  return json.take();
}

}  // namespace ballast::cli
