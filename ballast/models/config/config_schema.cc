#include "ballast/models/config/config_schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/model_folder.h"
#include "ballast/base/json.h"
#include "ballast/base/utf8.h"
#include "ballast/models/config/decoder_config.h"

namespace ballast {

namespace {

constexpr std::string_view kGgufSchema = "gguf";

// Architectures that are no decoders, as other programs call them, and their kind.
struct ArchitectureKind {
  std::string_view architecture;
  std::string_view kind;
};
constexpr ArchitectureKind kOtherKinds[] = {{"bert", "bert"}};

// What is wrong with the text is for the kind to say.
std::string_view kind_of(const std::string& text, std::string_view field) {
  const auto fields = parse_kind_config("", text);
  if (!fields) return "decoder";
  const auto architecture = fields->text_or(field, "");
  const auto found = architecture ? std::ranges::find(kOtherKinds, *architecture, &ArchitectureKind::architecture)
                                  : std::end(kOtherKinds);
  return found == std::end(kOtherKinds) ? "decoder" : found->kind;
}

ModelDescription describe_foreign(KindConfig::Words words, std::string_view architecture_field, const std::string& text,
                                  const std::optional<std::string>& sentence) {
  ModelDescription model;
  model.kind = kind_of(text, architecture_field);
  model.config = {.text = text, .words = words, .sentence = sentence};
  return model;
}

Result<ModelDescription> describe_own(const std::string& text, const std::optional<std::string>&,
                                      const std::string& where) {
  return parse_model_config(text, where);
}

Result<ModelDescription> describe_config_json(const std::string& text, const std::optional<std::string>& sentence,
                                              const std::string&) {
  return describe_foreign(KindConfig::Words::kHuggingFace, "model_type", text, sentence);
}

Result<ModelDescription> describe_metadata(const std::string& text, const std::optional<std::string>&,
                                           const std::string&) {
  return describe_foreign(KindConfig::Words::kGguf, "general.architecture", text, std::nullopt);
}

struct ConfigSchema {
  std::string_view name;
  Result<ModelDescription> (*describe)(const std::string& text, const std::optional<std::string>& sentence,
                                       const std::string& where);
};
constexpr ConfigSchema kSchemas[] = {
    {"gptrs", describe_own},
    {kHuggingFaceSchema, describe_config_json},
    {kGgufSchema, describe_metadata},
};

const ConfigSchema* find_config_schema(std::string_view name) {
  const auto found = std::ranges::find(kSchemas, name, &ConfigSchema::name);
  return found == std::end(kSchemas) ? nullptr : found;
}

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

Result<ModelDescription> describe_model(const ModelConfig& config, const std::optional<std::string>& sentence,
                                        const std::string& where) {
  if (const ConfigSchema* schema = find_config_schema(config.schema)) {
    return schema->describe(config.text, sentence, where);
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: its config is of {}, which says nothing that can be run", where, config.schema));
}

std::string other_architectures() {
  std::string names;
  for (const ArchitectureKind& other : kOtherKinds) names.append(", ").append(other.architecture);
  return names;
}

std::optional<ModelConfig> runnable_config(const Description& file) {
  if (file.config && find_config_schema(file.config->schema) != nullptr) return file.config;
  if (file.format == "gguf") return ModelConfig{std::string(kGgufSchema), gguf_metadata_json(file)};
  const auto carried = std::ranges::find(file.metadata, kModelConfigKey, &MetaEntry::key);
  if (carried != file.metadata.end() && std::holds_alternative<std::string>(carried->value)) {
    return ModelConfig{"gptrs", std::get<std::string>(carried->value)};
  }
  return std::nullopt;
}

}  // namespace ballast
