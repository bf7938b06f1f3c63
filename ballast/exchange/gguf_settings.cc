// A row per model_type. The order of keys is that of llama.cpp's converter.
#include "ballast/exchange/gguf_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/exchange/gguf_check.h"
#include "ballast/models/config/bert_config.h"
#include "ballast/models/config/decoder_config.h"
#include "ballast/models/kind_config.h"
#include "ballast/ops/rotary.h"

namespace ballast {

void GgufEntries::truths(std::string_view key, const std::vector<bool>& values) {
  ByteVector bytes;
  for (const bool value : values) bytes.push_back(std::byte{value});
  put(own(key), *MetaArray::decode(MetaType::kBool, values.size(), bytes));
}

void GgufEntries::put(std::string key, MetaValue value) {
  const auto found = std::ranges::find(entries_, key, &MetaEntry::key);
  if (found != entries_.end()) found->value = std::move(value);
  else entries_.push_back({std::move(key), std::move(value)});
}

namespace {

using ScalingKind = ops::RopeScaling::Kind;

struct GgufTarget;
using WriteTarget = Status (*)(const GgufTarget& target, const JsonObject& config, const DecoderDescription& d,
                               GgufEntries& entries);

struct GgufTarget {
  std::string_view family;  // model_type
  std::string_view architecture;
  WriteTarget write;
  bool paired = false;       // queries and keys turn in pairs, as in all that grew from llama's class
  bool head_length = false;  // always said, because transformers fills it in
  bool drop_head = false;    // llama.cpp takes the embedding
  bool down_first = false;   // of stacked experts
};

// ---------------------------------------------------------------- parts

Result<JsonObject> rope_settings(const JsonObject& config) {
  for (const std::string_view field : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(field)) continue;
    BALLAST_TRY(JsonObject rope, config.object(field));
    return rope.has("full_attention") ? rope.object("full_attention") : rope;
  }
  return parse_kind_config("rope", "null");
}

Status refuse_scaling(const GgufTarget& target, const DecoderDescription& d) {
  const auto refuse = [&](std::string_view what) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{} of a {} model cannot be said in a GGUF file: llama.cpp has no such thing for the "
                                  "architecture \"{}\". The model runs as it is, and can be copied to safetensors",
                                  what, d.family, target.architecture));
  };
  const ScalingKind kind = d.rope.scaling.kind;
  if (kind == ScalingKind::kDynamic) return refuse("dynamic scaling of rope");
  if (kind == ScalingKind::kLongRope && target.architecture != "phi3") return refuse("longrope");
  if (kind == ScalingKind::kLlama3 && !target.paired) return refuse("llama3's scaling of rope");
  if (kind == ScalingKind::kYarn && !d.rope.scaling.truncate) return refuse("yarn without truncation");
  return {};
}

Status add_rope_scaling(const JsonObject& config, const DecoderDescription& d, GgufEntries& entries) {
  const ops::RopeScaling& scaling = d.rope.scaling;
  if (scaling.kind != ScalingKind::kLinear && scaling.kind != ScalingKind::kYarn) return {};
  entries.text("rope.scaling.type", scaling.kind == ScalingKind::kLinear ? "linear" : "yarn");
  entries.real("rope.scaling.factor", scaling.factor);
  if (scaling.kind == ScalingKind::kLinear) return {};
  BALLAST_TRY(const JsonObject rope, rope_settings(config));
  entries.count("rope.scaling.original_context_length", scaling.original_context);
  if (scaling.attention_factor) entries.real("rope.scaling.yarn_attn_factor", *scaling.attention_factor);
  if (rope.has("beta_fast") || scaling.beta_fast != 32) entries.real("rope.scaling.yarn_beta_fast", scaling.beta_fast);
  if (rope.has("beta_slow") || scaling.beta_slow != 1) entries.real("rope.scaling.yarn_beta_slow", scaling.beta_slow);
  return {};
}

bool has_local_layers(const DecoderDescription& d) {
  return std::ranges::any_of(d.layers, [](const DecoderLayer& layer) { return layer.window != 0; });
}

// Of those that have one.
uint64_t window_of_layers(const DecoderDescription& d) {
  uint64_t window = 0;
  for (const DecoderLayer& layer : d.layers) window = std::max(window, layer.window);
  return window;
}

// Which layers have the window, unless it is what readers assume: of so many layers the last has none; 0: all have it.
void add_window_pattern(const DecoderDescription& d, uint64_t assumed, GgufEntries& entries) {
  std::vector<bool> local;
  bool as_assumed = true;
  for (uint64_t i = 0; i < d.layers.size(); ++i) {
    local.push_back(d.layers[i].window != 0);
    as_assumed = as_assumed && local.back() == (assumed == 0 || i % assumed + 1 < assumed);
  }
  if (!as_assumed) entries.truths("attention.sliding_window_pattern", local);
}

Result<uint64_t> positions_of(const JsonObject& config, const DecoderDescription& d) {
  return config.count_or("max_position_embeddings", d.context);
}

void add_sizes(const DecoderDescription& d, GgufEntries& entries) {
  entries.count("feed_forward_length", d.hidden);
  entries.count("attention.head_count", d.q_heads);
  entries.count("attention.head_count_kv", d.kv_heads);
}

void add_head_length(const DecoderDescription& d, GgufEntries& entries) {
  entries.count("attention.key_length", d.head_dim);
  entries.count("attention.value_length", d.head_dim);
}

// ---------------------------------------------------------------- the families

// What most of them have in common.
Status write_common(const GgufTarget& target, const JsonObject& config, const DecoderDescription& d,
                    GgufEntries& entries) {
  BALLAST_TRY(const uint64_t positions, positions_of(config, d));
  entries.count("block_count", d.layers.size());
  entries.count("context_length", positions);
  entries.count("embedding_length", d.width);
  add_sizes(d, entries);
  BALLAST_CHECK(add_rope_scaling(config, d, entries));
  entries.real("rope.freq_base", d.rope.theta);
  if (target.architecture == "gemma3") entries.real("rope.freq_base_swa", d.local_rope.theta);
  entries.real("attention.layer_norm_rms_epsilon", d.eps);
  if (d.experts.count != 0) {
    entries.count("expert_count", d.experts.count);
    entries.count("expert_used_count", d.experts.used);
  }
  const bool odd_heads = d.head_dim * d.q_heads != d.width;
  if (target.head_length || config.has("head_dim") || odd_heads) add_head_length(d, entries);
  entries.put(std::string(kGgufFileType), uint64_t{0});
  return {};
}

Status write_llama(const GgufTarget& target, const JsonObject& config, const DecoderDescription& d,
                   GgufEntries& entries) {
  BALLAST_CHECK(write_common(target, config, d, entries));
  entries.count("vocab_size", d.vocab);
  entries.count("rope.dimension_count", d.rope.rotary_dim);
  // The converter leaves these out.
  if (has_local_layers(d)) {
    entries.count("attention.sliding_window", window_of_layers(d));
    add_window_pattern(d, 0, entries);
  }
  return {};
}

Status write_ministral3(const GgufTarget& target, const JsonObject& config, const DecoderDescription& d,
                        GgufEntries& entries) {
  BALLAST_CHECK(write_llama(target, config, d, entries));
  if (d.family != "ministral3") return {};
  entries.real("rope.scaling.yarn_log_multiplier", d.rope.scaling.mscale_all_dim.value_or(0));
  entries.real("attention.temperature_scale", d.temperature);
  return {};
}

Status write_qwen_experts(const GgufTarget& target, const JsonObject& config, const DecoderDescription& d,
                          GgufEntries& entries) {
  BALLAST_CHECK(write_common(target, config, d, entries));
  entries.count("expert_feed_forward_length", d.experts.hidden);
  if (d.experts.shared_hidden != 0) entries.count("expert_shared_feed_forward_length", d.experts.shared_hidden);
  return {};
}

Status write_gemma2(const GgufTarget&, const JsonObject& config, const DecoderDescription& d, GgufEntries& entries) {
  BALLAST_TRY(const uint64_t positions, positions_of(config, d));
  entries.count("context_length", positions);
  entries.count("embedding_length", d.width);
  entries.count("block_count", d.layers.size());
  add_sizes(d, entries);
  entries.real("attention.layer_norm_rms_epsilon", d.eps);
  add_head_length(d, entries);
  entries.put(std::string(kGgufFileType), uint64_t{0});
  entries.real("attn_logit_softcapping", d.soft_cap);
  entries.real("final_logit_softcapping", d.logit_cap);
  BALLAST_TRY(const uint64_t window, config.count_or("sliding_window", 4096));
  entries.count("attention.sliding_window", window);
  add_window_pattern(d, 2, entries);
  // The converter leaves these out, and all files of this family have them so.
  if (d.rope.theta != 10'000) entries.real("rope.freq_base", d.rope.theta);
  return add_rope_scaling(config, d, entries);
}

Status write_gemma3(const GgufTarget& target, const JsonObject& config, const DecoderDescription& d,
                    GgufEntries& entries) {
  BALLAST_CHECK(write_common(target, config, d, entries));
  if (d.logit_cap != 0) entries.real("final_logit_softcapping", d.logit_cap);
  if (!has_local_layers(d)) return {};
  entries.count("attention.sliding_window", window_of_layers(d));
  add_window_pattern(d, 6, entries);
  return {};
}

Status write_phi3(const GgufTarget&, const JsonObject& config, const DecoderDescription& d, GgufEntries& entries) {
  BALLAST_TRY(const uint64_t positions, positions_of(config, d));
  BALLAST_TRY(const uint64_t original, config.count_or("original_max_position_embeddings", 4096));
  entries.count("context_length", positions);
  entries.count("rope.scaling.original_context_length", original);
  entries.count("embedding_length", d.width);
  entries.count("feed_forward_length", d.hidden);
  entries.count("block_count", d.layers.size());
  entries.count("attention.head_count", d.q_heads);
  entries.count("attention.head_count_kv", d.kv_heads);
  entries.real("attention.layer_norm_rms_epsilon", d.eps);
  entries.count("rope.dimension_count", d.rope.rotary_dim);
  entries.real("rope.freq_base", d.rope.theta);
  entries.put(std::string(kGgufFileType), uint64_t{0});
  entries.count("attention.sliding_window", window_of_layers(d));
  return {};
}

Status write_gpt2(const GgufTarget&, const JsonObject&, const DecoderDescription& d, GgufEntries& entries) {
  entries.count("block_count", d.layers.size());
  entries.count("context_length", d.context);
  entries.count("embedding_length", d.width);
  entries.count("feed_forward_length", d.hidden);
  entries.count("attention.head_count", d.q_heads);
  entries.real("attention.layer_norm_epsilon", d.eps);
  entries.put(std::string(kGgufFileType), uint64_t{0});
  return {};
}

constexpr GgufTarget kGgufTargets[] = {
    {.family = "llama", .architecture = "llama", .write = write_llama, .paired = true, .head_length = true},
    {.family = "mistral", .architecture = "llama", .write = write_llama, .paired = true, .head_length = true},
    {.family = "mixtral", .architecture = "llama", .write = write_llama, .paired = true},
    {.family = "ministral3",
     .architecture = "mistral3",
     .write = write_ministral3,
     .paired = true,
     .head_length = true},
    {.family = "smollm3", .architecture = "smollm3", .write = write_llama, .paired = true},
    {.family = "qwen2", .architecture = "qwen2", .write = write_common},
    {.family = "qwen3", .architecture = "qwen3", .write = write_common, .head_length = true},
    {.family = "qwen2_moe", .architecture = "qwen2moe", .write = write_qwen_experts, .down_first = true},
    {.family = "qwen3_moe", .architecture = "qwen3moe", .write = write_qwen_experts, .down_first = true},
    {.family = "gemma2", .architecture = "gemma2", .write = write_gemma2, .drop_head = true},
    {.family = "gemma3_text", .architecture = "gemma3", .write = write_gemma3, .head_length = true},
    {.family = "phi3", .architecture = "phi3", .write = write_phi3},
    {.family = "gpt2", .architecture = "gpt2", .write = write_gpt2},
};
// Of models that also see; what is inside is a mistral or a ministral3.
constexpr GgufTarget kMistral3Target = {
    .family = "mistral3", .architecture = "mistral3", .write = write_ministral3, .paired = true, .head_length = true};

Result<const GgufTarget*> find_target(const std::string& outer_type, const DecoderDescription& d) {
  if (outer_type == kMistral3Target.family) return &kMistral3Target;
  const auto found = std::ranges::find(kGgufTargets, d.family, &GgufTarget::family);
  if (found != std::end(kGgufTargets)) return found;
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("llama.cpp has no architecture for {} models, so no GGUF file of one would run. The "
                                "model runs as it is, and can be copied to safetensors",
                                d.family));
}

// ---------------------------------------------------------------- rope as tensors

std::vector<float> as_floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

void add_rope_tensors(const DecoderDescription& d, GgufModel& model) {
  const ops::RopeScaling& scaling = d.rope.scaling;
  if (scaling.kind == ScalingKind::kLlama3) {
    GgufExtraTensor freqs{.name = "rope_freqs.weight", .values = {}};
    for (uint64_t i = 0; i < d.rope.rotary_dim / 2; ++i) freqs.values.push_back(ops::llama3_divisor(d.rope, i));
    model.tensors.extra.push_back(std::move(freqs));
  }
  if (scaling.kind != ScalingKind::kLongRope) return;
  GgufEntries early(model.architecture);
  early.real("rope.scaling.attn_factor", ops::rope_magnitude(scaling));
  model.early = early.take();
  model.tensors.extra.push_back({.name = "rope_factors_long.weight", .values = as_floats(scaling.long_factors)});
  model.tensors.extra.push_back({.name = "rope_factors_short.weight", .values = as_floats(scaling.short_factors)});
}

// ---------------------------------------------------------------- decoders

GgufTensorRules tensor_rules(const GgufTarget& target, const DecoderDescription& d) {
  GgufTensorRules rules;
  rules.from = d.naming;
  rules.to = &kGgufNaming;
  rules.layers = d.layers.size();
  rules.experts = d.experts.count;
  if (target.paired) {
    rules.paired_q_heads = d.q_heads;
    rules.paired_kv_heads = d.kv_heads;
  }
  rules.transposed = d.layout == WeightLayout::kInOut;
  rules.norm_shift = d.norm_shift;
  rules.drop_head = target.drop_head;
  rules.down_first = target.down_first;
  return rules;
}

Result<GgufModel> describe_decoder_file(const std::string& outer_type, const JsonObject& outer,
                                        std::string_view config_json) {
  BALLAST_TRY(const DecoderDescription d, describe_huggingface(config_json));
  BALLAST_TRY(const JsonObject config,
              outer.has("text_config") ? outer.object("text_config") : parse_kind_config(d.family, config_json));
  BALLAST_TRY(const GgufTarget* target, find_target(outer_type, d));
  BALLAST_CHECK(refuse_scaling(*target, d));
  GgufModel model;
  model.architecture = target->architecture;
  model.vocab = d.vocab;
  model.tensors = tensor_rules(*target, d);
  add_rope_tensors(d, model);
  GgufEntries entries(model.architecture);
  BALLAST_CHECK(target->write(*target, config, d, entries));
  model.settings = entries.take();
  BALLAST_CHECK(check_gguf_says_the_same(d, model));
  if (target->paired && has_local_layers(d)) {
    model.notes.push_back(
        fmt::format("the window of {} tokens is in the file, and llama.cpp does not read it for the "
                    "architecture \"{}\": longer texts come out differently there",
                    window_of_layers(d), model.architecture));
  }
  return model;
}

// ---------------------------------------------------------------- BERT

Result<GgufModel> describe_bert_file(std::string_view config_json, const std::optional<std::string>& sentence) {
  BALLAST_TRY(const BertDescription d,
              describe_bert(
                  {.text = std::string(config_json), .words = KindConfig::Words::kHuggingFace, .sentence = sentence}));
  GgufModel model;
  model.architecture = "bert";
  model.vocab = d.vocab;
  model.tensors.from = &kBertNaming;
  model.tensors.to = &kBertGgufNaming;
  model.tensors.layers = d.layers;
  GgufEntries entries(model.architecture);
  entries.count("block_count", d.layers);
  entries.count("context_length", d.positions);
  entries.count("embedding_length", d.width);
  entries.count("feed_forward_length", d.hidden);
  entries.count("attention.head_count", d.heads);
  entries.real("attention.layer_norm_epsilon", d.eps);
  entries.put(std::string(kGgufFileType), uint64_t{0});
  entries.truth("attention.causal", false);
  if (sentence) entries.count("pooling_type", d.pooling == Pooling::kMean ? 1 : d.pooling == Pooling::kFirst ? 2 : 0);
  model.vocabulary.push_back({"tokenizer.ggml.token_type_count", d.types});
  model.settings = entries.take();
  BALLAST_CHECK(check_gguf_says_the_same(d, model));
  return model;
}

}  // namespace

Result<GgufModel> describe_gguf_model(std::string_view config_json, const std::optional<std::string>& sentence) {
  BALLAST_TRY(const JsonObject outer, parse_kind_config("huggingface", config_json));
  BALLAST_TRY(const std::string type, outer.text("model_type"));
  if (type == "bert") return describe_bert_file(config_json, sentence);
  return describe_decoder_file(type, outer, config_json);
}

}  // namespace ballast
