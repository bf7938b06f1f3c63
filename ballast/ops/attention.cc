#include "ballast/ops/attention.h"

#include <fmt/format.h>

#include "ballast/base/checked.h"
#include "ballast/ops/check.h"
#include "ballast/ops/rotary.h"
#include "ballast/ops/rotary_order.h"

namespace ballast::ops {

namespace {

std::string config_text(const AttentionConfig& config) {
  std::string text =
      fmt::format("{} query heads and {} key heads of {}", config.q_heads, config.kv_heads, config.head_dim);
  if (config.sequences != 1) text += fmt::format(", {} sequences", config.sequences);
  if (!config.causal) text += ", not causal";
  if (config.window != 0) text += fmt::format(", window {}", config.window);
  if (config.soft_cap != 0) text += fmt::format(", capped at {}", config.soft_cap);
  return text;
}

}  // namespace

Status check_packed(const AttentionConfig& config, const Tensor& qkv) {
  BALLAST_CHECK(check_activation("qkv", qkv, 2));
  if (config.q_heads == 0 || config.kv_heads == 0 || config.head_dim == 0 || config.q_heads % config.kv_heads != 0) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: query heads must be a multiple of key heads, and none of them 0", config_text(config)));
  }
  if (config.window != 0 && !config.causal) return refused(config_text(config), "a window looks back: it is causal");
  if (!(config.soft_cap >= 0)) return refused(config_text(config), "a cap is above 0");
  const uint64_t width = config.q_width() + 2 * config.kv_width();
  if (config.sequences == 0 || qkv.dims()[0] % config.sequences != 0) {
    return does_not_fit(named("qkv", qkv), config_text(config),
                        "its rows must be a multiple of the sequences, which all have the same length");
  }
  if (qkv.dims()[1] == width) return {};
  return does_not_fit(named("qkv", qkv), config_text(config),
                      fmt::format("the last dimension of qkv must be {}", width));
}

Status AttentionArgs::check() const { return check_packed(config, qkv); }
std::string AttentionArgs::text() const { return fmt::format("{}, {}", typed(qkv), config_text(config)); }

Status AttentionDecodeCacheArgs::check_layout() const {
  const KvShape& shape = layout().shape();
  if (shape.kv_heads != config.kv_heads || shape.head_dim != config.head_dim) {
    return does_not_fit(config_text(config), fmt::format("a past of {} heads of {}", shape.kv_heads, shape.head_dim),
                        "key heads and their size must be the same");
  }
  if ((shape.dtype == DType::kF64) != (qkv.dtype() == DType::kF64)) {
    return does_not_fit("qkv " + typed(qkv), fmt::format("a past of {}", dtype_name(shape.dtype)),
                        "activations of f64 need a past of f64, and f32 need one of f32 or f16");
  }
  if (layer >= shape.layers) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("layer {} is outside a past of {} layers", layer, shape.layers));
  }
  const uint64_t kept = shape.window(layer);
  if (kept == 0 || (config.window != 0 && config.window <= kept)) return {};
  return does_not_fit(config_text(config), fmt::format("layer {} of a past that keeps {} positions of it", layer, kept),
                      "the window must not be larger");
}

Status AttentionDecodeCacheArgs::check_part(const KvRows& part) const {
  const uint64_t most = layout().shape().most_positions;
  if (!range_fits(part.position, part.rows, most)) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} positions after {} do not fit the model's context of {}", part.rows, part.position, most));
  }
  if (part.rows == 0) return {};
  const KvGroup window{.window = config.window, .layers = {}};
  const auto table = pages(part);
  const uint64_t end = (part.position + part.rows - 1) / kPagePositions + 1;
  for (uint64_t i = window.first_page(part.position); i < end; ++i) {
    if (i < table.size() && table[i] != nullptr) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("positions {} to {} look at page {} of layer {}, which is not there", part.position,
                                  part.position + part.rows - 1, i, layer));
  }
  return {};
}

Status AttentionDecodeCacheArgs::check() const {
  BALLAST_CHECK(check_packed(config, qkv));
  if (config.sequences != 1 || !config.causal) {
    return refused(config_text(config), "with a past the parts are the sequences, and they are causal");
  }
  if (parts.empty()) return refused(config_text(config), "there must be a part");
  BALLAST_CHECK(check_layout());
  uint64_t rows = 0;
  for (const KvRows& part : parts) {
    if (part.past->layout != parts.front().past->layout) return refused(config_text(config), "pasts of two layouts");
    BALLAST_CHECK(check_part(part));
    rows += part.rows;
  }
  if (rows == qkv.dims()[0]) return {};
  return does_not_fit(named("qkv", qkv), fmt::format("parts of {} rows", rows), "both must have as many rows");
}
std::string AttentionDecodeCacheArgs::text() const {
  return fmt::format("{} in {} parts, {}, past of {}", typed(qkv), parts.size(), config_text(config),
                     dtype_name(layout().shape().dtype));
}

Status AttentionDecodeTurnedArgs::check() const {
  BALLAST_CHECK(attention.check());
  if (turn.from_pairs) BALLAST_CHECK((PairsToHalvesArgs{attention.config, attention.qkv}.check()));
  if (turn.rope == nullptr) return {};
  return ApplyRopeQkvPackedArgs{attention.config, attention.qkv, *turn.rope}.check();
}
std::string AttentionDecodeTurnedArgs::text() const {
  return fmt::format("{}{}{}", attention.text(), turn.from_pairs ? ", from pairs" : "",
                     turn.rope != nullptr ? ", by " + typed(turn.rope->cosines) : "");
}

bool AttentionDecodeTurnedArgs::is_taken_apart(const Context& context) const {
  const Registry& registry = context.registry();
  return registry.is_overridden("attention_decode_cache") ||
         (turn.from_pairs && registry.is_overridden("pairs_to_halves")) ||
         (turn.rope != nullptr && registry.is_overridden("apply_rope_qkv_packed"));
}

Result<Tensor> AttentionDecodeTurnedArgs::run_in_steps(Context& context) const {
  const AttentionConfig& config = attention.config;
  Tensor qkv = attention.qkv;
  if (turn.from_pairs) {
    BALLAST_TRY(qkv, pairs_to_halves(context.at(turn.halves_label), config, qkv));
  }
  if (turn.rope != nullptr) {
    BALLAST_TRY(qkv, apply_rope_qkv_packed(context.at(turn.rope_label), config, qkv, *turn.rope));
  }
  return attention_decode_cache(context.at(turn.label), config, qkv, attention.parts, attention.layer);
}

Result<Tensor> attention(Context& context, const AttentionConfig& config, const Tensor& qkv) {
  return context.registry().call(context, AttentionArgs{config, qkv});
}
Result<Tensor> attention_decode_cache(Context& context, const AttentionConfig& config, const Tensor& qkv,
                                      std::span<const KvRows> parts, uint64_t layer) {
  return context.registry().call(context, AttentionDecodeCacheArgs{config, qkv, parts, layer});
}
Result<Tensor> attention_decode_turned(Context& context, const AttentionConfig& config, const Tensor& qkv,
                                       const TurnOptions& turn, std::span<const KvRows> parts, uint64_t layer) {
  const AttentionDecodeTurnedArgs args{turn, {config, qkv, parts, layer}};
  if (context.shows_steps()) return args.run_in_steps(context);
  return context.at(turn.label).registry().call(context, args);
}

}  // namespace ballast::ops
