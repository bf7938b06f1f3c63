#include "ballast/models/decoder_params.h"

#include <fmt/format.h>

#include <cstring>

namespace ballast {

namespace {

using enum DecoderPart;

Dims matrix_dims(WeightLayout layout, uint64_t out, uint64_t in) {
  return layout == WeightLayout::kOutIn ? Dims{out, in} : Dims{in, out};
}

// The order in which it asks is that of the parameters of a model that trains, and so of the files written then.
class DecoderLoader {
 public:
  DecoderLoader(DecoderDescription& description, ParamLoader& params) : d_(description), params_(params) {
    place_.prefix = find_prefix();
  }

  Result<DecoderParams> load() {
    DecoderParams model;
    BALLAST_TRY(model.embedding, take_embedding());
    if (d_.learned_positions) BALLAST_CHECK(assign(model.positions, take(kPositions, {d_.context, d_.width})));
    BALLAST_CHECK(load_rope_divisors());
    for (uint64_t i = 0; i < d_.layers.size(); ++i) {
      place_.layer = i;
      BALLAST_TRY(DecoderBlock block, load_block(d_.layers[i]));
      model.blocks.push_back(std::move(block));
    }
    BALLAST_TRY(model.final_norm, norm(kFinalNorm, d_.width));
    BALLAST_CHECK(load_head(model));
    return model;
  }

 private:
  // ---- names

  std::string_view find_prefix() const {
    for (const std::string_view prefix : d_.naming->prefixes) {
      for (const DecoderPart part : {kEmbedding, kFinalNorm}) {
        const DecoderName* name = d_.naming->find(part);
        if (params_.has(decoder_param_name(*name, {.prefix = prefix}, name->weight))) return prefix;
      }
    }
    return d_.naming->prefixes.front();
  }

  bool has(DecoderPart part) const {
    const DecoderName* name = d_.naming->find(part);
    return name != nullptr && params_.has(decoder_param_name(*name, place_, name->weight));
  }
  bool is_there(Presence presence, DecoderPart part) const {
    return presence == Presence::kRequired || (presence == Presence::kIfThere && has(part));
  }

  Result<Param> take(DecoderPart part, const Dims& dims) {
    const DecoderName* name = d_.naming->find(part);
    if (name == nullptr) {
      return make_error(ErrorCode::kUnsupported, fmt::format("{} models have no name for part {} of a layer", d_.family,
                                                             static_cast<int>(part)));
    }
    return params_.get(decoder_param_name(*name, place_, name->weight), dims);
  }

  // Of a part that has a name.
  std::string bias_name(DecoderPart part) const {
    const DecoderName* name = d_.naming->find(part);
    return decoder_param_name(*name, place_, name->bias);
  }

  Result<DecoderNorm> norm(DecoderPart part, uint64_t width) {
    DecoderNorm norm;
    BALLAST_TRY(norm.gamma, take(part, {width}));
    if (d_.norm == NormKind::kRms) return norm;
    BALLAST_TRY(norm.beta, params_.get(bias_name(part), {width}));
    return norm;
  }

  Result<DecoderMatrix> matrix(DecoderPart part, uint64_t out, uint64_t in, Presence bias) {
    DecoderMatrix matrix;
    matrix.layout = d_.layout;
    BALLAST_TRY(matrix.weight, take(part, matrix_dims(d_.layout, out, in)));
    if (bias == Presence::kRequired || (bias == Presence::kIfThere && params_.has(bias_name(part)))) {
      BALLAST_TRY(matrix.bias, params_.get(bias_name(part), {out}));
    }
    return matrix;
  }

  // ---- what is not in a layer

  Status load_head(DecoderParams& model) {
    model.head.weight = model.embedding;
    if (!has(kEmbedding) && has(kHead)) return {};  // it stands in for both
    if (!has(kHead) && d_.tied) return {};
    model.head.layout = d_.head_layout;
    return assign(model.head.weight, take(kHead, matrix_dims(d_.head_layout, d_.vocab, d_.width)));
  }

  Result<Param> take_embedding() {
    const DecoderPart part = !has(kEmbedding) && has(kHead) ? kHead : kEmbedding;
    if (d_.vocab != 0) return take(part, {d_.vocab, d_.width});
    const DecoderName* name = d_.naming->find(part);
    BALLAST_TRY(const Param param, params_.get_rank(decoder_param_name(*name, place_, name->weight), 2));
    d_.vocab = param.shape()[0];
    if (d_.vocab < d_.least_vocab) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("parameter \"{}\" has shape {}, too few rows for {} tokens", param.name(),
                                    param.shape().to_string(), d_.least_vocab));
    }
    if (param.shape()[1] == d_.width) return param;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("parameter \"{}\" has shape {}, the model's config asks for [{}, {}]", param.name(),
                                  param.shape().to_string(), d_.vocab, d_.width));
  }

  // Files that say how much slower each channel turns, instead of how to compute it.
  Status load_rope_divisors() {
    ops::RopeScaling& scaling = d_.rope.scaling;
    if (has(kRopeDivisors)) {
      BALLAST_TRY(scaling.short_factors, divisors(kRopeDivisors));
      if (scaling.kind == ops::RopeScaling::Kind::kLinear) {
        for (double& divisor : scaling.short_factors) divisor *= scaling.factor;
      }
      scaling.kind = ops::RopeScaling::Kind::kLongRope;
      scaling.attention_factor = scaling.attention_factor.value_or(1);
      return check_decoder(d_);
    }
    if (!has(kRopeLongDivisors) || !has(kRopeShortDivisors)) return {};
    scaling.kind = ops::RopeScaling::Kind::kLongRope;
    BALLAST_TRY(scaling.short_factors, divisors(kRopeShortDivisors));
    BALLAST_TRY(scaling.long_factors, divisors(kRopeLongDivisors));
    return check_decoder(d_);
  }

  Result<std::vector<double>> divisors(DecoderPart part) {
    const uint64_t count = d_.rope.rotary_dim / 2;
    BALLAST_TRY(const Param param, take(part, {count}));
    if (param.dtype() != DType::kF32) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("parameter \"{}\" is {}, not f32", param.name(), dtype_name(param.dtype())));
    }
    BALLAST_TRY(const Lease lease, param.store().whole(param));
    std::vector<float> values(count);
    std::memcpy(values.data(), lease.bytes().data(), count * sizeof(float));
    return std::vector<double>(values.begin(), values.end());
  }

  // ---- layers

  Result<DecoderBlock> load_block(const DecoderLayer& layer) {
    const uint64_t q = d_.q_heads * d_.head_dim;
    DecoderBlock block;
    BALLAST_CHECK(load_projections(block));
    BALLAST_TRY(block.output, matrix(kOutput, d_.width, q, d_.output_bias));
    if (layer.sparse) BALLAST_CHECK(assign(block.mixture, mixture()));
    else BALLAST_CHECK(assign(block.feed, feed(kGate, kUp, kDown, d_.hidden)));
    BALLAST_CHECK(load_norms(block));
    pass_over_buffers();
    return block;
  }

  Status load_norms(DecoderBlock& block) {
    BALLAST_TRY(block.attention_norm, norm(kAttentionNorm, d_.width));
    BALLAST_TRY(block.feed_norm, norm(kFeedNorm, d_.width));
    if (d_.qk_norm) {
      BALLAST_TRY(block.query_norm, norm(kQueryNorm, d_.head_dim));
      BALLAST_TRY(block.key_norm, norm(kKeyNorm, d_.head_dim));
    }
    if (d_.post_norms) {
      BALLAST_TRY(block.attention_post_norm, norm(kAttentionPostNorm, d_.width));
      BALLAST_TRY(block.feed_post_norm, norm(kFeedPostNorm, d_.width));
    }
    return {};
  }

  void pass_over_buffers() {
    for (const DecoderPart part : {kMaskBuffer, kMaskValueBuffer, kRopeBuffer}) {
      const DecoderName* name = d_.naming->find(part);
      if (name != nullptr) params_.pass_over(decoder_param_name(*name, place_, name->weight));
    }
  }

  Status load_projections(DecoderBlock& block) {
    const uint64_t q = d_.q_heads * d_.head_dim, kv = d_.kv_heads * d_.head_dim;
    if (is_there(d_.fused_qkv, kQkv)) return assign(block.qkv, matrix(kQkv, q + 2 * kv, d_.width, d_.qkv_bias));
    BALLAST_TRY(block.query, matrix(kQuery, q, d_.width, d_.qkv_bias));
    BALLAST_TRY(block.key, matrix(kKey, kv, d_.width, d_.qkv_bias));
    return assign(block.value, matrix(kValue, kv, d_.width, d_.qkv_bias));
  }

  Result<DecoderFeed> feed(DecoderPart gate, DecoderPart up, DecoderPart down, uint64_t hidden) {
    DecoderFeed feed;
    if (gate == kGate && d_.gated && is_there(d_.fused_gate_up, kGateUp)) {
      BALLAST_TRY(feed.gate, matrix(kGateUp, 2 * hidden, d_.width, Presence::kAbsent));
      feed.up = feed.gate;
      feed.gate.rows = {0, hidden};
      feed.up.rows = {hidden, hidden};
    } else {
      if (d_.gated) BALLAST_CHECK(assign(feed.gate, matrix(gate, hidden, d_.width, d_.feed_bias)));
      BALLAST_TRY(feed.up, matrix(up, hidden, d_.width, d_.feed_bias));
    }
    BALLAST_TRY(feed.down, matrix(down, d_.width, hidden, d_.feed_bias));
    return feed;
  }

  // ---- experts

  Result<DecoderMixture> mixture() {
    DecoderMixture mixture;
    BALLAST_TRY(mixture.router, matrix(kRouter, d_.experts.count, d_.width, Presence::kAbsent));
    BALLAST_TRY(mixture.experts, has(kStackedDown) ? stacked_experts() : single_experts());
    if (d_.experts.shared_hidden == 0) return mixture;
    BALLAST_TRY(mixture.shared, feed(kSharedGate, kSharedUp, kSharedDown, d_.experts.shared_hidden));
    BALLAST_TRY(mixture.shared_switch, matrix(kSharedSwitch, 1, d_.width, Presence::kAbsent));
    return mixture;
  }

  Result<std::vector<ops::Expert>> single_experts() {
    std::vector<ops::Expert> experts;
    const uint64_t hidden = d_.experts.hidden;
    for (place_.expert = 0; place_.expert < d_.experts.count; ++place_.expert) {
      ops::Expert expert;
      BALLAST_TRY(expert.gate.weight, take(kExpertGate, {hidden, d_.width}));
      BALLAST_TRY(expert.up.weight, take(kExpertUp, {hidden, d_.width}));
      BALLAST_TRY(expert.down.weight, take(kExpertDown, {d_.width, hidden}));
      experts.push_back(std::move(expert));
    }
    return experts;
  }

  // [experts, out, in]: each expert is some rows of it.
  Result<std::vector<ops::Expert>> stacked_experts() {
    const uint64_t count = d_.experts.count, hidden = d_.experts.hidden;
    const bool fused = has(kStackedGateUp);
    Param gate, up, down;
    if (fused) {
      BALLAST_TRY(gate, take(kStackedGateUp, {count, 2 * hidden, d_.width}));
      up = gate;
    } else {
      BALLAST_TRY(gate, take(kStackedGate, {count, hidden, d_.width}));
      BALLAST_TRY(up, take(kStackedUp, {count, hidden, d_.width}));
    }
    BALLAST_TRY(down, take(kStackedDown, {count, d_.width, hidden}));
    std::vector<ops::Expert> experts;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t first = i * hidden;
      experts.push_back({.gate = {gate, {fused ? 2 * first : first, hidden}},
                         .up = {up, {fused ? 2 * first + hidden : first, hidden}},
                         .down = {down, {i * d_.width, d_.width}}});
    }
    return experts;
  }

  DecoderDescription& d_;
  ParamLoader& params_;
  DecoderPlace place_;
};

}  // namespace

Result<DecoderParams> load_decoder_params(DecoderDescription& description, ParamLoader& params) {
  return DecoderLoader(description, params).load();
}

}  // namespace ballast
