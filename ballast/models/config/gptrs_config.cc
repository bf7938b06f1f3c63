// The two text models of gpt.rs's checkpoints: a GPT-2 (kind "gpt") and a Ministral (kind "ministral"), as descriptions
// of decoders. Both keep one matrix for q, k and v, matrices as [in, out], and an output matrix of their own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/base/checked.h"
#include "ballast/models/config/decoder_config.h"

namespace ballast {

namespace {

// What both kinds have in common.
Result<DecoderDescription> describe_checkpoint(const JsonObject& fields, std::string_view kind) {
  DecoderDescription d;
  d.family = kind;
  BALLAST_TRY(d.vocab, fields.count("vocab_size"));
  BALLAST_TRY(d.context, fields.count("context_length"));
  BALLAST_TRY(d.width, fields.count("embed_dim"));
  BALLAST_TRY(const uint64_t layers, fields.count("num_layers"));
  if (d.vocab == 0) return fields.error("vocab_size", "is 0");
  if (d.width == 0) return fields.error("embed_dim", "is 0");
  if (layers == 0 || layers > kMostDecoderLayers) {
    return fields.error("num_layers", fmt::format("is {}: from 1 to {} is what there is", layers, kMostDecoderLayers));
  }
  d.layers.resize(layers);
  d.layout = d.head_layout = WeightLayout::kInOut;
  d.fused_qkv = Presence::kRequired;
  return d;
}

// ---------------------------------------------------------------- gpt

Status read_gpt_sizes(const JsonObject& fields, DecoderDescription& d) {
  BALLAST_TRY(const uint64_t heads, fields.count("num_heads"));
  BALLAST_TRY(const uint64_t ratio, fields.count("mlp_ratio"));
  if (heads == 0 || d.width % heads != 0) {
    return fields.error("num_heads", fmt::format("is {}, which does not divide embed_dim {}", heads, d.width));
  }
  d.q_heads = d.kv_heads = heads;
  d.head_dim = d.width / heads;
  const auto hidden = checked_mul(ratio, d.width);
  if (!hidden) return fields.error("mlp_ratio", fmt::format("is {}, with an embed_dim of {}", ratio, d.width));
  d.hidden = *hidden;
  return {};
}

// gpt.rs computes GELU by erf; GPT-2 itself was trained with tanh.
Result<Activation> read_gelu(const JsonObject& fields) {
  BALLAST_TRY(const std::string gelu, fields.text_or("gelu", "erf"));
  if (gelu == "erf") return Activation::kGeluErf;
  if (gelu == "tanh") return Activation::kGeluTanh;
  return fields.error("gelu", fmt::format("is \"{}\": erf or tanh", gelu));
}

// ---------------------------------------------------------------- ministral

Status read_ministral_heads(const JsonObject& fields, DecoderDescription& d) {
  BALLAST_TRY(d.q_heads, fields.count("num_heads"));
  BALLAST_TRY(d.kv_heads, fields.count("num_kv_heads"));
  if (d.q_heads == 0) return fields.error("num_heads", "is 0");
  if (d.kv_heads == 0 || d.q_heads % d.kv_heads != 0) {
    return fields.error("num_kv_heads",
                        fmt::format("is {}, which does not divide num_heads {}", d.kv_heads, d.q_heads));
  }
  if (!fields.has("head_dim") && d.width % d.q_heads != 0) {
    return fields.error("num_heads", fmt::format("is {}, which does not divide embed_dim {}", d.q_heads, d.width));
  }
  BALLAST_TRY(d.head_dim, fields.count_or("head_dim", d.width / d.q_heads));
  BALLAST_TRY(const uint64_t kv_head_dim, fields.count_or("kv_head_dim", d.head_dim));
  if (kv_head_dim != d.head_dim) {
    return fields.error("kv_head_dim", fmt::format("is {}, not head_dim {}", kv_head_dim, d.head_dim));
  }
  if (d.head_dim == 0 || !checked_mul(d.q_heads, d.head_dim)) {
    return fields.error("head_dim", fmt::format("is {}, with {} heads", d.head_dim, d.q_heads));
  }
  return {};
}

Result<ops::RopeScaling> read_yarn(const JsonObject& fields, uint64_t context) {
  ops::RopeScaling scaling;
  scaling.kind = ops::RopeScaling::Kind::kYarn;
  BALLAST_TRY(scaling.factor, fields.number("factor"));
  if (fields.has("mscale")) BALLAST_CHECK(assign(scaling.mscale, fields.number("mscale")));
  if (fields.has("mscale_all_dim")) BALLAST_CHECK(assign(scaling.mscale_all_dim, fields.number("mscale_all_dim")));
  // Without the second, the first is undone by itself: gpt.rs takes it for both.
  if (scaling.mscale && !scaling.mscale_all_dim) scaling.mscale_all_dim = scaling.mscale;
  BALLAST_TRY(scaling.beta_fast, fields.number_or("beta_fast", 32));
  BALLAST_TRY(scaling.beta_slow, fields.number_or("beta_slow", 1));
  const double assumed = std::max(1.0, std::round(static_cast<double>(context) / scaling.factor));
  BALLAST_TRY(scaling.original_context,
              fields.count_or("original_max_position_embeddings", static_cast<uint64_t>(assumed)));
  BALLAST_TRY(scaling.truncate, fields.truth_or("truncate", true));
  return scaling;
}

Result<ops::RopeScaling> read_ministral_scaling(const JsonObject& config, uint64_t context) {
  if (!config.mentions("rope_scaling")) return ops::RopeScaling{};
  BALLAST_TRY(const JsonObject fields, config.object("rope_scaling"));
  BALLAST_TRY(const std::string kind, fields.text("kind"));
  if (kind == "none") return ops::RopeScaling{};
  BALLAST_TRY(const double factor, fields.number("factor"));
  if (!(factor > 0)) return fields.error("factor", fmt::format("is {}, not above 0", factor));
  if (kind == "yarn") return read_yarn(fields, context);
  if (kind != "linear") return fields.error("kind", fmt::format("is \"{}\": none, linear or yarn", kind));
  ops::RopeScaling scaling;
  scaling.kind = ops::RopeScaling::Kind::kLinear;
  scaling.factor = factor;
  return scaling;
}

Status read_ministral_rope(const JsonObject& fields, DecoderDescription& d) {
  BALLAST_TRY(d.rope.theta, fields.number("rope_theta"));
  BALLAST_TRY(d.rope.rotary_dim, fields.count("rotary_dim"));
  if (d.rope.rotary_dim % 2 != 0 || d.rope.rotary_dim > d.head_dim) {
    return fields.error("rotary_dim",
                        fmt::format("is {}: it must be even and at most head_dim {}", d.rope.rotary_dim, d.head_dim));
  }
  return assign(d.rope.scaling, read_ministral_scaling(fields, d.context));
}

}  // namespace

Result<DecoderDescription> describe_gpt(const KindConfig& config) {
  BALLAST_TRY(const JsonObject fields, parse_kind_config("gpt", config.text));
  BALLAST_TRY(DecoderDescription d, describe_checkpoint(fields, "gpt"));
  BALLAST_CHECK(read_gpt_sizes(fields, d));
  BALLAST_TRY(const double dropout, fields.number("dropout"));
  d.dropout = static_cast<float>(dropout);
  BALLAST_TRY(d.activation, read_gelu(fields));
  d.gated = false;
  d.norm = NormKind::kLayer;
  d.eps = 1e-5F;
  d.qkv_bias = d.output_bias = d.feed_bias = Presence::kRequired;
  d.learned_positions = true;
  for (DecoderLayer& layer : d.layers) layer.rope = DecoderLayer::Rope::kNone;
  d.naming = &kGptNaming;
  d.labels = {.attention_norm = "ln_1", .feed_norm = "ln_2", .final_norm = "final_ln"};
  BALLAST_CHECK(check_decoder(d));
  return d;
}

Result<DecoderDescription> describe_ministral(const KindConfig& config) {
  BALLAST_TRY(const JsonObject fields, parse_kind_config("ministral", config.text));
  BALLAST_TRY(DecoderDescription d, describe_checkpoint(fields, "ministral"));
  BALLAST_TRY(d.hidden, fields.count("mlp_hidden_dim"));
  BALLAST_CHECK(read_ministral_heads(fields, d));
  BALLAST_TRY(const double eps, fields.number("rms_norm_eps"));
  d.eps = static_cast<float>(eps);
  BALLAST_CHECK(read_ministral_rope(fields, d));
  d.naming = &kMinistralNaming;
  d.labels = {.embedding = "tok_embeddings"};
  BALLAST_CHECK(check_decoder(d));
  return d;
}

}  // namespace ballast
