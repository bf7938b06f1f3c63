// Opening, and what an archive says about itself.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ballast/archive/model_folder.h"
#include "ballast/archive/model_summary.h"
#include "ballast/edit/quantize.h"
#include "ballast/tensor/blocks.h"
#include "ballast/tensor/elements.h"
#include "bindings/wasm/session.h"

namespace ballast::wasm {

namespace {

constexpr uint64_t kExact = uint64_t{1} << 53;  // beyond it JavaScript's numbers round
constexpr size_t kMostElements = 1000;          // of a list in the metadata
constexpr int kMostDepth = 8;                   // of lists in lists

// Integers that JavaScript would round are texts: their type says what they are.
void write_unsigned(JsonWriter& json, uint64_t value) {
  if (value <= kExact) json.number(value);
  else json.string(std::to_string(value));
}

void write_signed(JsonWriter& json, int64_t value) {
  const auto magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  if (magnitude <= kExact) json.signed_number(value);
  else json.string(std::to_string(value));
}

uint64_t write_elements(JsonWriter& json, const MetaArray& array, int depth) {
  const auto shown = static_cast<size_t>(std::min<uint64_t>(array.size(), kMostElements));
  json.begin_array();
  const auto add = [&](const auto& elements, const auto& write) {
    for (size_t i = 0; i < std::min(shown, elements.size()); ++i) write(elements[i]);
  };
  switch (array.element()) {
    case MetaType::kText: add(array.texts(), [&](std::string_view text) { json.string(text); }); break;
    case MetaType::kF32:
    case MetaType::kF64: add(array.numbers(), [&](double value) { json.real(value); }); break;
    case MetaType::kBool: add(array.integers(), [&](int64_t value) { json.boolean(value != 0); }); break;
    case MetaType::kU64:
      add(array.integers(), [&](int64_t value) { write_unsigned(json, static_cast<uint64_t>(value)); });
      break;
    case MetaType::kArray:
      if (depth >= kMostDepth) break;
      add(array.arrays(), [&](const MetaArray& inner) { write_elements(json, inner, depth + 1); });
      break;
    default: add(array.integers(), [&](int64_t value) { write_signed(json, value); });
  }
  json.end_array();
  return array.size() - shown;
}

struct MetaWriter {
  JsonWriter& json;

  void operator()(const std::string& value) const { json.string("string").key("value").string(value); }
  void operator()(int64_t value) const { write_signed(json.string("int").key("value"), value); }
  void operator()(uint64_t value) const { write_unsigned(json.string("uint").key("value"), value); }
  void operator()(double value) const { json.string("float").key("value").real(value); }
  void operator()(bool value) const { json.string("bool").key("value").boolean(value); }
  void operator()(const MetaArray& value) const {
    json.string("array").key("element").string(meta_type_name(value.element()));
    json.key("count").number(value.size()).key("values");
    const uint64_t left_out = write_elements(json, value, 0);
    json.key("leftOut").number(left_out);
  }
};

void write_metadata(JsonWriter& json, const Description& description) {
  json.key("metadata").begin_array();
  for (const MetaEntry& entry : description.metadata) {
    json.begin_object().key("key").string(entry.key).key("value").begin_object().key("type");
    std::visit(MetaWriter{json}, entry.value);
    json.end_object().end_object();
  }
  json.end_array();
}

void write_tensors(JsonWriter& json, const Archive& archive) {
  json.key("tensors").begin_array();
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    const TensorInfo& tensor = archive.tensors()[i];
    const StoredExtent& extent = archive.extent(i);
    const DTypeInfo& type = dtype_info(tensor.dtype);
    json.begin_object().key("name").string(tensor.name).key("dtype").string(type.name);
    json.key("shape").numbers(tensor.shape.dims());
    json.key("elements").number(tensor.shape.element_count().value_or(0));
    json.key("bytes").number(tensor.byte_size).key("offset").number(extent.offset).key("file").number(extent.source);
    json.key("storedBytes").number(extent.length).key("deflated").boolean(extent.deflated);
    json.key("numeric").boolean(is_arithmetic(tensor.dtype));
    if (is_block(tensor.dtype)) {
      json.key("quantised").begin_object().key("blockElements").number(type.block_elements);
      json.key("blockBytes").number(type.block_bytes).end_object();
    }
    if (!tensor.scheme().empty()) json.key("scheme").string(tensor.scheme());
    json.end_object();
  }
  json.end_array();
}

void write_model(JsonWriter& json, const Description& description) {
  json.key("model");
  const auto model = summarise_model(description);
  if (!model) {
    json.null();
    return;
  }
  const auto add = [&](std::string_view key, const std::optional<uint64_t>& count) {
    if (count) json.key(key).number(*count);
  };
  json.begin_object().key("family").string(model->architecture).key("name").string(model->name);
  json.key("parameters").number(model->parameters);
  add("context", model->context);
  add("layers", model->layers);
  add("width", model->width);
  add("heads", model->heads);
  add("kvHeads", model->kv_heads);
  add("experts", model->experts);
  add("vocabulary", model->vocabulary);
  json.key("fileType").string(model->file_type).key("tokenizer").string(model->tokenizer);
  json.key("hasChatTemplate").boolean(model->has_chat_template).key("weightBytes").number(model->weight_bytes);
  add("contextBytesPerToken", model->cache_bytes_per_token);
  json.end_object();
}

// What quantising would make of it, planned by the code that does it.
std::optional<uint64_t> size_at(const Description& description, DType type) {
  QuantizeOptions options;
  options.type = type;
  const auto types = plan_quantized_types(options, description);
  if (!types) return std::nullopt;
  uint64_t bytes = 0;
  for (size_t i = 0; i < description.tensors.size(); ++i) {
    const TensorInfo& tensor = description.tensors[i];
    bytes += (*types)[i] == tensor.dtype ? tensor.byte_size : packed_size(tensor.shape, (*types)[i]).value_or(0);
  }
  return bytes;
}

void write_sizes(JsonWriter& json, const Description& description) {
  constexpr size_t kMostPlanned = 4096;  // planning ten types of more would be felt when a file is opened
  json.key("sizes").begin_array();
  if (description.tensors.size() <= kMostPlanned) {
    for (const DTypeInfo& type : all_dtypes()) {
      const bool is_float = type.dtype == DType::kF32 || type.dtype == DType::kF16 || type.dtype == DType::kBF16;
      if (!is_float && !can_quantize(type.dtype)) continue;
      const auto bytes = size_at(description, type.dtype);
      if (bytes) json.begin_object().key("dtype").string(type.name).key("bytes").number(*bytes).end_object();
    }
  }
  json.end_array();
}

void describe(JsonWriter& json, const Archive& archive) {
  const Description& description = archive.description();
  json.key("format").string(description.format).key("version").string(description.version);
  json.key("producer").string(description.producer).key("bytes").number(archive.stored_size());
  json.key("files").begin_array();
  for (const auto& source : archive.sources()) {
    json.begin_object().key("name").string(source->name()).key("size").number(source->size()).end_object();
  }
  json.end_array();
  write_metadata(json, description);
  json.key("config");
  if (description.config) {
    json.begin_object().key("schema").string(description.config->schema);
    json.key("text").string(description.config->text).end_object();
  } else {
    json.null();
  }
  write_tensors(json, archive);
  write_model(json, description);
  write_sizes(json, description);
}

}  // namespace

// "sources": of the file that stands for the set, then of those beside it. "config": the text of a config.json beside
// the file, where there is one.
Result<bool> open_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_TRY(const std::vector<uint64_t> ids, request.counts("sources"));
  auto opened = std::make_unique<OpenedArchive>();
  for (const uint64_t id : ids) {
    const auto found = session.sources_.find(static_cast<uint32_t>(id));
    if (found == session.sources_.end()) return make_error(ErrorCode::kInvalidArgument, "no such source");
    opened->siblings.add(found->second->name(), found->second);
    if (opened->request.source == nullptr) opened->request = {found->second, found->second->name()};
  }
  if (opened->request.source == nullptr) return make_error(ErrorCode::kInvalidArgument, "there is nothing to open");
  opened->request.siblings = &opened->siblings;
  opened->request.readers = all_readers();
  BALLAST_TRY(Archive archive, open_archive(opened->request, all_readers()));
  BALLAST_TRY(auto config, request.find_text("config"));
  if (config && !archive.description().config && is_huggingface_config(*config)) {
    archive.set_config({std::string(kHuggingFaceSchema), std::move(*config)});
  }
  if (!session.missing().empty()) return false;
  opened->archive = std::move(archive);
  describe(answer.json, *opened->archive);
  answer.json.key("archive").number(session.add_archive(std::move(opened)));
  return true;
}

}  // namespace ballast::wasm
