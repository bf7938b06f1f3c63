#include "ballast/models/config_schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/model_folder.h"
#include "ballast/base/json.h"
#include "ballast/base/utf8.h"
#include "ballast/models/decoder_config.h"

namespace ballast {

namespace {

constexpr std::string_view kGgufSchema = "gguf";

std::string as_it_is(const std::string& text) { return text; }

std::string from_huggingface(const std::string& text) {
  return fmt::format(R"({{"kind": "decoder", "config": {{"huggingface": {}}}}})", text);
}

std::string from_gguf(const std::string& text) {
  return fmt::format(R"({{"kind": "decoder", "config": {{"gguf": {}}}}})", text);
}

constexpr ConfigSchema kSchemas[] = {
    {"gptrs", as_it_is},
    {kHuggingFaceSchema, from_huggingface},
    {kGgufSchema, from_gguf},
};

// What a list says about a model has a number for each layer.
void write_list(JsonWriter& json, const MetaArray& list) {
  json.begin_array();
  if (list.size() <= kMostDecoderLayers) {
    const std::vector<int64_t> integers = list.integers();
    for (const int64_t value : integers) json.signed_number(value);
    if (integers.empty()) {
      for (const double value : list.numbers()) json.real(value);
    }
  }
  json.end_array();
}

struct MetaToJson {
  JsonWriter& json;
  void operator()(const std::string& text) const { json.string(is_valid_utf8(text) ? text : ""); }
  void operator()(int64_t value) const { json.signed_number(value); }
  void operator()(uint64_t value) const { json.number(value); }
  void operator()(double value) const { json.real(value); }
  void operator()(bool value) const { json.boolean(value); }
  void operator()(const MetaArray& list) const { write_list(json, list); }
};

std::string gguf_metadata_json(const Description& file) {
  JsonWriter json;
  json.begin_object();
  for (const MetaEntry& entry : file.metadata) {
    const auto* list = std::get_if<MetaArray>(&entry.value);
    if (entry.key == "tokenizer.ggml.tokens" && list != nullptr) json.key(kGgufTokenCount).number(list->size());
    if (entry.key.starts_with("tokenizer.") || !is_valid_utf8(entry.key)) continue;
    json.key(entry.key);
    std::visit(MetaToJson{json}, entry.value);
  }
  json.end_object();
  return json.take();
}

}  // namespace

const ConfigSchema* find_config_schema(std::string_view name) {
  const auto found = std::ranges::find(kSchemas, name, &ConfigSchema::name);
  return found == std::end(kSchemas) ? nullptr : found;
}

std::optional<ModelConfig> runnable_config(const Description& file) {
  if (file.config && find_config_schema(file.config->schema) != nullptr) return file.config;
  if (file.format == "gguf") return ModelConfig{std::string(kGgufSchema), gguf_metadata_json(file)};
  return std::nullopt;
}

}  // namespace ballast
