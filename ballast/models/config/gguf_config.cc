// Metadata of GGUF files: a row per architecture. Where llama.cpp's converter leaves keys out, what its reader assumes
// holds here too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/decoder_config.h"

namespace ballast {

namespace {

// Which layers see only a window, where the file has one.
struct GgufWindows {
  bool are_there = false;    // otherwise the file's window is not for its layers
  uint64_t pattern = 0;      // of so many layers the last sees everything; 0: none does
  uint64_t otherwise = 0;    // where the file has none
  bool rope_of_own = false;  // layers with a window turn by frequencies of their own
};
constexpr GgufWindows kEveryLayer = {.are_there = true};

class GgufFields;
using RefineGguf = Status (*)(const GgufFields& fields, DecoderDescription& d);

struct GgufFamily {
  std::string_view architecture;
  ops::RopeLayout rope = ops::RopeLayout::kHalves;  // the converter reorders rows for pairs
  GgufWindows windows{};
  bool qk_norm = false;
  bool normalise = false;       // the weights of the experts
  RefineGguf refine = nullptr;  // what no other architecture has
};

// Keys under the name of the architecture.
class GgufFields {
 public:
  GgufFields(JsonObject all, std::string architecture) : all_(std::move(all)), architecture_(std::move(architecture)) {}

  const JsonObject& all() const { return all_; }
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view name) const { return all_.has(key(name)); }
  Error error(std::string_view name, std::string_view what) const { return all_.error(key(name), what); }
  Result<double> number_or(std::string_view name, double otherwise) const {
    return all_.number_or(key(name), otherwise);
  }
  Result<std::string> text_or(std::string_view name, std::string otherwise) const {
    return all_.text_or(key(name), std::move(otherwise));
  }
  // One number, or a list with one for each layer, which must all be the same here.
  Result<uint64_t> count(std::string_view name) const {
    const auto raw = all_.find(key(name));
    if (!raw || !raw->starts_with('[')) return all_.count(key(name));
    BALLAST_TRY(const auto each, all_.counts(key(name)));
    const bool same = !each.empty() && std::ranges::count(each, each.front()) == std::ssize(each);
    if (same) return each.front();
    return error(name, "differs between layers, which no model here does");
  }
  Result<uint64_t> count_or(std::string_view name, uint64_t otherwise) const {
    return has(name) ? count(name) : Result<uint64_t>(otherwise);
  }

 private:
  JsonObject all_;
  std::string architecture_;
};

// ---------------------------------------------------------------- what all have

Status set_sizes(const GgufFields& fields, DecoderDescription& d) {
  BALLAST_TRY(const uint64_t layers, fields.count("block_count"));
  if (layers == 0 || layers > kMostDecoderLayers) {
    return fields.error("block_count", fmt::format("is {}: from 1 to {} is what there is", layers, kMostDecoderLayers));
  }
  d.layers.resize(layers);
  BALLAST_TRY(d.context, fields.count("context_length"));
  BALLAST_TRY(d.width, fields.count("embedding_length"));
  BALLAST_TRY(d.hidden, fields.count_or("feed_forward_length", 0));
  BALLAST_TRY(d.q_heads, fields.count("attention.head_count"));
  if (d.q_heads == 0) return fields.error("attention.head_count", "is 0");
  BALLAST_TRY(d.kv_heads, fields.count_or("attention.head_count_kv", d.q_heads));
  if (!fields.has("attention.key_length") && d.width % d.q_heads != 0) {
    return fields.error("attention.head_count",
                        fmt::format("is {}, which does not divide embedding_length {}", d.q_heads, d.width));
  }
  BALLAST_TRY(d.head_dim, fields.count_or("attention.key_length", d.width / d.q_heads));
  BALLAST_TRY(const uint64_t value_length, fields.count_or("attention.value_length", d.head_dim));
  if (value_length == d.head_dim) return {};
  return fields.error("attention.value_length", fmt::format("is {}, not key_length {}", value_length, d.head_dim));
}

Status set_experts(const GgufFamily& family, const GgufFields& fields, DecoderDescription& d) {
  BALLAST_TRY(d.experts.count, fields.count_or("expert_count", 0));
  if (d.experts.count == 0) return {};
  BALLAST_TRY(d.experts.used, fields.count("expert_used_count"));
  BALLAST_TRY(d.experts.hidden, fields.count_or("expert_feed_forward_length", d.hidden));
  BALLAST_TRY(d.experts.shared_hidden, fields.count_or("expert_shared_feed_forward_length", 0));
  d.experts.normalise = family.normalise;
  for (DecoderLayer& layer : d.layers) layer.sparse = true;
  return {};
}

// Layers that see only a window. The pattern is a number, or a list that says it of each layer.
Result<std::vector<uint64_t>> local_layers(const GgufFields& fields, uint64_t layers, uint64_t otherwise) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const auto raw = fields.all().find(fields.key(kKey));
  std::vector<uint64_t> local;
  if (raw && raw->starts_with('[')) {
    BALLAST_TRY(local, fields.all().counts(fields.key(kKey)));
    if (local.size() == layers) return local;
    return fields.error(kKey, fmt::format("has {} entries for {} layers", local.size(), layers));
  }
  BALLAST_TRY(const uint64_t pattern, fields.count_or(kKey, otherwise));
  for (uint64_t i = 0; i < layers; ++i) local.push_back(pattern == 0 || i % pattern + 1 < pattern ? 1 : 0);
  return local;
}

Status set_windows(const GgufWindows& windows, const GgufFields& fields, DecoderDescription& d) {
  if (!windows.are_there) return {};
  BALLAST_TRY(const uint64_t window, fields.count_or("attention.sliding_window", windows.otherwise));
  if (window == 0) return {};
  BALLAST_TRY(const auto local, local_layers(fields, d.layers.size(), windows.pattern));
  for (uint64_t i = 0; i < local.size(); ++i) {
    if (local[i] == 0) continue;
    d.layers[i].window = window;
    if (windows.rope_of_own) d.layers[i].rope = DecoderLayer::Rope::kLocal;
  }
  return {};
}

// ---------------------------------------------------------------- rope

Status set_yarn_of(const GgufFields& fields, ops::RopeScaling& scaling) {
  BALLAST_TRY(scaling.beta_fast, fields.number_or("rope.scaling.yarn_beta_fast", 32));
  BALLAST_TRY(scaling.beta_slow, fields.number_or("rope.scaling.yarn_beta_slow", 1));
  if (fields.has("rope.scaling.yarn_attn_factor")) {
    BALLAST_TRY(scaling.attention_factor, fields.number_or("rope.scaling.yarn_attn_factor", 1));
  }
  BALLAST_TRY(const double multiplier, fields.number_or("rope.scaling.yarn_log_multiplier", 0));
  if (multiplier == 0) return {};
  scaling.mscale = 1;
  scaling.mscale_all_dim = multiplier;
  return {};
}

Result<ops::RopeScaling> scaling_of(const GgufFields& fields, uint64_t context) {
  using Kind = ops::RopeScaling::Kind;
  ops::RopeScaling scaling;
  BALLAST_TRY(const std::string type, fields.text_or("rope.scaling.type", "linear"));
  BALLAST_TRY(const double old_factor, fields.number_or("rope.scale_linear", 1));
  BALLAST_TRY(scaling.factor, fields.number_or("rope.scaling.factor", old_factor));
  if (scaling.factor == 0) scaling.factor = 1;  // as good as not said
  BALLAST_TRY(scaling.original_context, fields.count_or("rope.scaling.original_context_length", context));
  if (type == "none") scaling.factor = 1;
  else if (type == "yarn") scaling.kind = Kind::kYarn;
  else if (type == "linear") scaling.kind = scaling.factor == 1 ? Kind::kNone : Kind::kLinear;
  else if (type != "longrope") {
    return fields.error("rope.scaling.type", fmt::format("is \"{}\": none, linear, yarn or longrope", type));
  }
  if (scaling.kind == Kind::kYarn) BALLAST_CHECK(set_yarn_of(fields, scaling));
  else if (fields.has("rope.scaling.attn_factor")) {
    BALLAST_TRY(scaling.attention_factor, fields.number_or("rope.scaling.attn_factor", 1));
  }
  return scaling;
}

Status set_rope(const GgufFamily& family, const GgufFields& fields, DecoderDescription& d) {
  BALLAST_TRY(d.rope.rotary_dim, fields.count_or("rope.dimension_count", d.head_dim));
  BALLAST_TRY(d.rope.theta, fields.number_or("rope.freq_base", 10'000));
  BALLAST_TRY(d.rope.scaling, scaling_of(fields, d.context));
  d.rope.layout = family.rope;
  d.local_rope = {.rotary_dim = d.rope.rotary_dim, .layout = family.rope};
  return assign(d.local_rope.theta, fields.number_or("rope.freq_base_swa", 10'000));
}

// ---------------------------------------------------------------- what only some have

// The scale of scores is not in the file: the models of 27 billion parameters, which differ, are known by their layers.
Status refine_gemma_file(uint64_t layers_of_27b, const GgufFields& fields, DecoderDescription& d) {
  d.post_norms = true;
  d.activation = Activation::kGeluTanh;
  d.embedding_scale = std::sqrt(static_cast<float>(d.width));
  const bool is_27b = d.layers.size() == layers_of_27b;
  const auto channels = static_cast<double>(is_27b ? d.width / d.q_heads : d.head_dim);
  BALLAST_TRY(const double scale, fields.number_or("attention.scale", 1 / std::sqrt(channels)));
  for (DecoderLayer& layer : d.layers) layer.score_scale = static_cast<float>(scale);
  BALLAST_TRY(const double cap, fields.number_or("final_logit_softcapping", 0));
  d.logit_cap = static_cast<float>(cap);
  return {};
}

Status refine_gemma2_file(const GgufFields& fields, DecoderDescription& d) {
  BALLAST_CHECK(refine_gemma_file(46, fields, d));
  BALLAST_TRY(const double cap, fields.number_or("attn_logit_softcapping", 50));
  BALLAST_TRY(const double last_cap, fields.number_or("final_logit_softcapping", 30));
  d.soft_cap = static_cast<float>(cap);
  d.logit_cap = static_cast<float>(last_cap);
  return {};
}

Status refine_gemma3_file(const GgufFields& fields, DecoderDescription& d) { return refine_gemma_file(62, fields, d); }

// The first files did not say how wide experts are.
Status refine_qwen3moe_file(const GgufFields& fields, DecoderDescription& d) {
  if (d.experts.used == 0 || fields.has("expert_feed_forward_length")) return {};
  d.experts.hidden = d.hidden / d.experts.used;
  return {};
}

Status refine_qwen2moe_file(const GgufFields& fields, DecoderDescription& d) {
  if (!fields.has("expert_shared_feed_forward_length")) d.experts.shared_hidden = d.hidden;
  return refine_qwen3moe_file(fields, d);
}

Status refine_phi3_file(const GgufFields&, DecoderDescription& d) {
  d.fused_gate_up = Presence::kRequired;
  return {};
}

Status refine_smollm3_file(const GgufFields&, DecoderDescription& d) {
  for (uint64_t i = 3; i < d.layers.size(); i += 4) d.layers[i].rope = DecoderLayer::Rope::kNone;
  return {};
}

Status refine_mistral3_file(const GgufFields& fields, DecoderDescription& d) {
  BALLAST_TRY(d.temperature, fields.number_or("attention.temperature_scale", 0));
  d.temperature_every = d.rope.scaling.original_context;
  return {};
}

Status refine_gpt2_file(const GgufFields&, DecoderDescription& d) {
  d.norm = NormKind::kLayer;
  d.gated = false;
  d.learned_positions = true;
  d.activation = Activation::kGeluTanh;
  d.qkv_bias = d.output_bias = d.feed_bias = Presence::kRequired;
  for (DecoderLayer& layer : d.layers) layer.rope = DecoderLayer::Rope::kNone;
  return {};
}

// ---------------------------------------------------------------- the table

constexpr auto kPairs = ops::RopeLayout::kPairs;

constexpr GgufFamily kGgufFamilies[] = {
    {.architecture = "llama", .rope = kPairs, .windows = kEveryLayer, .normalise = true},
    {.architecture = "mistral3",
     .rope = kPairs,
     .windows = kEveryLayer,
     .normalise = true,
     .refine = refine_mistral3_file},
    {.architecture = "smollm3", .rope = kPairs, .refine = refine_smollm3_file},
    {.architecture = "qwen2"},
    {.architecture = "qwen3", .qk_norm = true},
    {.architecture = "qwen2moe", .refine = refine_qwen2moe_file},
    {.architecture = "qwen3moe", .qk_norm = true, .normalise = true, .refine = refine_qwen3moe_file},
    {.architecture = "gemma2",
     .windows = {.are_there = true, .pattern = 2, .otherwise = 4096},
     .refine = refine_gemma2_file},
    {.architecture = "gemma3",
     .windows = {.are_there = true, .pattern = 6, .rope_of_own = true},
     .qk_norm = true,
     .refine = refine_gemma3_file},
    {.architecture = "phi3", .windows = kEveryLayer, .refine = refine_phi3_file},
    {.architecture = "gpt2", .refine = refine_gpt2_file},
};

Result<const GgufFamily*> find_gguf_family(const std::string& architecture) {
  std::string names;
  for (const GgufFamily& family : kGgufFamilies) {
    if (family.architecture == architecture) return &family;
    names += (names.empty() ? "" : ", ") + std::string(family.architecture);
  }
  return make_error(ErrorCode::kUnsupported, fmt::format("there is no architecture \"{}\" here; there are: {}",
                                                         architecture, names + other_architectures()));
}

}  // namespace

Result<DecoderDescription> describe_gguf(std::string_view metadata_json) {
  BALLAST_TRY(const JsonObject outer, parse_kind_config("gguf", metadata_json));
  BALLAST_TRY(const std::string architecture, outer.text("general.architecture"));
  BALLAST_TRY(const GgufFamily* family, find_gguf_family(architecture));
  BALLAST_TRY(JsonObject all, parse_kind_config(architecture, metadata_json));
  const GgufFields fields(std::move(all), architecture);
  DecoderDescription d;
  d.family = architecture;
  d.naming = &kGgufNaming;
  d.tied = true;
  d.qk_norm = family->qk_norm;
  d.fused_qkv = d.qkv_bias = d.output_bias = d.feed_bias = Presence::kIfThere;
  BALLAST_CHECK(set_sizes(fields, d));
  const bool is_rms = fields.has("attention.layer_norm_rms_epsilon");
  BALLAST_TRY(const double eps, fields.all().number(fields.key(is_rms ? "attention.layer_norm_rms_epsilon"
                                                                      : "attention.layer_norm_epsilon")));
  d.eps = static_cast<float>(eps);
  BALLAST_CHECK(set_experts(*family, fields, d));
  BALLAST_CHECK(set_windows(family->windows, fields, d));
  BALLAST_CHECK(set_rope(*family, fields, d));
  if (family->refine != nullptr) BALLAST_CHECK(family->refine(fields, d));
  BALLAST_TRY(d.least_vocab, outer.count_or(kGgufTokenCount, 0));
  BALLAST_CHECK(check_decoder(d));
  return d;
}

}  // namespace ballast
