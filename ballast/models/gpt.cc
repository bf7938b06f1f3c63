// GPT-2's family: learned positions, layer norm before each part, attention and a two-layer feed-forward part.
#include <fmt/format.h>

#include "ballast/models/causal_model.h"
#include "ballast/models/config_reader.h"
#include "ballast/models/kinds.h"

namespace ballast {

namespace {

constexpr float kEps = 1e-5F;

struct GptConfig {
  uint64_t vocab = 0, context = 0, embed = 0, layers = 0, heads = 0, mlp_ratio = 0;
  double dropout = 0;                      // while it trains
  Activation gelu = Activation::kGeluErf;  // as gpt.rs computes it; GPT-2 itself was trained with tanh
};

Result<GptConfig> parse_gpt_config(std::string_view text) {
  BALLAST_TRY(const ConfigReader fields, ConfigReader::parse("gpt", text));
  GptConfig config;
  BALLAST_TRY(config.vocab, fields.count("vocab_size"));
  BALLAST_TRY(config.context, fields.count("context_length"));
  BALLAST_TRY(config.embed, fields.count("embed_dim"));
  BALLAST_TRY(config.layers, fields.count("num_layers"));
  BALLAST_TRY(config.heads, fields.count("num_heads"));
  BALLAST_TRY(config.mlp_ratio, fields.count("mlp_ratio"));
  BALLAST_TRY(config.dropout, fields.number("dropout"));
  BALLAST_TRY(const std::string gelu, fields.text_or("gelu", "erf"));
  if (gelu != "erf" && gelu != "tanh") return fields.error("gelu", fmt::format("is \"{}\": erf or tanh", gelu));
  if (gelu == "tanh") config.gelu = Activation::kGeluTanh;
  if (config.embed == 0) return fields.error("embed_dim", "is 0");
  if (config.heads == 0 || config.embed % config.heads != 0) {
    return fields.error("num_heads",
                        fmt::format("is {}, which does not divide embed_dim {}", config.heads, config.embed));
  }
  return config;
}

struct GptBlock {
  Param ln_1_gamma, ln_1_beta, ln_2_gamma, ln_2_beta;
  Param w_qkv, b_qkv, w_out, b_out;
  Param ff_w_in, ff_b_in, ff_w_out, ff_b_out;
};

Result<GptBlock> load_gpt_block(const GptConfig& config, uint64_t index, ParamLoader& params) {
  const uint64_t e = config.embed, f = config.mlp_ratio * e;
  const auto name = [index](std::string_view leaf) { return fmt::format("blocks.{}.{}", index, leaf); };
  GptBlock block;
  BALLAST_TRY(block.w_qkv, params.get(name("attention.w_qkv"), {e, 3 * e}));
  BALLAST_TRY(block.b_qkv, params.get(name("attention.b_qkv"), {3 * e}));
  BALLAST_TRY(block.w_out, params.get(name("attention.w_out"), {e, e}));
  BALLAST_TRY(block.b_out, params.get(name("attention.b_out"), {e}));
  BALLAST_TRY(block.ff_w_in, params.get(name("feed_forward.w_in"), {e, f}));
  BALLAST_TRY(block.ff_b_in, params.get(name("feed_forward.b_in"), {f}));
  BALLAST_TRY(block.ff_w_out, params.get(name("feed_forward.w_out"), {f, e}));
  BALLAST_TRY(block.ff_b_out, params.get(name("feed_forward.b_out"), {e}));
  BALLAST_TRY(block.ln_1_gamma, params.get(name("ln_1.gamma"), {e}));
  BALLAST_TRY(block.ln_1_beta, params.get(name("ln_1.beta"), {e}));
  BALLAST_TRY(block.ln_2_gamma, params.get(name("ln_2.gamma"), {e}));
  BALLAST_TRY(block.ln_2_beta, params.get(name("ln_2.beta"), {e}));
  return block;
}

class Gpt final : public CausalModel {
 public:
  static Result<std::unique_ptr<Model>> build(std::string_view config_text, ParamLoader& params) {
    auto model = std::make_unique<Gpt>();
    BALLAST_TRY(model->config_, parse_gpt_config(config_text));
    const GptConfig& config = model->config_;
    BALLAST_TRY(model->tok_embeddings_, params.get("tok_embeddings.weight", {config.vocab, config.embed}));
    BALLAST_TRY(model->pos_embeddings_, params.get("pos_embeddings", {config.context, config.embed}));
    for (uint64_t i = 0; i < config.layers; ++i) {
      BALLAST_TRY(GptBlock block, load_gpt_block(config, i, params));
      model->blocks_.push_back(std::move(block));
    }
    BALLAST_TRY(model->final_gamma_, params.get("final_ln.gamma", {config.embed}));
    BALLAST_TRY(model->final_beta_, params.get("final_ln.beta", {config.embed}));
    BALLAST_TRY(model->lm_head_, params.get("lm_head", {config.embed, config.vocab}));
    return std::unique_ptr<Model>(std::move(model));
  }

  std::string_view kind() const override { return "gpt"; }
  uint64_t context_length() const override { return config_.context; }
  uint64_t vocab_size() const override { return config_.vocab; }
  KvCacheShape cache_shape() const override {
    return {config_.layers, config_.heads, config_.embed / config_.heads, config_.context};
  }

 private:
  Result<Tensor> run(Context& context, const TextPass& pass) const override {
    BALLAST_TRY(const Tensor tokens, ops::embedding_lookup(context.at("tok_embeddings"), tok_embeddings_, pass.ids));
    BALLAST_TRY(const Tensor places, consecutive_rows(context.at("pos_embeddings"), pos_embeddings_, pass.position,
                                                      pass.length(), pass.sequences));
    BALLAST_TRY(Tensor h, ops::add(context.at("embeddings"), tokens, places));
    BALLAST_TRY(h, drop(context, h));
    for (uint64_t i = 0; i < blocks_.size(); ++i) {
      const Context::Scope scope(context, "blocks", i);
      BALLAST_TRY(h, run_block(context, blocks_[i], i, h, pass));
    }
    if (pass.cache != nullptr) pass.cache->set_length(pass.position + pass.ids.size());
    BALLAST_TRY(h, wanted_rows(context, h, pass.rows));
    BALLAST_TRY(h, ops::layer_norm(context.at("final_ln"), h, final_gamma_, final_beta_, kEps));
    return ops::linear(context.at("logits"), h, lm_head_);
  }

  // Only in training: running a model has no random numbers.
  Result<Tensor> drop(Context& context, const Tensor& x) const {
    if (context.random == nullptr || config_.dropout == 0) return x;
    return ops::dropout(context, x, static_cast<float>(config_.dropout), true);
  }

  Result<Tensor> run_block(Context& context, const GptBlock& block, uint64_t layer, const Tensor& h,
                           const TextPass& pass) const {
    const ops::AttentionConfig heads{config_.heads, config_.heads, config_.embed / config_.heads, pass.sequences};
    BALLAST_TRY(Tensor x, ops::layer_norm(context.at("ln_1"), h, block.ln_1_gamma, block.ln_1_beta, kEps));
    BALLAST_TRY(const Tensor qkv, ops::linear(context.at("attention.qkv"), x, block.w_qkv, {.bias = &block.b_qkv}));
    context.at("attention.context");
    BALLAST_TRY(x, pass.cache == nullptr
                       ? ops::attention(context, heads, qkv)
                       : ops::attention_decode_cache(context, heads, qkv, *pass.cache, layer, pass.position));
    BALLAST_TRY(x, ops::linear(context.at("attention.output"), x, block.w_out, {.bias = &block.b_out}));
    BALLAST_TRY(x, drop(context, x));
    BALLAST_TRY(const Tensor r, ops::add(context.at("residual"), x, h));
    BALLAST_TRY(x, ops::layer_norm(context.at("ln_2"), r, block.ln_2_gamma, block.ln_2_beta, kEps));
    BALLAST_TRY(x, ops::linear(context.at("feed_forward.hidden"), x, block.ff_w_in,
                               {.bias = &block.ff_b_in, .activation = config_.gelu}));
    BALLAST_TRY(x, ops::linear(context.at("feed_forward.output"), x, block.ff_w_out, {.bias = &block.ff_b_out}));
    BALLAST_TRY(x, drop(context, x));
    return ops::add(context.at("output"), x, r);
  }

  GptConfig config_;
  Param tok_embeddings_, pos_embeddings_;
  std::vector<GptBlock> blocks_;
  Param final_gamma_, final_beta_, lm_head_;
};

}  // namespace

const ModelKind kGptKind = {"gpt", "GPT-2: text, learned positions", Gpt::build};

}  // namespace ballast
