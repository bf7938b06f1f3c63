// config.json of transformers' classes: a row per class, with what only it says.
#include "ballast/exchange/folder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/exchange/folder_json.h"
#include "ballast/exchange/folder_rope.h"

namespace ballast {

// Which biases a class can have, and how config.json says so.
enum class FolderBiasRule : uint8_t {
  kNone,
  kAttention,         // "attention_bias": all four or none
  kAttentionAndFeed,  // and "mlp_bias"
  kQkv,               // always those three
  kQkvByConfig,       // "qkv_bias"
  kEvery,             // always
};

// Which layers of a class may have a window.
enum class FolderWindows : uint8_t {
  kNever,
  kAllOrNone,  // "sliding_window" is null or not
  kListed,     // "layer_types"
};

using AddFolderSettings = Status (*)(const DecoderDescription& d, const FolderFacts& facts, FolderJson& json);

struct FolderFamily {
  std::string_view architecture;  // of the GGUF file
  std::string_view model_type;
  std::string_view class_name;
  FolderLayout layout{.naming = &kHuggingFaceNaming, .prefix = "model."};
  FolderBiasRule biases = FolderBiasRule::kNone;
  FolderWindows windows = FolderWindows::kNever;
  bool partial_rope = false;  // "partial_rotary_factor"
  std::string_view rope_kind_key = "rope_type";
  AddFolderSettings add = nullptr;      // what no other class has
  AddFolderSettings instead = nullptr;  // of what all others have
};

namespace {

Error no_setting(const DecoderDescription& d, const FolderFamily& family, std::string_view what) {
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("this {} model has {}, and transformers' {} has no setting for that", d.family, what,
                                family.class_name));
}

// ---------------------------------------------------------------- what most have

void add_common_sizes(const DecoderDescription& d, const FolderFacts& facts, FolderJson& json) {
  json.count("vocab_size", facts.tensors.vocab);
  json.count("hidden_size", d.width);
  json.count("intermediate_size", d.hidden);
  json.count("num_hidden_layers", d.layers.size());
  json.count("num_attention_heads", d.q_heads);
  json.count("num_key_value_heads", d.kv_heads);
  json.count("head_dim", d.head_dim);
  json.count("max_position_embeddings", d.context);
  json.real("rms_norm_eps", static_cast<double>(d.eps));
  json.flag("tie_word_embeddings", facts.tensors.tied);
  json.real("attention_dropout", 0);
  json.real("initializer_range", 0.02);
  json.flag("use_cache", true);
}

Status add_biases(const FolderFamily& family, const DecoderDescription& d, const FolderBiases& biases,
                  FolderJson& json) {
  using enum FolderBiasRule;
  const FolderBiasRule rule = family.biases;
  const bool attention = rule == kAttention || rule == kAttentionAndFeed;
  const bool wants_qkv = rule == kQkv || rule == kEvery;
  if (biases.qkv && rule == kNone) return no_setting(d, family, "biases of queries, keys and values");
  if (!biases.qkv && wants_qkv) return no_setting(d, family, "no biases of queries, keys and values");
  if (attention && biases.qkv != biases.output) {
    return no_setting(d, family, "biases of queries, keys and values or of the output projection, but not of both");
  }
  if (!attention && biases.output != (rule == kEvery)) {
    return no_setting(d, family,
                      biases.output ? "a bias of the output projection" : "no bias of the output projection");
  }
  if (biases.feed && rule != kAttentionAndFeed && rule != kEvery) {
    return no_setting(d, family, "biases of the feed-forward part");
  }
  if (attention) json.flag("attention_bias", biases.qkv);
  if (rule == kAttentionAndFeed) json.flag("mlp_bias", biases.feed);
  if (rule == kQkvByConfig) json.flag("qkv_bias", biases.qkv);
  return {};
}

Status add_windows(const FolderFamily& family, const DecoderDescription& d, FolderJson& json) {
  using enum FolderWindows;
  uint64_t window = 0;
  size_t local = 0;
  for (const DecoderLayer& layer : d.layers) {
    window = std::max(window, layer.window);
    local += layer.window != 0;
  }
  if (family.windows == kNever) return local == 0 ? Status{} : no_setting(d, family, "layers with a sliding window");
  if (family.windows == kAllOrNone && local != 0 && local != d.layers.size()) {
    return no_setting(d, family, "a sliding window in some layers only");
  }
  if (window != 0) json.count("sliding_window", window);
  else if (family.windows == kAllOrNone) json.null("sliding_window");
  if (family.windows != kListed) return {};
  json.writer().key("layer_types").begin_array();
  for (const DecoderLayer& layer : d.layers) {
    json.writer().string(layer.window != 0 ? "sliding_attention" : "full_attention");
  }
  json.writer().end_array();
  return {};
}

Status add_rope(const FolderFamily& family, const DecoderDescription& d, const Archive& archive, FolderJson& json) {
  if (d.rope.rotary_dim != d.head_dim) {
    if (!family.partial_rope) {
      return no_setting(d, family, fmt::format("{} of {} channels that turn", d.rope.rotary_dim, d.head_dim));
    }
    json.real("partial_rotary_factor", static_cast<double>(d.rope.rotary_dim) / static_cast<double>(d.head_dim));
  }
  BALLAST_TRY(const ops::RopeScaling scaling, folder_rope_scaling(d, archive));
  json.real("rope_theta", d.rope.theta);
  if (family.rope_kind_key == "type") json.count("original_max_position_embeddings", scaling.original_context);
  if (scaling.kind == ops::RopeScaling::Kind::kNone) {
    json.null("rope_scaling");
    return {};
  }
  json.begin("rope_scaling");
  add_rope_scaling(scaling, d.context, family.rope_kind_key, json);
  json.end();
  return {};
}

void add_tokens(const FolderFacts& facts, FolderJson& json) {
  json.token("bos_token_id", facts.marks.begin);
  json.token("eos_token_id", facts.marks.end);
  json.token("pad_token_id", facts.marks.padding);
}

// ---------------------------------------------------------------- what only some have

Status add_silu(const DecoderDescription&, const FolderFacts&, FolderJson& json) {
  json.text("hidden_act", "silu");
  return {};
}

// Whole wherever it is: transformers 5 takes nothing else.
void add_score_scale(const DecoderDescription& d, FolderJson& json) {
  constexpr std::string_view kKey = "query_pre_attn_scalar";
  const auto scale = static_cast<double>(d.layers.front().score_scale);
  const double scalar = scale > 0 ? 1 / (scale * scale) : static_cast<double>(d.head_dim);
  if (std::abs(scalar - std::round(scalar)) < 1e-3) json.count(kKey, static_cast<uint64_t>(std::round(scalar)));
  else json.real(kKey, scalar);
}

Status add_gemma(const DecoderDescription& d, const FolderFacts&, FolderJson& json) {
  json.text("hidden_activation", "gelu_pytorch_tanh");
  add_score_scale(d, json);
  const auto cap = [&](std::string_view key, float value) {
    if (value != 0) json.real(key, static_cast<double>(value));
    else json.null(key);
  };
  cap("attn_logit_softcapping", d.soft_cap);
  cap("final_logit_softcapping", d.logit_cap);
  return {};
}

Status add_gemma3(const DecoderDescription& d, const FolderFacts& facts, FolderJson& json) {
  json.real("rope_local_base_freq", d.local_rope.theta);
  return add_gemma(d, facts, json);
}

Status add_mixtral(const DecoderDescription& d, const FolderFacts& facts, FolderJson& json) {
  json.count("num_local_experts", d.experts.count);
  json.count("num_experts_per_tok", d.experts.used);
  return add_silu(d, facts, json);
}

Status add_qwen_moe(const DecoderDescription& d, const FolderFacts& facts, FolderJson& json) {
  json.count("num_experts", d.experts.count);
  json.count("num_experts_per_tok", d.experts.used);
  json.count("moe_intermediate_size", d.experts.hidden);
  if (d.experts.shared_hidden != 0) json.count("shared_expert_intermediate_size", d.experts.shared_hidden);
  json.flag("norm_topk_prob", d.experts.normalise);
  json.count("decoder_sparse_step", 1);
  json.flag("use_sliding_window", false);
  return add_silu(d, facts, json);
}

Status add_qwen(const DecoderDescription& d, const FolderFacts& facts, FolderJson& json) {
  json.flag("use_sliding_window", false);
  return add_silu(d, facts, json);
}

// The list says the opposite of its name: 1 where a layer has rope.
Status add_smollm3(const DecoderDescription& d, const FolderFacts& facts, FolderJson& json) {
  json.count("no_rope_layer_interval", 4);
  json.writer().key("no_rope_layers").begin_array();
  for (const DecoderLayer& layer : d.layers) json.writer().number(layer.rope == DecoderLayer::Rope::kNone ? 0 : 1);
  json.writer().end_array();
  json.flag("use_sliding_window", false);
  return add_silu(d, facts, json);
}

// This class came with the newer spelling of rope, and reads two settings there that are not about rope.
Status add_ministral3(const DecoderDescription& d, const FolderFacts& facts, FolderJson& json) {
  const ops::RopeScaling& scaling = d.rope.scaling;
  json.begin("rope_parameters");
  json.real("rope_theta", d.rope.theta);
  json.real("llama_4_scaling_beta", d.temperature);
  if (scaling.kind == ops::RopeScaling::Kind::kNone) json.text("rope_type", "default");
  if (scaling.kind != ops::RopeScaling::Kind::kYarn) {
    json.count("original_max_position_embeddings", d.temperature_every);
  }
  add_rope_scaling(scaling, d.context, "rope_type", json);
  json.end();
  return add_silu(d, facts, json);
}

Status write_gpt2_config(const DecoderDescription& d, const FolderFacts& facts, FolderJson& json) {
  json.count("vocab_size", facts.tensors.vocab);
  json.count("n_positions", d.context);
  json.count("n_embd", d.width);
  json.count("n_layer", d.layers.size());
  json.count("n_head", d.q_heads);
  json.count("n_inner", d.hidden);
  json.text("activation_function", "gelu_new");
  json.real("layer_norm_epsilon", static_cast<double>(d.eps));
  json.flag("scale_attn_weights", true);
  json.flag("tie_word_embeddings", facts.tensors.tied);
  json.flag("use_cache", true);
  return {};
}

// ---------------------------------------------------------------- the table

constexpr FolderLayout kMixtralLayout{.naming = &kMixtralNaming, .prefix = "model."};
constexpr FolderLayout kGemmaLayout{.naming = &kGemmaNaming, .prefix = "model.", .less_one = true};
constexpr FolderLayout kPhi3Layout{.naming = &kHuggingFaceNaming, .prefix = "model.", .fused_qkv = true};
constexpr FolderLayout kGpt2Layout{
    .naming = &kGpt2Naming, .prefix = "transformer.", .fused_qkv = true, .transposed = true};

constexpr FolderFamily kFolderFamilies[] = {
    {.architecture = "llama",
     .model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .biases = FolderBiasRule::kAttentionAndFeed,
     .add = add_silu},
    {.architecture = "llama",
     .model_type = "mistral",
     .class_name = "MistralForCausalLM",
     .windows = FolderWindows::kAllOrNone,
     .add = add_silu},
    {.architecture = "llama",
     .model_type = "ministral",
     .class_name = "MinistralForCausalLM",
     .windows = FolderWindows::kListed,
     .add = add_silu},
    {.architecture = "llama",
     .model_type = "mixtral",
     .class_name = "MixtralForCausalLM",
     .layout = kMixtralLayout,
     .windows = FolderWindows::kAllOrNone,
     .add = add_mixtral},
    {.architecture = "mistral3",
     .model_type = "ministral3",
     .class_name = "Ministral3ForCausalLM",
     .windows = FolderWindows::kAllOrNone,
     .rope_kind_key = "",
     .add = add_ministral3},
    {.architecture = "smollm3",
     .model_type = "smollm3",
     .class_name = "SmolLM3ForCausalLM",
     .biases = FolderBiasRule::kAttentionAndFeed,
     .add = add_smollm3},
    {.architecture = "qwen2",
     .model_type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .biases = FolderBiasRule::kQkv,
     .add = add_qwen},
    {.architecture = "qwen3",
     .model_type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .biases = FolderBiasRule::kAttention,
     .add = add_qwen},
    {.architecture = "qwen2moe",
     .model_type = "qwen2_moe",
     .class_name = "Qwen2MoeForCausalLM",
     .biases = FolderBiasRule::kQkvByConfig,
     .add = add_qwen_moe},
    {.architecture = "qwen3moe",
     .model_type = "qwen3_moe",
     .class_name = "Qwen3MoeForCausalLM",
     .biases = FolderBiasRule::kAttention,
     .add = add_qwen_moe},
    {.architecture = "gemma2",
     .model_type = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .layout = kGemmaLayout,
     .biases = FolderBiasRule::kAttention,
     .windows = FolderWindows::kListed,
     .add = add_gemma},
    {.architecture = "gemma3",
     .model_type = "gemma3_text",
     .class_name = "Gemma3ForCausalLM",
     .layout = kGemmaLayout,
     .biases = FolderBiasRule::kAttention,
     .windows = FolderWindows::kListed,
     .add = add_gemma3},
    {.architecture = "phi3",
     .model_type = "phi3",
     .class_name = "Phi3ForCausalLM",
     .layout = kPhi3Layout,
     .windows = FolderWindows::kAllOrNone,
     .partial_rope = true,
     .rope_kind_key = "type",
     .add = add_silu},
    {.architecture = "gpt2",
     .model_type = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .layout = kGpt2Layout,
     .biases = FolderBiasRule::kEvery,
     .instead = write_gpt2_config},
};

// Files of several families say "llama"; what they compute tells them apart.
std::string_view model_type_of_llama(const DecoderDescription& d) {
  if (d.experts.count != 0) return "mixtral";
  const auto local = std::ranges::count_if(d.layers, [](const DecoderLayer& layer) { return layer.window != 0; });
  if (local == 0) return "llama";
  return local == std::ssize(d.layers) ? "mistral" : "ministral";
}

}  // namespace

Result<const FolderFamily*> find_folder_family(const DecoderDescription& d) {
  const std::string_view wanted = d.family == "llama" ? model_type_of_llama(d) : "";
  for (const FolderFamily& family : kFolderFamilies) {
    if (family.architecture == d.family && (wanted.empty() || family.model_type == wanted)) return &family;
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("there is no class of transformers here for architecture \"{}\"", d.family));
}

FolderLayout folder_layout(const FolderFamily& family) { return family.layout; }

Result<std::string> folder_config(const FolderFamily& family, const DecoderDescription& d, const FolderFacts& facts,
                                  const Archive& archive) {
  FolderJson json;
  json.writer().key("architectures").begin_array().string(family.class_name).end_array();
  json.text("model_type", family.model_type);
  json.text("torch_dtype", torch_type_name(facts.dtype));
  if (family.instead != nullptr) {
    BALLAST_CHECK(family.instead(d, facts, json));
    FolderJson unsaid;  // a class with every bias has no words for them
    BALLAST_CHECK(add_biases(family, d, facts.tensors.biases, unsaid));
  } else {
    add_common_sizes(d, facts, json);
    BALLAST_CHECK(add_biases(family, d, facts.tensors.biases, json));
    BALLAST_CHECK(add_windows(family, d, json));
    if (!family.rope_kind_key.empty()) BALLAST_CHECK(add_rope(family, d, archive, json));
    BALLAST_CHECK(family.add(d, facts, json));
  }
  add_tokens(facts, json);
  return json.take();
}

std::string folder_bert_config(const BertDescription& d, const FolderFacts& facts) {
  FolderJson json;
  json.writer().key("architectures").begin_array().string("BertModel").end_array();
  json.text("model_type", "bert");
  json.text("torch_dtype", torch_type_name(facts.dtype));
  json.count("vocab_size", facts.tensors.vocab);
  json.count("hidden_size", d.width);
  json.count("intermediate_size", d.hidden);
  json.count("num_hidden_layers", d.layers);
  json.count("num_attention_heads", d.heads);
  json.count("max_position_embeddings", d.positions);
  json.count("type_vocab_size", facts.tensors.token_types);
  json.real("layer_norm_eps", static_cast<double>(d.eps));
  json.text("hidden_act", "gelu");
  json.text("position_embedding_type", "absolute");
  json.token("pad_token_id", facts.marks.padding);
  return json.take();
}

}  // namespace ballast
