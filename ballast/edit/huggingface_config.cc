#include "ballast/edit/huggingface_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ballast/base/json.h"
#include "ballast/base/json_object.h"

namespace ballast {

namespace {

// ---------------------------------------------------------------- which setting is which

enum class ValueType : uint8_t {
  kWhole,
  kReal,
  kRatio,    // whole; over there as its product with embed_dim
  kLayers,   // whole; the number of blocks
  kDerived,  // whole; follows from others
};

struct ConfigField {
  std::string_view gptrs;
  std::string_view huggingface;  // empty: not said over there
  ValueType type = ValueType::kWhole;
  std::string_view tensor = {};  // whose dimension tells it
  size_t axis = 0;
  std::string_view otherwise = {};  // where nothing tells it
};

using enum ValueType;

// In the order in which gpt.rs's exporter writes them.
constexpr ConfigField kGptFields[] = {
    {"vocab_size", "vocab_size", kWhole, "tok_embeddings.weight", 0},
    {"context_length", "n_positions", kWhole, "pos_embeddings", 0},
    {"embed_dim", "n_embd", kWhole, "tok_embeddings.weight", 1},
    {"num_layers", "n_layer", kLayers},
    {"num_heads", "n_head"},
    {"mlp_ratio", "n_inner", kRatio, "blocks.0.feed_forward.w_in", 1},
    {"dropout", "resid_pdrop", kReal, {}, 0, "0.0"},
};

constexpr ConfigField kMinistralFields[] = {
    {"vocab_size", "vocab_size", kWhole, "tok_embeddings.weight", 0},
    {"context_length", "max_position_embeddings"},
    {"embed_dim", "hidden_size", kWhole, "tok_embeddings.weight", 1},
    {"num_layers", "num_hidden_layers", kLayers},
    {"num_heads", "num_attention_heads"},
    {"num_kv_heads", "num_key_value_heads", kDerived},
    {"head_dim", "head_dim", kDerived},
    {"kv_head_dim", "", kDerived},
    {"mlp_hidden_dim", "intermediate_size", kWhole, "blocks.0.feed_forward.w_gate", 1},
    {"rms_norm_eps", "rms_norm_eps", kReal},
    {"rope_theta", "rope_theta", kReal},
    {"rotary_dim", "", kDerived},
    {"rope_scaling", "", kDerived},
};

constexpr ConfigField kResnet34Fields[] = {{"num_classes", "", kWhole, "fc.bias", 0}};
constexpr ConfigField kMobilenetV2Fields[] = {{"num_classes", "", kWhole, "classifier.bias", 0}};

std::span<const ConfigField> fields_of(const NamedModel& kind) {
  if (kind.name == "gpt") return kGptFields;
  if (kind.name == "ministral") return kMinistralFields;
  if (kind.name == "resnet34") return kResnet34Fields;
  return kMobilenetV2Fields;
}

Error bad_config(const std::string& where, std::string_view what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", where, what));
}

// Settings of yarn beside the factor, in the order in which gpt.rs's exporter writes them. The same names over there.
constexpr std::string_view kYarnKeys[] = {"original_max_position_embeddings", "mscale", "mscale_all_dim", "beta_fast",
                                          "beta_slow"};

// ---------------------------------------------------------------- gpt.rs -> config.json

// Members of the file in order of their names, as transformers writes them.
using JsonTexts = std::map<std::string, std::string, std::less<>>;

class HuggingFaceWriter {
 public:
  HuggingFaceWriter(const NamedModel& kind, JsonObject values, std::vector<std::string>& notes)
      : kind_(kind), values_(std::move(values)), notes_(notes) {}

  Result<std::string> write(bool tied) {
    for (const ConfigField& field : fields_of(kind_)) BALLAST_CHECK(add(field));
    texts_["tie_word_embeddings"] = tied ? "true" : "false";
    if (kind_.name == "gpt") add_gpt2();
    else BALLAST_CHECK(add_mistral());
    return text();
  }

 private:
  Status add(const ConfigField& field) {
    if (field.huggingface.empty()) return {};
    const std::string key(field.huggingface);
    if (field.type == kReal) {
      BALLAST_TRY(const auto value, values_.find_real(field.gptrs));
      // The raw text, so that no digit changes.
      if (value) texts_[key] = *values_.find(field.gptrs);
      return {};
    }
    BALLAST_TRY(const auto value, values_.find_count(field.gptrs));
    if (!value) return {};
    uint64_t number = *value;
    if (field.type == kRatio) {
      BALLAST_TRY(const auto width, values_.find_count("embed_dim"));
      if (!width || __builtin_mul_overflow(number, *width, &number)) return {};
    }
    texts_[key] = std::to_string(number);
    return {};
  }

  void add_gpt2() {
    texts_["architectures"] = R"(["GPT2LMHeadModel"])";
    texts_["model_type"] = R"("gpt2")";
    texts_["layer_norm_epsilon"] = "1e-05";  // gpt.rs knows no other
    if (const auto gelu = values_.find("gelu")) {
      texts_["activation_function"] = *gelu == R"("tanh")" ? R"("gelu_new")" : R"("gelu")";
      return;
    }
    notes_.push_back(
        "config.json leaves activation_function to transformers (gelu_new, with which GPT-2 was trained); gpt.rs "
        "computes the erf form, which \"activation_function\": \"gelu\" asks for");
  }

  Status add_mistral() {
    texts_["architectures"] = R"(["MistralForCausalLM"])";
    texts_["model_type"] = R"("mistral")";
    texts_["hidden_act"] = R"("silu")";
    texts_["sliding_window"] = "null";
    texts_.try_emplace("head_dim", "null");  // transformers divides, as gpt.rs does
    notes_.push_back(
        "config.json says mistral without a window, which computes what gpt.rs computes; Ministral 3's scaling of "
        "queries (llama_4_scaling_beta) is not in a gpt.rs file");
    BALLAST_TRY(const auto rotary, values_.find_count("rotary_dim"));
    BALLAST_TRY(const auto head, values_.find_count("head_dim"));
    if (rotary && head && *rotary != *head) {
      notes_.push_back(
          fmt::format("gpt.rs rotates {} of {} channels; transformers' mistral rotates all", *rotary, *head));
    }
    return add_rope();
  }

  Status add_rope() {
    texts_["rope_scaling"] = "null";
    BALLAST_TRY(const auto rope, values_.find_object("rope_scaling"));
    if (!rope) return {};
    BALLAST_TRY(const auto kind, rope->find_text("kind"));
    if (!kind) return bad_config(rope->where(), "has no \"kind\"");
    if (*kind == "none") return {};
    JsonTexts members;
    members["rope_type"] = '"' + *kind + '"';
    for (const std::string_view key : {"factor", "truncate"}) copy(*rope, key, members);
    for (const std::string_view key : kYarnKeys) copy(*rope, key, members);
    if (*kind != "linear" && *kind != "yarn") {
      return bad_config(rope->where(), fmt::format("\"{}\" is not a kind that gpt.rs has", *kind));
    }
    rope_ = std::move(members);
    return {};
  }

  static void copy(const JsonObject& from, std::string_view key, JsonTexts& to) {
    if (const auto raw = from.find(key)) to[std::string(key)] = *raw;
  }

  std::string text() const {
    JsonWriter json(/*pretty=*/true);
    json.begin_object();
    for (const auto& [key, raw] : texts_) {
      json.key(key);
      if (key == "rope_scaling" && !rope_.empty()) add_object(json, rope_);
      else json.raw(raw);
    }
    json.end_object();
    return json.take() + '\n';
  }

  static void add_object(JsonWriter& json, const JsonTexts& members) {
    json.begin_object();
    for (const auto& [key, raw] : members) json.key(key).raw(raw);
    json.end_object();
  }

  const NamedModel& kind_;
  JsonObject values_;
  std::vector<std::string>& notes_;
  JsonTexts texts_;
  JsonTexts rope_;
};

// ---------------------------------------------------------------- config.json -> gpt.rs

// A file of several models in one (text and pictures) keeps the language model's settings inside.
Result<JsonObject> parse_language_config(const HuggingFaceConfig& config) {
  if (config.text.empty()) return JsonObject::parse("{}", "no config");
  BALLAST_TRY(JsonObject outer, JsonObject::parse(config.text, config.name));
  BALLAST_TRY(auto inner, outer.find_object("text_config"));
  if (inner) return *std::move(inner);
  return outer;
}

class GptrsWriter {
 public:
  GptrsWriter(const NamedModel& kind, JsonObject config, const FindDimension& dimension, size_t layers, bool name_gelu,
              std::vector<std::string>& notes)
      : kind_(kind),
        config_(std::move(config)),
        dimension_(dimension),
        layers_(layers),
        name_gelu_(name_gelu),
        notes_(notes) {}

  Result<std::string> write() {
    for (const ConfigField& field : fields_of(kind_)) BALLAST_CHECK(find(field));
    if (kind_.name == "gpt") BALLAST_CHECK(check_gpt2());
    if (kind_.name == "ministral") {
      BALLAST_CHECK(check_mistral());
      BALLAST_CHECK(find_heads());
      BALLAST_CHECK(find_rope());
    }
    return text();
  }

 private:
  // ---- from the file or from shapes

  Status find(const ConfigField& field) {
    if (field.type == kDerived) return {};
    if (field.type == kReal) {
      BALLAST_TRY(const auto value, config_.find_real(field.huggingface));
      if (value) texts_[field.gptrs] = python_real(*value);
      return {};
    }
    BALLAST_TRY(const auto said, config_.find_count(field.huggingface));
    std::optional<uint64_t> seen;
    if (field.type == kLayers) seen = layers_;
    else if (!field.tensor.empty()) seen = dimension_(field.tensor, field.axis);
    if (said && seen && *said != *seen) return contradiction(field.huggingface, *said, *seen);
    auto value = said ? said : seen;
    if (value && field.type == kRatio) BALLAST_CHECK(assign(value, ratio_to_width(*value)));
    if (value) texts_[field.gptrs] = std::to_string(*value);
    return {};
  }

  Error contradiction(std::string_view key, uint64_t said, uint64_t seen) const {
    return bad_config(config_.where(), fmt::format("\"{}\" is {}, but the tensors have {}; the config belongs to "
                                                   "another model",
                                                   key, said, seen));
  }

  Result<std::optional<uint64_t>> ratio_to_width(uint64_t inner) const {
    const auto width = dimension_("tok_embeddings.weight", 1);
    if (!width || *width == 0) return std::optional<uint64_t>();
    if (inner % *width == 0) return std::optional(inner / *width);
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("the feed-forward layers are {} wide, which is no multiple of the embedding's {}; a "
                                  "gpt of gpt.rs has whole multiples only",
                                  inner, *width));
  }

  // ---- what gpt.rs computes otherwise

  Status check_gpt2() {
    BALLAST_TRY(const auto scale, config_.find_truth("scale_attn_weights"));
    BALLAST_TRY(const auto by_layer, config_.find_truth("scale_attn_by_inverse_layer_idx"));
    if (!scale.value_or(true) || by_layer.value_or(false)) {
      return make_error(ErrorCode::kUnsupported,
                        config_.where() +
                            ": gpt.rs has no other scaling of attention than by the root of the head's "
                            "size");
    }
    BALLAST_TRY(const auto activation, config_.find_text("activation_function"));
    if (name_gelu_) return find_gelu(activation.value_or("gelu_new"));  // transformers' own default
    if (activation && *activation != "gelu") {
      notes_.push_back(
          fmt::format("gpt.rs computes the erf form of GELU, this model was made with {}; its results "
                      "differ slightly",
                      *activation));
    }
    return {};
  }

  Status find_gelu(const std::string& activation) {
    if (activation == "gelu") return {};
    constexpr std::string_view kTanh[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"};
    if (std::ranges::find(kTanh, activation) == std::end(kTanh)) {
      return make_error(
          ErrorCode::kUnsupported,
          fmt::format("{}: activation_function \"{}\": a gpt computes gelu, gelu_new, gelu_pytorch_tanh or "
                      "gelu_fast",
                      config_.where(), activation));
    }
    gelu_ = "tanh";
    return {};
  }

  Status check_mistral() {
    constexpr std::string_view kSame[] = {"llama", "mistral", "ministral", "ministral3"};
    BALLAST_TRY(const auto type, config_.find_text("model_type"));
    if (type && std::ranges::find(kSame, *type) == std::end(kSame)) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: model_type \"{}\" has the names of a Llama but may compute something else; a "
                                    "ministral of gpt.rs computes what {} do",
                                    config_.where(), *type, fmt::join(kSame, ", ")));
    }
    BALLAST_TRY(const auto activation, config_.find_text("hidden_act"));
    if (activation && *activation != "silu") {
      return make_error(
          ErrorCode::kUnsupported,
          fmt::format("{}: hidden_act \"{}\": a ministral of gpt.rs computes silu", config_.where(), *activation));
    }
    BALLAST_TRY(const auto window, config_.find_count("sliding_window"));
    if (window) {
      notes_.push_back(
          fmt::format("gpt.rs has no window: results differ beyond {} positions (sliding_window)", *window));
    }
    return {};
  }

  // ---- heads: any one of their number and size tells the other

  Status find_heads() {
    const auto queries = dimension_("blocks.0.attention.w_out", 0);
    const auto all = dimension_("blocks.0.attention.w_qkv", 1);
    if (!queries || !all) return {};
    const uint64_t keys = (*all - *queries) / 2;
    BALLAST_TRY(auto heads, config_.find_count("num_attention_heads"));
    BALLAST_TRY(auto size, config_.find_count("head_dim"));
    if (!heads && size && *size != 0) heads = *queries / *size;
    if (heads && !size && *heads != 0) size = *queries / *heads;
    if (!heads || !size || *size == 0) return {};
    if (*heads > *queries || *heads * *size != *queries) {
      return bad_config(config_.where(),
                        fmt::format("{} heads of {} do not make the {} rows of q_proj", *heads, *size, *queries));
    }
    BALLAST_TRY(const auto said, config_.find_count("num_key_value_heads"));
    const uint64_t seen = keys / *size;
    if (keys % *size != 0 || (said && *said != seen)) {
      return bad_config(config_.where(), fmt::format("key and value heads of {} do not make the {} rows of k_proj: "
                                                     "num_key_value_heads or head_dim is wrong",
                                                     *size, keys));
    }
    texts_["num_heads"] = std::to_string(*heads);
    texts_["num_kv_heads"] = std::to_string(seen);
    texts_["head_dim"] = texts_["kv_head_dim"] = std::to_string(*size);
    return find_rotary(*size);
  }

  Status find_rotary(uint64_t head_size) {
    BALLAST_TRY(const auto part, config_.find_real("partial_rotary_factor"));
    const double rotated = static_cast<double>(head_size) * part.value_or(1.0);
    if (!(rotated >= 0) || rotated > static_cast<double>(head_size)) {
      return bad_config(config_.where(), "\"partial_rotary_factor\" is not between 0 and 1");
    }
    texts_["rotary_dim"] = std::to_string(static_cast<uint64_t>(rotated));
    return {};
  }

  // ---- rope: transformers 4 says rope_theta and rope_scaling, transformers 5 one object rope_parameters

  Status find_rope() {
    BALLAST_TRY(auto rope, config_.find_object("rope_parameters"));
    if (!rope) BALLAST_CHECK(assign(rope, config_.find_object("rope_scaling")));
    if (!rope) {
      texts_["rope_scaling"] = R"({"kind":"none"})";
      return {};
    }
    BALLAST_TRY(const auto theta, rope->find_real("rope_theta"));
    if (theta) texts_["rope_theta"] = python_real(*theta);
    BALLAST_TRY(auto type, rope->find_text("rope_type"));
    if (!type) BALLAST_CHECK(assign(type, rope->find_text("type")));
    BALLAST_CHECK(note_query_scaling(*rope));
    const std::string name = type.value_or("default");
    if (name == "default") texts_["rope_scaling"] = R"({"kind":"none"})";
    else if (name == "linear" || name == "yarn") return add_scaling(*rope, name);
    else {
      return make_error(ErrorCode::kUnsupported, fmt::format("{}: gpt.rs has no rope of type \"{}\"; it has default, "
                                                             "linear and yarn",
                                                             rope->where(), name));
    }
    return {};
  }

  Status note_query_scaling(const JsonObject& rope) {
    BALLAST_TRY(const auto beta, rope.find_real("llama_4_scaling_beta"));
    BALLAST_TRY(const auto original, rope.find_count("original_max_position_embeddings"));
    if (beta.value_or(0) == 0) return {};
    notes_.push_back(
        fmt::format("gpt.rs does not scale queries (llama_4_scaling_beta {}): results differ from position "
                    "{} on",
                    *beta, original.value_or(0)));
    return {};
  }

  Status add_scaling(const JsonObject& rope, const std::string& kind) {
    BALLAST_TRY(const auto factor, rope.find_real("factor"));
    if (!factor) return bad_config(rope.where(), "has no \"factor\"");
    JsonWriter json;
    json.begin_object().key("kind").string(kind).key("factor").raw(python_real(*factor));
    if (kind == "yarn") {
      if (rope.find("attention_factor")) {
        return make_error(ErrorCode::kUnsupported, rope.where() + ": gpt.rs has no \"attention_factor\"");
      }
      BALLAST_TRY(const auto original, rope.find_count(kYarnKeys[0]));
      if (original) json.key(kYarnKeys[0]).number(*original);
      for (const std::string_view key : std::span(kYarnKeys).subspan(1)) {
        BALLAST_TRY(const auto value, rope.find_real(key));
        if (value) json.key(key).raw(python_real(*value));
      }
      BALLAST_TRY(const auto truncate, rope.find_truth("truncate"));
      if (truncate) json.key("truncate").boolean(*truncate);
    }
    texts_["rope_scaling"] = json.end_object().take();
    return {};
  }

  // ---- the result

  Result<std::string> text() const {
    JsonWriter json;
    json.begin_object().key("kind").string(kind_.name).key("config").begin_object();
    std::vector<std::string_view> missing;
    for (const ConfigField& field : fields_of(kind_)) {
      const auto found = texts_.find(field.gptrs);
      if (found != texts_.end()) json.key(field.gptrs).raw(found->second);
      else if (!field.otherwise.empty()) json.key(field.gptrs).raw(field.otherwise);
      else if (field.type != kDerived) missing.push_back(field.huggingface);
    }
    if (!gelu_.empty()) json.key("gelu").string(gelu_);
    if (missing.empty()) return json.end_object().end_object().take();
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("the tensors do not tell {}, and {}: give a config.json that has {}", fmt::join(missing, ", "),
                    config_.where() == "no config" ? "there is no config.json"
                                                   : config_.where() + " does "
                                                                       "not either",
                    missing.size() == 1 ? "it" : "them"),
        Remedy::kGiveConfig);
  }

  const NamedModel& kind_;
  JsonObject config_;
  const FindDimension& dimension_;
  size_t layers_;
  bool name_gelu_;
  std::vector<std::string>& notes_;
  std::map<std::string_view, std::string> texts_;  // by gpt.rs's names
  std::string gelu_;
};

}  // namespace

Result<GptrsModelConfig> read_gptrs_model_config(std::string_view text, const std::string& where) {
  BALLAST_TRY(const JsonObject whole, JsonObject::parse(text, where));
  BALLAST_TRY(auto kind, whole.find_text("kind"));
  if (!kind) return GptrsModelConfig{"gpt", text};
  return GptrsModelConfig{*std::move(kind), whole.find("config").value_or("{}")};
}

bool is_gptrs_config(std::string_view text) {
  const auto whole = JsonObject::parse(text, "config");
  return whole && whole->find("kind").has_value();
}

Result<std::string> make_huggingface_config(const NamedModel& kind, const GptrsModelConfig& config, bool tied,
                                            std::vector<std::string>& notes) {
  if (kind.name != "gpt" && kind.name != "ministral") return std::string();
  BALLAST_TRY(JsonObject values, JsonObject::parse(config.values, "the model config"));
  return HuggingFaceWriter(kind, std::move(values), notes).write(tied);
}

Result<std::string> make_gptrs_config(const NamedModel& kind, const HuggingFaceConfig& config,
                                      const FindDimension& dimension, size_t layers, std::vector<std::string>& notes) {
  BALLAST_TRY(JsonObject values, parse_language_config(config));
  return GptrsWriter(kind, std::move(values), dimension, layers, config.name_gelu, notes).write();
}

Result<std::optional<bool>> says_tied(const HuggingFaceConfig& config) {
  if (config.text.empty()) return std::optional<bool>();
  BALLAST_TRY(const JsonObject outer, JsonObject::parse(config.text, config.name));
  BALLAST_TRY(const auto here, outer.find_truth("tie_word_embeddings"));
  if (here) return here;
  BALLAST_TRY(const JsonObject inner, parse_language_config(config));
  return inner.find_truth("tie_word_embeddings");
}

}  // namespace ballast
