#include "ballast/archive/model_summary.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "ballast/archive/model_folder.h"
#include "ballast/base/checked.h"
#include "ballast/base/json_object.h"

namespace ballast {

namespace {

// llama.cpp's numbers in `general.file_type`; the gaps were types once.
struct FileTypeName {
  uint64_t number;
  std::string_view name;
};
constexpr std::array kFileTypes = {
    FileTypeName{0, "F32"},      FileTypeName{1, "F16"},     FileTypeName{2, "Q4_0"},    FileTypeName{3, "Q4_1"},
    FileTypeName{7, "Q8_0"},     FileTypeName{8, "Q5_0"},    FileTypeName{9, "Q5_1"},    FileTypeName{10, "Q2_K"},
    FileTypeName{11, "Q3_K_S"},  FileTypeName{12, "Q3_K_M"}, FileTypeName{13, "Q3_K_L"}, FileTypeName{14, "Q4_K_S"},
    FileTypeName{15, "Q4_K_M"},  FileTypeName{16, "Q5_K_S"}, FileTypeName{17, "Q5_K_M"}, FileTypeName{18, "Q6_K"},
    FileTypeName{19, "IQ2_XXS"}, FileTypeName{20, "IQ2_XS"}, FileTypeName{21, "Q2_K_S"}, FileTypeName{22, "IQ3_XS"},
    FileTypeName{23, "IQ3_XXS"}, FileTypeName{24, "IQ1_S"},  FileTypeName{25, "IQ4_NL"}, FileTypeName{26, "IQ3_S"},
    FileTypeName{27, "IQ3_M"},   FileTypeName{28, "IQ2_S"},  FileTypeName{29, "IQ2_M"},  FileTypeName{30, "IQ4_XS"},
    FileTypeName{31, "IQ1_M"},   FileTypeName{32, "BF16"},   FileTypeName{36, "TQ1_0"},  FileTypeName{37, "TQ2_0"},
    FileTypeName{38, "MXFP4"},   FileTypeName{39, "NVFP4"},  FileTypeName{40, "Q1_0"},
};

class SummaryKeys {
 public:
  explicit SummaryKeys(const Description& description) : description_(description) {}

  const MetaValue* find(std::string_view key) const {
    const auto found = std::ranges::find(description_.metadata, key, &MetaEntry::key);
    return found == description_.metadata.end() ? nullptr : &found->value;
  }
  std::string text(std::string_view key) const {
    const MetaValue* value = find(key);
    const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    return text == nullptr ? std::string() : *text;
  }
  // Of a list, its largest element: some models give a number per layer.
  std::optional<uint64_t> count(std::string_view key) const {
    const MetaValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* natural = std::get_if<uint64_t>(value)) return *natural;
    int64_t largest = -1;
    if (const auto* integer = std::get_if<int64_t>(value)) largest = *integer;
    if (const auto* array = std::get_if<MetaArray>(value)) {
      for (const int64_t element : array->integers()) largest = std::max(largest, element);
    }
    return largest < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(largest));
  }

 private:
  const Description& description_;
};

std::string file_type_name(std::optional<uint64_t> number) {
  if (!number) return "";
  const auto found = std::ranges::find(kFileTypes, *number, &FileTypeName::number);
  return found == kFileTypes.end() ? "type " + std::to_string(*number) : std::string(found->name);
}

void add_tensors(const Description& description, ModelSummary& summary) {
  for (const TensorInfo& tensor : description.tensors) {
    auto share = std::ranges::find(summary.types, tensor.dtype, &TypeShare::dtype);
    if (share == summary.types.end()) share = summary.types.insert(share, TypeShare{.dtype = tensor.dtype});
    ++share->tensors;
    share->elements += tensor.shape.element_count().value_or(0);
    share->bytes += tensor.byte_size;
  }
  for (const TypeShare& share : summary.types) {
    summary.parameters += share.elements;
    summary.weight_bytes += share.bytes;
  }
  std::ranges::stable_sort(summary.types, std::greater<>(), &TypeShare::bytes);
}

// Both of one token; a length of its own for keys and for values, else an equal share of the width for each head.
std::optional<uint64_t> cache_bytes(const ModelSummary& summary, std::optional<uint64_t> key_length,
                                    std::optional<uint64_t> value_length) {
  if (!summary.layers || !summary.heads || *summary.heads == 0) return std::nullopt;
  const uint64_t share = summary.width.value_or(0) / *summary.heads;
  const auto channels = checked_add(key_length.value_or(share), value_length.value_or(share));
  const auto of_layer = channels ? checked_mul(*channels, summary.kv_heads.value_or(*summary.heads)) : std::nullopt;
  const auto of_all = of_layer ? checked_mul(*of_layer, *summary.layers) : std::nullopt;
  return of_all ? checked_mul(*of_all, sizeof(float)) : std::nullopt;
}

// ---------------------------------------------------------------- config.json

// What is damaged or of another type says nothing: loading the model says it better.
std::string config_text(const JsonObject& config, std::string_view key) {
  auto text = config.find_text(key);
  return text ? std::move(*text).value_or("") : "";
}

// Of the first of these names that has a whole number.
std::optional<uint64_t> config_count(const JsonObject& config, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto number = config.find_count(name); number && *number) return *number;
  }
  return std::nullopt;
}

std::optional<ModelSummary> summarise_config(const Description& description) {
  if (!description.config || description.config->schema != kHuggingFaceSchema) return std::nullopt;
  const auto outer = JsonObject::parse(description.config->text, "config.json", kConfigRules);
  if (!outer) return std::nullopt;
  ModelSummary summary;
  summary.architecture = config_text(*outer, "model_type");
  if (summary.architecture.empty()) return std::nullopt;
  summary.name = config_text(*outer, "_name_or_path");
  // Models that also see keep what the part that reads needs to itself.
  const auto inner = outer->find_object("text_config");
  const JsonObject& config = inner && *inner ? **inner : *outer;
  summary.context = config_count(config, {"max_position_embeddings", "n_positions"});
  summary.layers = config_count(config, {"num_hidden_layers", "n_layer"});
  summary.width = config_count(config, {"hidden_size", "n_embd"});
  summary.heads = config_count(config, {"num_attention_heads", "n_head"});
  summary.kv_heads = config_count(config, {"num_key_value_heads"});
  summary.experts = config_count(config, {"num_experts", "num_local_experts"});
  summary.vocabulary = config_count(config, {"vocab_size"});
  add_tensors(description, summary);
  return summary;
}

}  // namespace

std::optional<ModelSummary> summarise_model(const Description& description) {
  const SummaryKeys keys(description);
  ModelSummary summary;
  summary.architecture = keys.text("general.architecture");
  if (summary.architecture.empty()) return summarise_config(description);
  const auto own = [&](std::string_view key) { return keys.count(summary.architecture + "." + std::string(key)); };
  summary.name = keys.text("general.name");
  summary.context = own("context_length");
  summary.layers = own("block_count");
  summary.width = own("embedding_length");
  summary.heads = own("attention.head_count");
  summary.kv_heads = own("attention.head_count_kv");
  summary.experts = own("expert_count");
  summary.cache_bytes_per_token = cache_bytes(summary, own("attention.key_length"), own("attention.value_length"));
  summary.file_type = file_type_name(keys.count("general.file_type"));
  summary.tokenizer = keys.text("tokenizer.ggml.model");
  const MetaValue* tokens = keys.find("tokenizer.ggml.tokens");
  if (tokens != nullptr && std::holds_alternative<MetaArray>(*tokens)) {
    summary.vocabulary = std::get<MetaArray>(*tokens).size();
  }
  summary.has_chat_template = !keys.text("tokenizer.chat_template").empty();
  add_tensors(description, summary);
  return summary;
}

}  // namespace ballast
