// config.json of Hugging Face's transformers: a row per model_type, with what holds where the file does not say.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ballast/models/config_schema.h"
#include "ballast/models/decoder_config.h"
#include "ballast/models/hf_rope.h"

namespace ballast {

namespace {

// Which layers see only a window.
enum class WindowRule : uint8_t {
  kNever,
  kEvery,        // layer
  kFromLayer,    // max_window_layers on, if use_sliding_window
  kEveryIfUsed,  // if use_sliding_window
  kEvenBelow,    // even layers below max_window_layers, if use_sliding_window
  kEven,
  kPattern,  // all but every sixth (sliding_window_pattern)
  kNope,     // those without rope, if use_sliding_window
};

enum class BiasRule : uint8_t {
  kNone,
  kByConfig,  // "attention_bias": all four; "mlp_bias": the feed-forward part
  kQkv,
  kQkvByConfig,  // "qkv_bias"
};

struct HfFamily;
using DescribeHf = Result<DecoderDescription> (*)(const HfFamily& family, const ConfigReader& config);
using RefineHf = Status (*)(const ConfigReader& config, DecoderDescription& d);

struct HfFamily {
  std::string_view model_type;
  const DecoderNaming* naming = &kHuggingFaceNaming;
  // Where config.json does not say.
  double eps = 1e-6;
  double theta = 10'000;
  uint64_t kv_heads = 0;  // 0: as many as query heads
  uint64_t head_dim = 0;  // 0: width / heads
  bool tied = false;
  uint64_t window = 0;

  WindowRule window_rule = WindowRule::kNever;
  BiasRule bias = BiasRule::kNone;
  bool qk_norm = false;
  RefineHf refine = nullptr;      // what no other family has
  DescribeHf describe = nullptr;  // instead of describe_like_llama
  HfRopeRules rope{};
};

// ---------------------------------------------------------------- layers

Result<uint64_t> window_of(const HfFamily& family, const ConfigReader& config) {
  const WindowRule rule = family.window_rule;
  const bool needs_switch = rule == WindowRule::kFromLayer || rule == WindowRule::kEveryIfUsed ||
                            rule == WindowRule::kEvenBelow || rule == WindowRule::kNope;
  BALLAST_TRY(const bool used, config.truth_or("use_sliding_window", !needs_switch));
  if (rule == WindowRule::kNever || (needs_switch && !used)) return uint64_t{0};
  if (!config.raw("sliding_window")) return family.window;
  return config.count_or("sliding_window", 0);
}

// Whether layer `i` is one of those with a window, where no list says so.
struct WindowPattern {
  WindowRule rule = WindowRule::kNever;
  uint64_t from = 0;     // max_window_layers
  uint64_t pattern = 0;  // sliding_window_pattern
  uint64_t window = 0;

  static Result<WindowPattern> parse(const HfFamily& family, const ConfigReader& config) {
    WindowPattern p;
    p.rule = family.window_rule;
    BALLAST_TRY(p.window, window_of(family, config));
    BALLAST_TRY(p.from, config.count_or("max_window_layers", 28));
    BALLAST_TRY(const uint64_t saved, config.count_or("_sliding_window_pattern", 6));
    BALLAST_TRY(p.pattern, config.count_or("sliding_window_pattern", saved));
    if (p.pattern == 0) return config.error("sliding_window_pattern", "is 0");
    return p;
  }

  bool is_local(uint64_t layer, const DecoderLayer& made) const {
    switch (rule) {
      case WindowRule::kNever: return false;
      case WindowRule::kEvery:
      case WindowRule::kEveryIfUsed: return window != 0;
      case WindowRule::kFromLayer: return window != 0 && layer >= from;
      case WindowRule::kEvenBelow: return window != 0 && layer % 2 == 0 && layer < from;
      case WindowRule::kEven: return window != 0 && layer % 2 == 0;
      case WindowRule::kPattern: return (layer + 1) % pattern != 0;
      case WindowRule::kNope: return window != 0 && made.rope == DecoderLayer::Rope::kNone;
    }
    return false;
  }
};

// A list with one entry per layer; empty where there is none.
template <typename T>
Status check_per_layer(const ConfigReader& config, std::string_view field, const std::vector<T>& list,
                       uint64_t layers) {
  if (list.empty() || list.size() == layers) return {};
  return config.error(field, fmt::format("has {} entries for {} layers", list.size(), layers));
}

Status set_layers(const HfFamily& family, const ConfigReader& config, uint64_t layers, DecoderDescription& d) {
  BALLAST_TRY(const WindowPattern pattern, WindowPattern::parse(family, config));
  std::vector<std::string> types;
  if (config.has("layer_types")) BALLAST_CHECK(assign(types, config.texts("layer_types")));
  BALLAST_CHECK(check_per_layer(config, "layer_types", types, layers));
  std::vector<uint64_t> with_rope;  // the key says the opposite of what it means
  if (config.has("no_rope_layers")) BALLAST_CHECK(assign(with_rope, config.counts("no_rope_layers")));
  BALLAST_CHECK(check_per_layer(config, "no_rope_layers", with_rope, layers));
  BALLAST_TRY(const uint64_t interval, config.count_or("no_rope_layer_interval", 4));
  const bool has_nope = family.window_rule == WindowRule::kNope;
  if (has_nope && interval == 0) return config.error("no_rope_layer_interval", "is 0");
  d.layers.resize(layers);
  for (uint64_t i = 0; i < layers; ++i) {
    DecoderLayer& layer = d.layers[i];
    const bool is_nope = has_nope && (with_rope.empty() ? (i + 1) % interval == 0 : with_rope[i] == 0);
    if (is_nope) layer.rope = DecoderLayer::Rope::kNone;
    if (!types.empty() && types[i] != "sliding_attention" && types[i] != "full_attention") {
      return config.error("layer_types", fmt::format("says \"{}\" for layer {}: sliding_attention or full_attention "
                                                     "is what there is",
                                                     types[i], i));
    }
    const bool local = types.empty() ? pattern.is_local(i, layer) : types[i] == "sliding_attention";
    if (local) layer.window = pattern.window;
    if (local && !is_nope && family.rope.has_local) layer.rope = DecoderLayer::Rope::kLocal;
  }
  return {};
}

Result<uint64_t> layer_count(const ConfigReader& config, std::string_view field) {
  BALLAST_TRY(const uint64_t layers, config.count(field));
  if (layers != 0 && layers <= kMostDecoderLayers) return layers;
  return config.error(field, fmt::format("is {}: from 1 to {} is what there is", layers, kMostDecoderLayers));
}

// ---------------------------------------------------------------- parts

Status set_heads(const HfFamily& family, const ConfigReader& config, DecoderDescription& d) {
  BALLAST_TRY(d.q_heads, config.count("num_attention_heads"));
  if (d.q_heads == 0) return config.error("num_attention_heads", "is 0");
  const bool is_said = config.raw("num_key_value_heads").has_value();
  const uint64_t otherwise = is_said || family.kv_heads == 0 ? d.q_heads : family.kv_heads;
  BALLAST_TRY(d.kv_heads, config.count_or("num_key_value_heads", otherwise));
  if (d.kv_heads == 0 || d.q_heads % d.kv_heads != 0) {
    return config.error("num_key_value_heads",
                        fmt::format("is {}, which does not divide num_attention_heads {}", d.kv_heads, d.q_heads));
  }
  const uint64_t even = family.head_dim != 0 ? family.head_dim : d.width / d.q_heads;
  BALLAST_TRY(d.head_dim, config.count_or("head_dim", even));
  if (!config.has("head_dim") && family.head_dim == 0 && d.width % d.q_heads != 0) {
    return config.error("num_attention_heads",
                        fmt::format("is {}, which does not divide hidden_size {}", d.q_heads, d.width));
  }
  return {};
}

Status set_biases(const HfFamily& family, const ConfigReader& config, DecoderDescription& d) {
  const auto presence = [](bool is_there) { return is_there ? Presence::kRequired : Presence::kAbsent; };
  switch (family.bias) {
    case BiasRule::kNone: return {};
    case BiasRule::kQkv: d.qkv_bias = Presence::kRequired; return {};
    case BiasRule::kQkvByConfig: {
      BALLAST_TRY(const bool qkv, config.truth_or("qkv_bias", true));
      d.qkv_bias = presence(qkv);
      return {};
    }
    case BiasRule::kByConfig: {
      BALLAST_TRY(const bool attention, config.truth_or("attention_bias", false));
      BALLAST_TRY(const bool feed, config.truth_or("mlp_bias", false));
      d.qkv_bias = d.output_bias = presence(attention);
      d.feed_bias = presence(feed);
      return {};
    }
  }
  return {};
}

Result<DecoderDescription> describe_like_llama(const HfFamily& family, const ConfigReader& config) {
  DecoderDescription d;
  d.family = family.model_type;
  d.naming = family.naming;
  BALLAST_TRY(d.vocab, config.count("vocab_size"));
  BALLAST_TRY(d.width, config.count("hidden_size"));
  BALLAST_TRY(d.hidden, config.count("intermediate_size"));
  BALLAST_TRY(const uint64_t layers, layer_count(config, "num_hidden_layers"));
  BALLAST_CHECK(set_heads(family, config, d));
  BALLAST_TRY(const double eps, config.number_or("rms_norm_eps", family.eps));
  d.eps = static_cast<float>(eps);
  BALLAST_TRY(d.tied, config.truth_or("tie_word_embeddings", family.tied));
  BALLAST_TRY(d.activation, hf_activation(config, "hidden_act", "silu"));
  d.qk_norm = family.qk_norm;
  BALLAST_CHECK(set_biases(family, config, d));
  BALLAST_CHECK(set_layers(family, config, layers, d));
  BALLAST_CHECK(set_hf_rope(family.rope, config, family.theta, d));
  if (family.refine != nullptr) BALLAST_CHECK(family.refine(config, d));
  return d;
}

// ---------------------------------------------------------------- what only some families have

Status refine_gemma(const ConfigReader& config, DecoderDescription& d) {
  d.norm_shift = 1;
  d.post_norms = true;
  d.embedding_scale = std::sqrt(static_cast<float>(d.width));
  // A "hidden_act" beside it loses.
  BALLAST_TRY(d.activation, hf_activation(config, "hidden_activation", "gelu_pytorch_tanh"));
  BALLAST_TRY(const double scalar, config.number_or("query_pre_attn_scalar", 256));
  if (!(scalar > 0)) return config.error("query_pre_attn_scalar", fmt::format("is {}, not above 0", scalar));
  for (DecoderLayer& layer : d.layers) layer.score_scale = static_cast<float>(1 / std::sqrt(scalar));
  BALLAST_TRY(const bool both_ways, config.truth_or("use_bidirectional_attention", false));
  if (both_ways) return config.error("use_bidirectional_attention", "is true: such a model does not write");
  return {};
}

// A cap that is null is none; without a word it is what the family has.
Result<float> cap_of(const ConfigReader& config, std::string_view field, double otherwise) {
  if (config.raw(field)) otherwise = 0;
  BALLAST_TRY(const double cap, config.number_or(field, otherwise));
  return static_cast<float>(cap);
}

Status refine_gemma2(const ConfigReader& config, DecoderDescription& d) {
  BALLAST_TRY(d.soft_cap, cap_of(config, "attn_logit_softcapping", 50));
  BALLAST_TRY(d.logit_cap, cap_of(config, "final_logit_softcapping", 30));
  return refine_gemma(config, d);
}

Status refine_gemma3(const ConfigReader& config, DecoderDescription& d) {
  BALLAST_TRY(d.logit_cap, cap_of(config, "final_logit_softcapping", 0));
  return refine_gemma(config, d);
}

Status refine_phi3(const ConfigReader&, DecoderDescription& d) {
  d.fused_qkv = d.fused_gate_up = Presence::kRequired;
  return {};
}

Status refine_ministral3(const ConfigReader& config, DecoderDescription& d) {
  if (!config.has("rope_parameters")) return {};
  BALLAST_TRY(const ConfigReader rope, config.object("rope_parameters"));
  BALLAST_TRY(d.temperature, rope.number_or("llama_4_scaling_beta", 0));
  BALLAST_TRY(d.temperature_every, rope.count_or("original_max_position_embeddings", d.context));
  return {};
}

Result<uint64_t> expert_count(const ConfigReader& config) {
  return config.has("num_experts") ? config.count("num_experts") : config.count("num_local_experts");
}

Status refine_mixtral(const ConfigReader& config, DecoderDescription& d) {
  BALLAST_TRY(d.experts.count, expert_count(config));
  BALLAST_TRY(d.experts.used, config.count_or("num_experts_per_tok", 2));
  d.experts.hidden = d.hidden;
  d.experts.normalise = true;
  for (DecoderLayer& layer : d.layers) layer.sparse = true;
  return {};
}

Status refine_qwen_moe(const ConfigReader& config, DecoderDescription& d) {
  BALLAST_TRY(d.experts.count, expert_count(config));
  BALLAST_TRY(d.experts.used, config.count("num_experts_per_tok"));
  BALLAST_TRY(d.experts.hidden, config.count("moe_intermediate_size"));
  BALLAST_TRY(d.experts.normalise, config.truth_or("norm_topk_prob", false));
  BALLAST_TRY(const uint64_t step, config.count_or("decoder_sparse_step", 1));
  if (step == 0) return config.error("decoder_sparse_step", "is 0");
  std::vector<uint64_t> dense;
  if (config.has("mlp_only_layers")) BALLAST_CHECK(assign(dense, config.counts("mlp_only_layers")));
  for (uint64_t i = 0; i < d.layers.size(); ++i) {
    d.layers[i].sparse = d.experts.count != 0 && (i + 1) % step == 0 && std::ranges::find(dense, i) == dense.end();
  }
  return {};
}

Status refine_qwen2_moe(const ConfigReader& config, DecoderDescription& d) {
  BALLAST_TRY(d.experts.shared_hidden, config.count("shared_expert_intermediate_size"));
  return refine_qwen_moe(config, d);
}

Result<DecoderDescription> describe_gpt2(const HfFamily& family, const ConfigReader& config) {
  DecoderDescription d;
  d.family = family.model_type;
  d.naming = family.naming;
  d.norm = NormKind::kLayer;
  d.layout = WeightLayout::kInOut;
  d.gated = false;
  d.learned_positions = true;
  d.fused_qkv = d.qkv_bias = d.output_bias = d.feed_bias = Presence::kRequired;
  BALLAST_TRY(d.vocab, config.count("vocab_size"));
  BALLAST_TRY(d.context, config.count("n_positions"));
  BALLAST_TRY(d.width, config.count("n_embd"));
  BALLAST_TRY(d.q_heads, config.count("n_head"));
  if (d.q_heads == 0 || d.width % d.q_heads != 0) {
    return config.error("n_head", fmt::format("is {}, which does not divide n_embd {}", d.q_heads, d.width));
  }
  d.kv_heads = d.q_heads;
  d.head_dim = d.width / d.q_heads;
  if (d.width > UINT64_MAX / 4) return config.error("n_embd", fmt::format("is {}", d.width));
  BALLAST_TRY(d.hidden, config.count_or("n_inner", 4 * d.width));
  BALLAST_TRY(const double eps, config.number_or("layer_norm_epsilon", family.eps));
  d.eps = static_cast<float>(eps);
  BALLAST_TRY(d.activation, hf_activation(config, "activation_function", "gelu_new"));
  BALLAST_TRY(d.tied, config.truth_or("tie_word_embeddings", family.tied));
  BALLAST_TRY(const uint64_t layers, layer_count(config, "n_layer"));
  BALLAST_TRY(const bool scaled, config.truth_or("scale_attn_weights", true));
  BALLAST_TRY(const bool by_layer, config.truth_or("scale_attn_by_inverse_layer_idx", false));
  for (uint64_t i = 0; i < layers; ++i) {
    const double scale =
        (scaled ? 1 / std::sqrt(static_cast<double>(d.head_dim)) : 1) / (by_layer ? static_cast<double>(i + 1) : 1);
    d.layers.push_back({.rope = DecoderLayer::Rope::kNone, .score_scale = static_cast<float>(scale)});
  }
  return d;
}

// ---------------------------------------------------------------- the table

constexpr HfFamily kHfFamilies[] = {
    {.model_type = "llama", .bias = BiasRule::kByConfig},
    {.model_type = "mistral", .kv_heads = 8, .window = 4096, .window_rule = WindowRule::kEvery},
    {.model_type = "ministral", .kv_heads = 8, .window = 4096, .window_rule = WindowRule::kEvery},
    {.model_type = "ministral3",
     .eps = 1e-5,
     .kv_heads = 8,
     .head_dim = 128,
     .window_rule = WindowRule::kEvery,
     .refine = refine_ministral3},
    {.model_type = "smollm3",
     .theta = 2e6,
     .kv_heads = 4,
     .tied = true,
     .window_rule = WindowRule::kNope,
     .bias = BiasRule::kByConfig},
    {.model_type = "qwen2",
     .kv_heads = 32,
     .window = 4096,
     .window_rule = WindowRule::kFromLayer,
     .bias = BiasRule::kQkv},
    {.model_type = "qwen3",
     .kv_heads = 32,
     .head_dim = 128,
     .window = 4096,
     .window_rule = WindowRule::kFromLayer,
     .bias = BiasRule::kByConfig,
     .qk_norm = true},
    {.model_type = "qwen2_moe",
     .kv_heads = 16,
     .window = 4096,
     .window_rule = WindowRule::kEvenBelow,
     .bias = BiasRule::kQkvByConfig,
     .refine = refine_qwen2_moe},
    {.model_type = "qwen3_moe",
     .kv_heads = 4,
     .window = 4096,
     .window_rule = WindowRule::kEveryIfUsed,
     .bias = BiasRule::kByConfig,
     .qk_norm = true,
     .refine = refine_qwen_moe},
    {.model_type = "mixtral",
     .naming = &kMixtralNaming,
     .eps = 1e-5,
     .theta = 1e6,
     .kv_heads = 8,
     .window_rule = WindowRule::kEvery,
     .refine = refine_mixtral},
    {.model_type = "gemma2",
     .naming = &kGemmaNaming,
     .kv_heads = 4,
     .head_dim = 256,
     .tied = true,
     .window = 4096,
     .window_rule = WindowRule::kEven,
     .bias = BiasRule::kByConfig,
     .refine = refine_gemma2},
    {.model_type = "gemma3_text",
     .naming = &kGemmaNaming,
     .theta = 1e6,
     .kv_heads = 4,
     .head_dim = 256,
     .tied = true,
     .window = 4096,
     .window_rule = WindowRule::kPattern,
     .bias = BiasRule::kByConfig,
     .qk_norm = true,
     .refine = refine_gemma3,
     .rope = {.has_local = true}},
    {.model_type = "phi3",
     .eps = 1e-5,
     .window_rule = WindowRule::kEvery,
     .refine = refine_phi3,
     .rope = {.yarn_is_longrope = true, .original_context = 4096}},
    {.model_type = "gpt2", .naming = &kGpt2Naming, .eps = 1e-5, .tied = true, .describe = describe_gpt2},
};

std::string known_families() {
  std::string names;
  for (const HfFamily& family : kHfFamilies) names += (names.empty() ? "" : ", ") + std::string(family.model_type);
  return names;
}

}  // namespace

Result<Activation> hf_activation(const ConfigReader& config, std::string_view field, std::string_view otherwise) {
  BALLAST_TRY(const std::string name, config.text_or(field, std::string(otherwise)));
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGeluErf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  return config.error(field, fmt::format("is \"{}\": silu, gelu, gelu_new, gelu_pytorch_tanh or relu", name));
}

Result<DecoderDescription> describe_huggingface(std::string_view config_json) {
  BALLAST_TRY(const ConfigReader outer, ConfigReader::parse("huggingface", config_json));
  BALLAST_TRY(const std::string type, outer.text("model_type"));
  const auto found = std::ranges::find(kHfFamilies, type, &HfFamily::model_type);
  if (found == std::end(kHfFamilies)) {
    // Models that also see keep what the part that reads needs to itself.
    if (outer.has("text_config")) return describe_huggingface(*outer.raw("text_config"));
    return make_error(ErrorCode::kUnsupported, fmt::format("there is no model_type \"{}\" here; there are: {}", type,
                                                           known_families() + other_architectures()));
  }
  BALLAST_TRY(const ConfigReader config, ConfigReader::parse(type, config_json));
  BALLAST_TRY(DecoderDescription d,
              found->describe != nullptr ? found->describe(*found, config) : describe_like_llama(*found, config));
  BALLAST_CHECK(check_decoder(d));
  return d;
}

}  // namespace ballast
