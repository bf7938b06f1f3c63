// Decoder-only text models: what llama, mistral, qwen, gemma, phi, mixtral, GPT-2 and the models of gpt.rs have in
// common, driven by a description of what they differ in.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ballast/models/causal_model.h"
#include "ballast/models/config/decoder_config.h"
#include "ballast/models/decoder_params.h"
#include "ballast/models/kinds.h"
#include "ballast/ops/rotary_order.h"

namespace ballast {

namespace {

// What all layers of one pass share.
struct DecoderPass {
  uint64_t sequences = 1;      // without a past: of one length each
  std::vector<KvRows> past{};  // of each part; none: there is no past
  ops::RopeTables rope{}, local_rope{};
  Tensor temperatures{};  // of each row; empty: none
};

class Decoder final : public CausalModel, public LayerViews {
 public:
  Decoder(std::string_view kind, DecoderDescription description, DecoderParams params)
      : kind_(kind), d_(std::move(description)), p_(std::move(params)) {}

  using Describe = Result<DecoderDescription> (*)(const KindConfig& config);
  static Result<std::unique_ptr<Model>> build(std::string_view kind, Describe describe, const KindConfig& config,
                                              ParamLoader& loader) {
    BALLAST_TRY(DecoderDescription d, describe(config));
    BALLAST_TRY(DecoderParams params, load_decoder_params(d, loader));
    return std::unique_ptr<Model>(std::make_unique<Decoder>(kind, std::move(d), std::move(params)));
  }

  std::string_view kind() const override { return kind_; }
  uint64_t context_length() const override { return d_.context; }
  uint64_t vocab_size() const override { return d_.vocab; }
  KvShape kv_shape() const override { return decoder_kv_shape(d_); }

  const LayerViews* layer_views() const override { return this; }
  uint64_t layers() const override { return d_.layers.size(); }
  uint64_t heads() const override { return d_.q_heads; }
  ops::AttentionConfig attention_of(uint64_t layer) const override {
    return attention_config(d_.layers[static_cast<size_t>(layer)], {});
  }
  Result<Tensor> predict_from(Context& context, const Tensor& states) const override {
    const ops::LinearPart head{p_.head.weight, p_.head.options(), "logits"};
    BALLAST_TRY(Tensor logits,
                ops::linear_parts(context, states, std::span(&head, 1),
                                  {.norm = norm_step(d_.labels.final_norm, p_.final_norm), .label = "logits"}));
    return d_.logit_cap == 0 ? logits : capped(context, logits);
  }

  // Where a longer text has other frequencies, keys that were turned by the old ones are of no use.
  uint64_t past_kind(uint64_t text_length) const override {
    const ops::RopeScaling& scaling = d_.rope.scaling;
    if (scaling.kind != ops::RopeScaling::Kind::kLongRope || scaling.long_factors.empty()) return 0;
    return text_length > scaling.original_context ? 1 : 0;
  }

  uint64_t length_kind(uint64_t text_length) const override {
    for (const ops::RopeConfig* rope : {&d_.rope, &d_.local_rope}) {
      const ops::RopeScaling& scaling = rope->scaling;
      if (scaling.kind == ops::RopeScaling::Kind::kDynamic) return std::max(text_length, scaling.original_context);
    }
    return past_kind(text_length);
  }

 private:
  Result<Tensor> run(Context& context, const TextBatch& batch) const override {
    BALLAST_TRY(const DecoderPass pass, prepare(context, batch.parts));
    BALLAST_TRY(Tensor h, embed(context, batch));
    BALLAST_TRY(h, drop(context, h));
    for (uint64_t i = 0; i < p_.blocks.size(); ++i) {
      const Context::Scope scope(context, "blocks", i);
      BALLAST_TRY(h, attend(context, i, h, pass));
      BALLAST_TRY(h, think(context, i, h));
    }
    BALLAST_TRY(h, wanted_rows(context, h, batch.parts));
    if (h.count() == 0) return context.workspace().make({0, d_.vocab});
    return predict_from(context, h);
  }

  // ---------------------------------------------------------------- both ends

  Result<DecoderPass> prepare(Context& context, std::span<const BatchPart> parts) const {
    DecoderPass pass;
    std::vector<ops::RopeStretch> stretches;
    for (const BatchPart& part : parts) {
      if (part.past != nullptr) pass.past.push_back({part.past, part.position, part.rows});
      stretches.push_back({part.position, part.rows, part.text_length});
    }
    // Texts of one length without a past have the same positions.
    if (pass.past.empty()) {
      pass.sequences = parts.size();
      stretches.resize(1);
    }
    const auto tables = [&](ops::RopeConfig config) {
      if (puts_in_halves()) config.layout = ops::RopeLayout::kHalves;
      return ops::rope_tables(context, config, stretches);
    };
    using Rope = DecoderLayer::Rope;
    if (uses(Rope::kMain)) BALLAST_CHECK(assign(pass.rope, tables(d_.rope)));
    if (uses(Rope::kLocal)) BALLAST_CHECK(assign(pass.local_rope, tables(d_.local_rope)));
    if (d_.temperature != 0) BALLAST_CHECK(assign(pass.temperatures, temperatures(context, parts)));
    return pass;
  }

  bool uses(DecoderLayer::Rope rope) const {
    return std::ranges::any_of(d_.layers, [rope](const DecoderLayer& layer) { return layer.rope == rope; });
  }

  Result<Tensor> temperatures(Context& context, std::span<const BatchPart> parts) const {
    std::vector<float> factors;
    for (const BatchPart& part : parts) {
      for (uint64_t i = 0; i < part.rows; ++i) {
        const auto stretches = static_cast<double>((part.position + i) / d_.temperature_every);
        factors.push_back(static_cast<float>(1 + d_.temperature * std::log1p(stretches)));
      }
    }
    return context.workspace().from(factors, {factors.size()});
  }

  Result<Tensor> embed(Context& context, const TextBatch& batch) const {
    const bool is_done = d_.embedding_scale == 1 && !d_.learned_positions;
    context.at(is_done ? d_.labels.embedding : "tok_embeddings");
    BALLAST_TRY(Tensor h, ops::embedding_lookup(context, p_.embedding, batch.ids));
    if (d_.embedding_scale != 1) {
      BALLAST_TRY(h, ops::unary(context.at("embeddings"), UnaryOp::kScale, h, static_cast<double>(d_.embedding_scale)));
    }
    if (!d_.learned_positions) return h;
    BALLAST_TRY(const Tensor places, rows_of_positions(context.at("pos_embeddings"), p_.positions, batch.parts));
    return ops::add(context.at("embeddings"), h, places);
  }

  // Only in training: running a model has no random numbers.
  Result<Tensor> drop(Context& context, const Tensor& x) const {
    if (context.random == nullptr || d_.dropout == 0) return x;
    return ops::dropout(context, x, d_.dropout, true);
  }

  Result<Tensor> capped(Context& context, const Tensor& logits) const {
    const auto cap = static_cast<double>(d_.logit_cap);
    BALLAST_TRY(Tensor x, ops::unary(context, UnaryOp::kScale, logits, 1 / cap));
    BALLAST_TRY(x, ops::unary(context, UnaryOp::kTanh, x));
    return ops::unary(context.at("capped_logits"), UnaryOp::kScale, x, cap);
  }

  Result<Tensor> norm(Context& context, const Tensor& x, const DecoderNorm& norm) const {
    if (d_.norm == NormKind::kLayer) return ops::layer_norm(context, x, norm.gamma, norm.beta, d_.eps);
    return ops::rms_norm(context, x, norm.gamma, d_.eps, d_.norm_shift);
  }

  ops::NormStep norm_step(std::string_view label, const DecoderNorm& norm) const {
    return {.gamma = &norm.gamma,
            .beta = d_.norm == NormKind::kLayer ? &norm.beta : nullptr,
            .eps = d_.eps,
            .shift = d_.norm_shift,
            .label = label};
  }

  // How a part of a block ends: its last product, where a matrix gives it; a norm, where the model has one; h.
  struct Ending {
    std::string_view product, norm, sum;
  };
  Result<Tensor> end_part(Context& context, const Ending& ending, const DecoderMatrix& matrix, const Tensor& x,
                          const DecoderNorm& post_norm, const Tensor& h) const {
    ops::LinearOptions options = matrix.options();
    const bool is_one_step = !context.shows_steps() && !d_.post_norms && context.random == nullptr;
    if (is_one_step) options.residual = &h;
    BALLAST_TRY(const Tensor y, ops::linear(context.at(ending.product), x, matrix.weight, options));
    if (is_one_step) return y;
    return add_to(context, ending, y, post_norm, h);
  }

  Result<Tensor> add_to(Context& context, const Ending& ending, Tensor x, const DecoderNorm& post_norm,
                        const Tensor& h) const {
    if (d_.post_norms) {
      BALLAST_TRY(x, norm(context.at(ending.norm), x, post_norm));
    }
    BALLAST_TRY(x, drop(context, x));
    return ops::add(context.at(ending.sum), x, h);
  }

  // ---------------------------------------------------------------- attention

  Result<Tensor> attend(Context& context, uint64_t index, const Tensor& h, const DecoderPass& pass) const {
    const DecoderBlock& block = p_.blocks[index];
    const ops::AttentionConfig config = attention_config(d_.layers[index], pass);
    BALLAST_TRY(const Tensor qkv, project(context, block, h, pass));
    const ops::TurnOptions turn{.from_pairs = puts_in_halves(),
                                .rope = rope_of(d_.layers[index], pass),
                                .halves_label = "attention.qkv_halves",
                                .rope_label = "attention.qkv_rope",
                                .label = "attention.context"};
    BALLAST_TRY(const Tensor seen, pass.past.empty()
                                       ? see(context, config, qkv, turn)
                                       : ops::attention_decode_turned(context, config, qkv, turn, pass.past, index));
    constexpr Ending kEnding = {"attention.output", "attention.norm", "residual"};
    return end_part(context, kEnding, block.output, seen, block.attention_post_norm, h);
  }

  // Without a past.
  static Result<Tensor> see(Context& context, const ops::AttentionConfig& config, Tensor qkv,
                            const ops::TurnOptions& turn) {
    if (turn.from_pairs) {
      BALLAST_TRY(qkv, ops::pairs_to_halves(context.at(turn.halves_label), config, qkv));
    }
    if (turn.rope != nullptr) {
      BALLAST_TRY(qkv, ops::apply_rope_qkv_packed(context.at(turn.rope_label), config, qkv, *turn.rope));
    }
    return ops::attention(context.at(turn.label), config, qkv);
  }

  ops::AttentionConfig attention_config(const DecoderLayer& layer, const DecoderPass& pass) const {
    return {.q_heads = d_.q_heads,
            .kv_heads = d_.kv_heads,
            .head_dim = d_.head_dim,
            .sequences = pass.sequences,
            .causal = true,
            .window = layer.window,
            .scale = layer.score_scale,
            .soft_cap = d_.soft_cap};
  }

  // GGUF files have channels that turn together side by side. In the order that other files have, sums over channels
  // round alike: a model that is converted computes the same bits.
  bool puts_in_halves() const { return d_.rope.layout == ops::RopeLayout::kPairs && d_.rope.rotary_dim == d_.head_dim; }

  static const ops::RopeTables* rope_of(const DecoderLayer& layer, const DecoderPass& pass) {
    if (layer.rope == DecoderLayer::Rope::kNone) return nullptr;
    return layer.rope == DecoderLayer::Rope::kMain ? &pass.rope : &pass.local_rope;
  }

  // Packed [t, q | k | v] of what the norm makes of h.
  Result<Tensor> project(Context& context, const DecoderBlock& block, const Tensor& h, const DecoderPass& pass) const {
    const ops::LinearPartsOptions options{.norm = norm_step(d_.labels.attention_norm, block.attention_norm),
                                          .label = "attention.qkv"};
    const bool is_plain = !d_.qk_norm && pass.temperatures.empty();
    if (block.qkv.weight.valid()) {
      const ops::LinearPart part{block.qkv.weight, block.qkv.options(), options.label};
      BALLAST_TRY(const Tensor qkv, ops::linear_parts(context, h, std::span(&part, 1), options));
      if (is_plain) return qkv;
      BALLAST_TRY(auto parts, split(context, qkv));
      return adjust(context, block, parts, pass);
    }
    const std::array<ops::LinearPart, 3> matrices = {{{block.query.weight, block.query.options(), "attention.query"},
                                                      {block.key.weight, block.key.options(), "attention.key"},
                                                      {block.value.weight, block.value.options(), "attention.value"}}};
    if (is_plain) return ops::linear_parts(context, h, matrices, options);
    BALLAST_TRY(const Tensor x, norm(context.at(options.norm.label), h, block.attention_norm));
    std::array<Tensor, 3> parts;
    for (size_t i = 0; i < 3; ++i) {
      BALLAST_TRY(parts[i], ops::linear(context.at(matrices[i].label), x, matrices[i].weight, matrices[i].options));
    }
    return adjust(context, block, parts, pass);
  }

  // Packed, with norms of heads and temperatures.
  Result<Tensor> adjust(Context& context, const DecoderBlock& block, std::array<Tensor, 3>& parts,
                        const DecoderPass& pass) const {
    if (d_.qk_norm) {
      BALLAST_TRY(parts[0], normalise_heads(context.at("attention.query_norm"), parts[0], block.query_norm));
      BALLAST_TRY(parts[1], normalise_heads(context.at("attention.key_norm"), parts[1], block.key_norm));
    }
    // Before rope is as good as behind it: turning does not change lengths.
    if (!pass.temperatures.empty()) {
      BALLAST_TRY(parts[0], ops::scale_rows(context.at("attention.query_scaled"), parts[0], pass.temperatures));
    }
    return ops::concat_along_axis(context.at("attention.qkv"), parts, 1);
  }

  Result<std::array<Tensor, 3>> split(Context& context, const Tensor& qkv) const {
    const uint64_t q = d_.q_heads * d_.head_dim, kv = d_.kv_heads * d_.head_dim;
    std::array<Tensor, 3> parts;
    BALLAST_TRY(parts[0], ops::slice_along_axis(context, qkv, 1, 0, q));
    BALLAST_TRY(parts[1], ops::slice_along_axis(context, qkv, 1, q, kv));
    BALLAST_TRY(parts[2], ops::slice_along_axis(context, qkv, 1, q + kv, kv));
    return parts;
  }

  Result<Tensor> normalise_heads(Context& context, const Tensor& x, const DecoderNorm& weights) const {
    const Dims heads{x.dims()[0], x.dims()[1] / d_.head_dim, d_.head_dim};
    BALLAST_TRY(const Tensor y, norm(context, x.reshaped(heads), weights));
    return y.reshaped(x.dims());
  }

  // ---------------------------------------------------------------- the feed-forward part

  Result<Tensor> think(Context& context, uint64_t index, const Tensor& h) const {
    const DecoderBlock& block = p_.blocks[index];
    const ops::NormStep feed_norm = norm_step(d_.labels.feed_norm, block.feed_norm);
    constexpr Ending kEnding = {"feed_forward.output", "feed_forward.norm", "output"};
    if (!d_.layers[index].sparse) {
      BALLAST_TRY(const Tensor hidden, widen(context, block.feed, feed_norm, h));
      return end_part(context, kEnding, block.feed.down, hidden, block.feed_post_norm, h);
    }
    BALLAST_TRY(Tensor x, norm(context.at(feed_norm.label), h, block.feed_norm));
    BALLAST_TRY(x, mix(context, block.mixture, x));
    return add_to(context, kEnding, x, block.feed_post_norm, h);
  }

  // The hidden channels of what the norm makes of x.
  Result<Tensor> widen(Context& context, const DecoderFeed& feed, const ops::NormStep& feed_norm,
                       const Tensor& x) const {
    ops::LinearPartsOptions options{.norm = feed_norm, .label = "feed_forward.hidden"};
    if (!d_.gated) {
      const ops::LinearPart up{feed.up.weight, feed.up.options(d_.activation), options.label};
      return ops::linear_parts(context, x, std::span(&up, 1), options);
    }
    options.is_gated = true;
    options.gate = d_.activation;
    const std::array<ops::LinearPart, 2> parts = {{{feed.gate.weight, feed.gate.options(), "feed_forward.gate"},
                                                   {feed.up.weight, feed.up.options(), "feed_forward.up"}}};
    return ops::linear_parts(context, x, parts, options);
  }

  Result<Tensor> feed(Context& context, const DecoderFeed& feed, const Tensor& x) const {
    BALLAST_TRY(const Tensor hidden, widen(context, feed, {}, x));
    return ops::linear(context.at("feed_forward.output"), hidden, feed.down.weight, feed.down.options());
  }

  Result<Tensor> mix(Context& context, const DecoderMixture& mixture, const Tensor& x) const {
    BALLAST_TRY(const Tensor scores,
                ops::linear(context.at("experts.scores"), x, mixture.router.weight, mixture.router.options()));
    BALLAST_TRY(const Tensor gates,
                ops::expert_gates(context.at("experts.gates"), scores, d_.experts.used, d_.experts.normalise));
    BALLAST_TRY(const Tensor y,
                ops::expert_mlp(context.at("experts.output"), x, gates, mixture.experts, d_.activation));
    if (!mixture.shared_switch.weight.valid()) return y;
    BALLAST_TRY(const Tensor shared, feed(context, mixture.shared, x));
    BALLAST_TRY(Tensor share, ops::linear(context.at("experts.shared"), x, mixture.shared_switch.weight,
                                          mixture.shared_switch.options()));
    BALLAST_TRY(share, ops::unary(context, UnaryOp::kSigmoid, share));
    BALLAST_TRY(const Tensor part, ops::scale_rows(context, shared, share.reshaped({share.count()})));
    return ops::add(context.at("feed_forward.output"), y, part);
  }

  std::string_view kind_;
  DecoderDescription d_;
  DecoderParams p_;
};

}  // namespace

const ModelKind kDecoderKind = {"decoder", "Decoders from Hugging Face and GGUF: llama, qwen, gemma, phi, mixtral, ...",
                                [](const KindConfig& config, ParamLoader& params) {
                                  return Decoder::build("decoder", describe_decoder, config, params);
                                }};

const ModelKind kGptKind = {"gpt", "GPT-2: text, learned positions", [](const KindConfig& config, ParamLoader& params) {
                              return Decoder::build("gpt", describe_gpt, config, params);
                            }};

const ModelKind kMinistralKind = {"ministral", "Ministral: text, rotary positions, grouped-query attention",
                                  [](const KindConfig& config, ParamLoader& params) {
                                    return Decoder::build("ministral", describe_ministral, config, params);
                                  }};

}  // namespace ballast
