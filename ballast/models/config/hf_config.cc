// config.json of Hugging Face's transformers: a row per model_type, with what holds where the file does not say.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/decoder_config.h"
#include "ballast/models/config/hf_family.h"
#include "ballast/models/config/hf_parts.h"

namespace ballast {

namespace {

Result<uint64_t> layer_count(const JsonObject& config, std::string_view field, uint64_t otherwise) {
  BALLAST_TRY(const uint64_t layers, config.count_or(field, otherwise));
  if (layers != 0 && layers <= kMostDecoderLayers) return layers;
  return config.error(field, fmt::format("is {}: from 1 to {} is what there is", layers, kMostDecoderLayers));
}

// ---------------------------------------------------------------- parts

Status set_heads(const HfFamily& family, const JsonObject& config, DecoderDescription& d) {
  BALLAST_TRY(d.q_heads, config.count_or("num_attention_heads", family.sizes.heads));
  if (d.q_heads == 0) return config.error("num_attention_heads", "is 0");
  const bool is_said = config.mentions("num_key_value_heads");
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

Status set_biases(const HfFamily& family, const JsonObject& config, DecoderDescription& d) {
  const auto presence = [](bool is_there) { return is_there ? Presence::kRequired : Presence::kAbsent; };
  switch (family.bias) {
    case BiasRule::kNone: return {};
    case BiasRule::kQkv: d.qkv_bias = Presence::kRequired; return {};
    case BiasRule::kQkvByConfig: {
      BALLAST_TRY(const bool qkv, config.truth_or("qkv_bias", true));
      d.qkv_bias = presence(qkv);
      return {};
    }
    case BiasRule::kAttention:
    case BiasRule::kByConfig: {
      BALLAST_TRY(const bool attention, config.truth_or("attention_bias", false));
      d.qkv_bias = d.output_bias = presence(attention);
      if (family.bias == BiasRule::kAttention) return {};
      BALLAST_TRY(const bool feed, config.truth_or("mlp_bias", false));
      d.feed_bias = presence(feed);
      return {};
    }
  }
  return {};
}

Result<DecoderDescription> describe_like_llama(const HfFamily& family, const JsonObject& config) {
  DecoderDescription d;
  d.family = family.model_type;
  d.naming = family.naming;
  BALLAST_TRY(d.vocab, config.count_or("vocab_size", family.sizes.vocab));
  BALLAST_TRY(d.width, config.count_or("hidden_size", family.sizes.width));
  BALLAST_TRY(d.hidden, config.count_or("intermediate_size", family.sizes.hidden));
  BALLAST_TRY(const uint64_t layers, layer_count(config, "num_hidden_layers", family.sizes.layers));
  BALLAST_CHECK(set_heads(family, config, d));
  BALLAST_TRY(const double eps, config.number_or("rms_norm_eps", family.eps));
  d.eps = static_cast<float>(eps);
  BALLAST_TRY(d.tied, config.truth_or("tie_word_embeddings", family.tied));
  BALLAST_TRY(d.activation, hf_activation(config, "hidden_act", "silu"));
  d.qk_norm = family.qk_norm;
  BALLAST_CHECK(set_biases(family, config, d));
  BALLAST_CHECK(set_hf_layers(family, config, layers, d));
  BALLAST_CHECK(set_hf_rope(family.rope, config, {family.theta, family.sizes.context}, d));
  if (family.refine != nullptr) BALLAST_CHECK(family.refine(family, config, d));
  return d;
}

// ---------------------------------------------------------------- what only some families have

Status refine_gemma(const HfFamily&, const JsonObject& config, DecoderDescription& d) {
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
Result<float> cap_of(const JsonObject& config, std::string_view field, double otherwise) {
  if (config.mentions(field)) otherwise = 0;
  BALLAST_TRY(const double cap, config.number_or(field, otherwise));
  return static_cast<float>(cap);
}

Status refine_gemma2(const HfFamily& family, const JsonObject& config, DecoderDescription& d) {
  BALLAST_TRY(d.soft_cap, cap_of(config, "attn_logit_softcapping", 50));
  BALLAST_TRY(d.logit_cap, cap_of(config, "final_logit_softcapping", 30));
  return refine_gemma(family, config, d);
}

Status refine_gemma3(const HfFamily& family, const JsonObject& config, DecoderDescription& d) {
  BALLAST_TRY(d.logit_cap, cap_of(config, "final_logit_softcapping", 0));
  return refine_gemma(family, config, d);
}

Status refine_phi3(const HfFamily&, const JsonObject&, DecoderDescription& d) {
  d.fused_qkv = d.fused_gate_up = Presence::kRequired;
  return {};
}

Status refine_ministral3(const HfFamily& family, const JsonObject& config, DecoderDescription& d) {
  BALLAST_TRY(const JsonObject rope, hf_rope_settings(family.rope, config));
  BALLAST_TRY(const double temperature, rope.number_or("llama_4_scaling_beta", 0));
  d.temperature = static_cast<double>(static_cast<float>(temperature));  // as transformers computes with it
  BALLAST_TRY(d.temperature_every, rope.count_or("original_max_position_embeddings", d.context));
  return {};
}

// Either key, in files of either family.
Result<uint64_t> expert_count(const JsonObject& config, uint64_t otherwise) {
  return config.has("num_experts") ? config.count("num_experts") : config.count_or("num_local_experts", otherwise);
}

Status refine_mixtral(const HfFamily&, const JsonObject& config, DecoderDescription& d) {
  BALLAST_TRY(d.experts.count, expert_count(config, 8));
  BALLAST_TRY(d.experts.used, config.count_or("num_experts_per_tok", 2));
  d.experts.hidden = d.hidden;
  d.experts.normalise = true;
  for (DecoderLayer& layer : d.layers) layer.sparse = true;
  return {};
}

// `unsaid`: how many experts there are, are used, and their width.
Status set_qwen_experts(const JsonObject& config, const DecoderExperts& unsaid, DecoderDescription& d) {
  BALLAST_TRY(d.experts.count, expert_count(config, unsaid.count));
  BALLAST_TRY(d.experts.used, config.count_or("num_experts_per_tok", unsaid.used));
  BALLAST_TRY(d.experts.hidden, config.count_or("moe_intermediate_size", unsaid.hidden));
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

Status refine_qwen3_moe(const HfFamily&, const JsonObject& config, DecoderDescription& d) {
  return set_qwen_experts(config, {.count = 128, .used = 8, .hidden = 768}, d);
}

Status refine_qwen2_moe(const HfFamily&, const JsonObject& config, DecoderDescription& d) {
  BALLAST_TRY(d.experts.shared_hidden, config.count_or("shared_expert_intermediate_size", 5632));
  return set_qwen_experts(config, {.count = 60, .used = 4, .hidden = 1408}, d);
}

// GPT-2's own name for a size, or the one that all families have.
Result<uint64_t> gpt2_size(const JsonObject& config, std::string_view own, std::string_view common,
                           uint64_t otherwise) {
  return config.has(own) ? config.count(own) : config.count_or(common, otherwise);
}

Result<DecoderDescription> describe_gpt2(const HfFamily& family, const JsonObject& config) {
  DecoderDescription d;
  d.family = family.model_type;
  d.naming = family.naming;
  d.norm = NormKind::kLayer;
  d.layout = WeightLayout::kInOut;
  d.gated = false;
  d.learned_positions = true;
  d.fused_qkv = d.qkv_bias = d.output_bias = d.feed_bias = Presence::kRequired;
  BALLAST_TRY(d.vocab, config.count_or("vocab_size", family.sizes.vocab));
  BALLAST_TRY(d.context, gpt2_size(config, "n_positions", "max_position_embeddings", family.sizes.context));
  BALLAST_TRY(d.width, gpt2_size(config, "n_embd", "hidden_size", family.sizes.width));
  BALLAST_TRY(d.q_heads, gpt2_size(config, "n_head", "num_attention_heads", family.sizes.heads));
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
  const std::string_view layers_field = config.has("n_layer") ? "n_layer" : "num_hidden_layers";
  BALLAST_TRY(const uint64_t layers, layer_count(config, layers_field, family.sizes.layers));
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

constexpr std::string_view kMinistral3Rope = R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
    "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
    "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1})";

constexpr HfFamily kHfFamilies[] = {
    {.model_type = "llama", .sizes = {32'000, 4096, 11'008, 32, 32, 2048}, .bias = BiasRule::kByConfig},
    {.model_type = "mistral",
     .sizes = {32'000, 4096, 14'336, 32, 32, 131'072},
     .kv_heads = 8,
     .window = 4096,
     .window_rule = WindowRule::kEvery,
     .lists_layers = true},
    {.model_type = "ministral",
     .sizes = {32'000, 4096, 14'336, 32, 32, 131'072},
     .kv_heads = 8,
     .window = 4096,
     .window_rule = WindowRule::kEvery,
     .lists_layers = true},
    {.model_type = "ministral3",
     .sizes = {131'072, 4096, 14'336, 34, 32, 262'144},
     .eps = 1e-5,
     .kv_heads = 8,
     .head_dim = 128,
     .window_rule = WindowRule::kEvery,
     .refine = refine_ministral3,
     .rope = {.unsaid = kMinistral3Rope}},
    {.model_type = "smollm3",
     .sizes = {128'256, 2048, 11'008, 36, 16, 32'768},
     .theta = 2e6,
     .kv_heads = 4,
     .tied = true,
     .window_rule = WindowRule::kNope,
     .lists_layers = true,
     .bias = BiasRule::kByConfig},
    {.model_type = "qwen2",
     .sizes = {151'936, 4096, 22'016, 32, 32, 32'768},
     .kv_heads = 32,
     .window = 4096,
     .window_rule = WindowRule::kFromLayer,
     .lists_layers = true,
     .bias = BiasRule::kQkv},
    {.model_type = "qwen3",
     .sizes = {151'936, 4096, 22'016, 32, 32, 32'768},
     .kv_heads = 32,
     .head_dim = 128,
     .window = 4096,
     .window_rule = WindowRule::kFromLayer,
     .lists_layers = true,
     .bias = BiasRule::kAttention,
     .qk_norm = true},
    {.model_type = "qwen2_moe",
     .sizes = {151'936, 2048, 5632, 24, 16, 32'768},
     .kv_heads = 16,
     .window = 4096,
     .window_rule = WindowRule::kEvenBelow,
     .lists_layers = true,
     .bias = BiasRule::kQkvByConfig,
     .refine = refine_qwen2_moe},
    {.model_type = "qwen3_moe",
     .sizes = {151'936, 2048, 6144, 24, 32, 32'768},
     .kv_heads = 4,
     .window = 4096,
     .window_rule = WindowRule::kEveryIfUsed,
     .bias = BiasRule::kAttention,
     .qk_norm = true,
     .refine = refine_qwen3_moe},
    {.model_type = "mixtral",
     .naming = &kMixtralNaming,
     .sizes = {32'000, 4096, 14'336, 32, 32, 131'072},
     .eps = 1e-5,
     .theta = 1e6,
     .kv_heads = 8,
     .window_rule = WindowRule::kEvery,
     .refine = refine_mixtral},
    {.model_type = "gemma2",
     .naming = &kGemmaNaming,
     .sizes = {256'000, 2304, 9216, 26, 8, 8192},
     .kv_heads = 4,
     .head_dim = 256,
     .tied = true,
     .window = 4096,
     .window_rule = WindowRule::kEven,
     .lists_layers = true,
     .bias = BiasRule::kAttention,
     .refine = refine_gemma2},
    {.model_type = "gemma3_text",
     .naming = &kGemmaNaming,
     .sizes = {262'208, 2304, 9216, 26, 8, 131'072},
     .theta = 1e6,
     .kv_heads = 4,
     .head_dim = 256,
     .tied = true,
     .window = 4096,
     .window_rule = WindowRule::kPattern,
     .lists_layers = true,
     .bias = BiasRule::kAttention,
     .qk_norm = true,
     .refine = refine_gemma3,
     .rope = {.has_local = true}},
    {.model_type = "phi3",
     .sizes = {32'064, 3072, 8192, 32, 32, 4096},
     .eps = 1e-5,
     .window_rule = WindowRule::kEvery,
     .refine = refine_phi3,
     .rope = {.is_partial = true, .yarn_is_longrope = true, .original_context = 4096}},
    {.model_type = "gpt2",
     .naming = &kGpt2Naming,
     .sizes = {50'257, 768, 0, 12, 12, 1024},
     .eps = 1e-5,
     .tied = true,
     .describe = describe_gpt2},
};

// Models that also see: what the part that reads needs is in "text_config".
struct HfWrapper {
  std::string_view model_type;
  std::string_view inner;  // its model_type where it does not say
  bool tied;               // where the file does not say
};
constexpr HfWrapper kHfWrappers[] = {
    {"gemma3", "gemma3_text", true}, {"mistral3", "mistral", true}, {"llava", "llama", false},
    {"llava_next", "llama", false},  {"internvl", "qwen2", true},
};

std::string known_families() {
  std::string names;
  for (const HfFamily& family : kHfFamilies) names += (names.empty() ? "" : ", ") + std::string(family.model_type);
  for (const HfWrapper& wrapper : kHfWrappers) names.append(", ").append(wrapper.model_type);
  return names;
}

Result<DecoderDescription> describe_family(const std::string& type, std::string_view config_json) {
  BALLAST_TRY(const JsonObject config, parse_kind_config(type, config_json));
  const auto found = std::ranges::find(kHfFamilies, type, &HfFamily::model_type);
  if (found == std::end(kHfFamilies)) {
    return make_error(ErrorCode::kUnsupported, fmt::format("there is no model_type \"{}\" here; there are: {}", type,
                                                           known_families() + other_architectures()));
  }
  BALLAST_CHECK(refuse_hf_switches(config));
  BALLAST_TRY(const bool causal, config.truth_or("is_causal", true));
  if (!causal) return config.error("is_causal", "is false: such a model does not write");
  BALLAST_TRY(DecoderDescription d,
              found->describe != nullptr ? found->describe(*found, config) : describe_like_llama(*found, config));
  BALLAST_CHECK(check_decoder(d));
  return d;
}

// The output matrix belongs to the whole, which says whether it is tied.
Result<DecoderDescription> describe_wrapped(const HfWrapper& wrapper, const JsonObject& outer) {
  BALLAST_CHECK(refuse_hf_switches(outer));
  BALLAST_TRY(const JsonObject inner, outer.object("text_config"));
  BALLAST_TRY(const std::string type, inner.text_or("model_type", std::string(wrapper.inner)));
  BALLAST_TRY(DecoderDescription d, describe_family(type, *outer.find("text_config")));
  BALLAST_TRY(const bool tied, outer.truth_or("tie_word_embeddings", wrapper.tied));
  d.tied = d.tied || tied;
  return d;
}

// The names of llama instead of GPT-2's own, one matrix per projection, and all of them [out, in].
Result<DecoderDescription> describe_gptrs_gpt(std::string_view config_json) {
  BALLAST_TRY(DecoderDescription d, describe_family("gpt2", config_json));
  d.naming = &kGptrsGptNaming;
  d.layout = WeightLayout::kOutIn;
  d.fused_qkv = Presence::kAbsent;
  return d;
}

}  // namespace

Result<DecoderDescription> describe_gptrs(std::string_view kind, std::string_view config_json) {
  BALLAST_TRY(const JsonObject config, parse_kind_config(kind, config_json));
  const std::string text(config.has("text_config") ? *config.find("text_config") : config_json);
  if (kind == "gpt") return describe_gptrs_gpt(text);
  BALLAST_TRY(const JsonObject inner, parse_kind_config(kind, text));
  // gpt.rs's own writer keeps only the keys that it reads: those of a llama.
  return inner.has("model_type") ? describe_huggingface(text) : describe_family("llama", text);
}

Result<DecoderDescription> describe_huggingface(std::string_view config_json) {
  BALLAST_TRY(const JsonObject config, parse_kind_config("huggingface", config_json));
  BALLAST_TRY(const std::string type, config.text("model_type"));
  const auto wrapper = std::ranges::find(kHfWrappers, type, &HfWrapper::model_type);
  return wrapper != std::end(kHfWrappers) ? describe_wrapped(*wrapper, config) : describe_family(type, config_json);
}

}  // namespace ballast
