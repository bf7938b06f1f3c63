// Ministral: rotary positions, RMS norm, grouped-query attention, gated feed-forward part, no biases.
#include <fmt/format.h>

#include <cmath>

#include "ballast/base/checked.h"
#include "ballast/models/causal_model.h"
#include "ballast/models/config_reader.h"
#include "ballast/models/kinds.h"

namespace ballast {

namespace {

struct MinistralConfig {
  uint64_t vocab = 0, context = 0, embed = 0, layers = 0, mlp_hidden = 0;
  ops::AttentionConfig heads;
  ops::RopeConfig rope;
  float eps = 0;
};

Result<ops::RopeScaling> parse_yarn(const ConfigReader& fields, uint64_t context) {
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

Result<ops::RopeScaling> parse_scaling(const ConfigReader& config, uint64_t context) {
  if (!config.raw("rope_scaling")) return ops::RopeScaling{};
  BALLAST_TRY(const ConfigReader fields, config.object("rope_scaling"));
  BALLAST_TRY(const std::string kind, fields.text("kind"));
  if (kind == "none") return ops::RopeScaling{};
  BALLAST_TRY(const double factor, fields.number("factor"));
  if (!(factor > 0)) return fields.error("factor", fmt::format("is {}, not above 0", factor));
  if (kind == "linear") {
    ops::RopeScaling scaling;
    scaling.kind = ops::RopeScaling::Kind::kLinear;
    scaling.factor = factor;
    return scaling;
  }
  if (kind == "yarn") return parse_yarn(fields, context);
  return fields.error("kind", fmt::format("is \"{}\": none, linear or yarn", kind));
}

Status parse_heads(const ConfigReader& fields, MinistralConfig& config) {
  ops::AttentionConfig& heads = config.heads;
  BALLAST_TRY(heads.q_heads, fields.count("num_heads"));
  BALLAST_TRY(heads.kv_heads, fields.count("num_kv_heads"));
  if (heads.q_heads == 0) return fields.error("num_heads", "is 0");
  if (heads.kv_heads == 0 || heads.q_heads % heads.kv_heads != 0) {
    return fields.error("num_kv_heads",
                        fmt::format("is {}, which does not divide num_heads {}", heads.kv_heads, heads.q_heads));
  }
  if (!fields.has("head_dim") && config.embed % heads.q_heads != 0) {
    return fields.error("num_heads",
                        fmt::format("is {}, which does not divide embed_dim {}", heads.q_heads, config.embed));
  }
  BALLAST_TRY(heads.head_dim, fields.count_or("head_dim", config.embed / heads.q_heads));
  BALLAST_TRY(const uint64_t kv_head_dim, fields.count_or("kv_head_dim", heads.head_dim));
  if (kv_head_dim != heads.head_dim) {
    return fields.error("kv_head_dim", fmt::format("is {}, not head_dim {}", kv_head_dim, heads.head_dim));
  }
  if (heads.head_dim == 0 || !checked_mul(heads.q_heads, heads.head_dim)) {
    return fields.error("head_dim", fmt::format("is {}, with {} heads", heads.head_dim, heads.q_heads));
  }
  return {};
}

Result<MinistralConfig> parse_ministral_config(std::string_view text) {
  BALLAST_TRY(const ConfigReader fields, ConfigReader::parse("ministral", text));
  MinistralConfig config;
  BALLAST_TRY(config.vocab, fields.count("vocab_size"));
  BALLAST_TRY(config.context, fields.count("context_length"));
  BALLAST_TRY(config.embed, fields.count("embed_dim"));
  BALLAST_TRY(config.layers, fields.count("num_layers"));
  BALLAST_TRY(config.mlp_hidden, fields.count("mlp_hidden_dim"));
  if (config.embed == 0) return fields.error("embed_dim", "is 0");
  BALLAST_CHECK(parse_heads(fields, config));
  BALLAST_TRY(const double eps, fields.number("rms_norm_eps"));
  config.eps = static_cast<float>(eps);
  BALLAST_TRY(config.rope.theta, fields.number("rope_theta"));
  BALLAST_TRY(config.rope.rotary_dim, fields.count("rotary_dim"));
  if (config.rope.rotary_dim % 2 != 0 || config.rope.rotary_dim > config.heads.head_dim) {
    return fields.error("rotary_dim", fmt::format("is {}: it must be even and at most head_dim {}",
                                                  config.rope.rotary_dim, config.heads.head_dim));
  }
  BALLAST_TRY(config.rope.scaling, parse_scaling(fields, config.context));
  return config;
}

struct MinistralBlock {
  Param norm_1, norm_2, w_qkv, w_out, w_gate, w_up, w_down;
};

Result<MinistralBlock> load_ministral_block(const MinistralConfig& config, uint64_t index, ParamLoader& params) {
  const uint64_t e = config.embed, f = config.mlp_hidden, q = config.heads.q_width(), kv = config.heads.kv_width();
  const auto name = [index](std::string_view leaf) { return fmt::format("blocks.{}.{}", index, leaf); };
  MinistralBlock block;
  BALLAST_TRY(block.w_qkv, params.get(name("attention.w_qkv"), {e, q + 2 * kv}));
  BALLAST_TRY(block.w_out, params.get(name("attention.w_out"), {q, e}));
  BALLAST_TRY(block.w_gate, params.get(name("feed_forward.w_gate"), {e, f}));
  BALLAST_TRY(block.w_up, params.get(name("feed_forward.w_up"), {e, f}));
  BALLAST_TRY(block.w_down, params.get(name("feed_forward.w_down"), {f, e}));
  BALLAST_TRY(block.norm_1, params.get(name("norm_1.gamma"), {e}));
  BALLAST_TRY(block.norm_2, params.get(name("norm_2.gamma"), {e}));
  return block;
}

class Ministral final : public CausalModel {
 public:
  static Result<std::unique_ptr<Model>> build(std::string_view config_text, ParamLoader& params) {
    auto model = std::make_unique<Ministral>();
    BALLAST_TRY(model->config_, parse_ministral_config(config_text));
    const MinistralConfig& config = model->config_;
    BALLAST_TRY(model->tok_embeddings_, params.get("tok_embeddings.weight", {config.vocab, config.embed}));
    for (uint64_t i = 0; i < config.layers; ++i) {
      BALLAST_TRY(MinistralBlock block, load_ministral_block(config, i, params));
      model->blocks_.push_back(std::move(block));
    }
    BALLAST_TRY(model->final_norm_, params.get("final_norm.gamma", {config.embed}));
    BALLAST_TRY(model->lm_head_, params.get("lm_head", {config.embed, config.vocab}));
    return std::unique_ptr<Model>(std::move(model));
  }

  std::string_view kind() const override { return "ministral"; }
  uint64_t context_length() const override { return config_.context; }
  uint64_t vocab_size() const override { return config_.vocab; }
  KvCacheShape cache_shape() const override {
    return {config_.layers, config_.heads.kv_heads, config_.heads.head_dim, config_.context};
  }

 private:
  Result<Tensor> run(Context& context, const TextPass& pass) const override {
    // Of one sequence: all of them have the same positions.
    BALLAST_TRY(const ops::RopeTables rope, ops::rope_tables(context, config_.rope, pass.position, pass.length()));
    BALLAST_TRY(Tensor h, ops::embedding_lookup(context.at("tok_embeddings"), tok_embeddings_, pass.ids));
    for (uint64_t i = 0; i < blocks_.size(); ++i) {
      const Context::Scope scope(context, "blocks", i);
      BALLAST_TRY(h, run_block(context, blocks_[i], i, h, rope, pass));
    }
    if (pass.cache != nullptr) pass.cache->set_length(pass.position + pass.ids.size());
    BALLAST_TRY(h, wanted_rows(context, h, pass.rows));
    BALLAST_TRY(h, ops::rms_norm(context.at("final_norm"), h, final_norm_, config_.eps));
    return ops::linear(context.at("logits"), h, lm_head_);
  }

  Result<Tensor> run_block(Context& context, const MinistralBlock& block, uint64_t layer, const Tensor& h,
                           const ops::RopeTables& rope, const TextPass& pass) const {
    ops::AttentionConfig heads = config_.heads;
    heads.sequences = pass.sequences;
    BALLAST_TRY(Tensor x, ops::rms_norm(context.at("norm_1"), h, block.norm_1, config_.eps));
    BALLAST_TRY(Tensor qkv, ops::linear(context.at("attention.qkv"), x, block.w_qkv));
    BALLAST_TRY(qkv, ops::apply_rope_qkv_packed(context.at("attention.qkv_rope"), heads, qkv, rope));
    context.at("attention.context");
    BALLAST_TRY(x, pass.cache == nullptr
                       ? ops::attention(context, heads, qkv)
                       : ops::attention_decode_cache(context, heads, qkv, *pass.cache, layer, pass.position));
    BALLAST_TRY(x, ops::linear(context.at("attention.output"), x, block.w_out));
    BALLAST_TRY(const Tensor r, ops::add(context.at("residual"), x, h));
    BALLAST_TRY(x, ops::rms_norm(context.at("norm_2"), r, block.norm_2, config_.eps));
    BALLAST_TRY(const Tensor gate, ops::linear(context.at("feed_forward.gate"), x, block.w_gate));
    BALLAST_TRY(const Tensor up, ops::linear(context.at("feed_forward.up"), x, block.w_up));
    BALLAST_TRY(x, ops::swiglu(context.at("feed_forward.hidden"), gate, up));
    BALLAST_TRY(x, ops::linear(context.at("feed_forward.output"), x, block.w_down));
    return ops::add(context.at("output"), x, r);
  }

  MinistralConfig config_;
  Param tok_embeddings_, final_norm_, lm_head_;
  std::vector<MinistralBlock> blocks_;
};

}  // namespace

const ModelKind kMinistralKind = {"ministral", "Ministral: text, rotary positions, grouped-query attention",
                                  Ministral::build};

}  // namespace ballast
