#include "ballast/models/config/decoder_config.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

Error wrong_decoder(const DecoderDescription& d, const std::string& what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("config of the {} model: {}", d.family, what));
}

// Widths that are products must be numbers before anyone compares shapes with them.
bool can_multiply(std::initializer_list<uint64_t> factors) {
  uint64_t product = 1;
  for (const uint64_t factor : factors) {
    const auto next = checked_mul(product, factor);
    if (!next) return false;
    product = *next;
  }
  return true;
}

Status check_heads(const DecoderDescription& d) {
  if (d.q_heads == 0 || d.kv_heads == 0 || d.q_heads % d.kv_heads != 0) {
    return wrong_decoder(d, fmt::format("{} query heads cannot share {} key heads", d.q_heads, d.kv_heads));
  }
  if (d.head_dim != 0 && can_multiply({3, d.q_heads, d.head_dim})) return {};
  return wrong_decoder(d, fmt::format("{} heads of {} channels cannot be", d.q_heads, d.head_dim));
}

Status check_ropes(const DecoderDescription& d) {
  for (const ops::RopeConfig* rope : {&d.rope, &d.local_rope}) {
    if (rope->rotary_dim > d.head_dim || rope->rotary_dim % 2 != 0) {
      return wrong_decoder(d, fmt::format("of heads of {} channels {} cannot be turned: it must be even and no more",
                                          d.head_dim, rope->rotary_dim));
    }
    if (auto status = ops::check_rope(*rope); !status) {
      return std::move(status).error().with_context(fmt::format("config of the {} model", d.family));
    }
  }
  if (d.temperature_every != 0 && std::isfinite(d.temperature)) return {};
  return wrong_decoder(
      d, fmt::format("queries cannot be scaled by {} every {} positions", d.temperature, d.temperature_every));
}

Status check_experts(const DecoderDescription& d) {
  const DecoderExperts& experts = d.experts;
  if (experts.count == 0) return {};
  if (experts.used == 0 || experts.used > experts.count) {
    return wrong_decoder(d, fmt::format("{} of {} experts cannot be used per token", experts.used, experts.count));
  }
  const bool fits = can_multiply({2, experts.hidden, experts.count}) && can_multiply({experts.count, d.width});
  if (experts.hidden != 0 && fits) return {};
  return wrong_decoder(d, fmt::format("{} experts of width {} cannot be", experts.count, experts.hidden));
}

bool is_sensible(float value) { return std::isfinite(value) && value >= 0; }

}  // namespace

KvShape decoder_kv_shape(const DecoderDescription& d) {
  KvShape shape{d.layers.size(), d.kv_heads, d.head_dim, d.context};
  for (const DecoderLayer& layer : d.layers) shape.windows.push_back(layer.window);
  return shape;
}

Status check_decoder(const DecoderDescription& d) {
  if (d.layers.empty()) return wrong_decoder(d, "it has no layers");
  if (d.width == 0 || d.context == 0) {
    return wrong_decoder(d, fmt::format("width {} and context {} must be above 0", d.width, d.context));
  }
  if (!checked_mul(d.hidden, 2)) return wrong_decoder(d, fmt::format("a feed-forward part of {} cannot be", d.hidden));
  if (!(d.eps >= 0 && d.eps < 1)) return wrong_decoder(d, fmt::format("the norm's epsilon is {}", d.eps));
  if (!is_sensible(d.soft_cap) || !is_sensible(d.logit_cap) || !is_sensible(d.embedding_scale)) {
    return wrong_decoder(d, fmt::format("caps of {} and {} and an embedding scale of {} cannot be", d.soft_cap,
                                        d.logit_cap, d.embedding_scale));
  }
  if (!(d.dropout >= 0 && d.dropout < 1))
    return wrong_decoder(d, fmt::format("dropout is {}: from 0 to below 1", d.dropout));
  BALLAST_CHECK(check_heads(d));
  BALLAST_CHECK(check_ropes(d));
  return check_experts(d);
}

Result<DecoderDescription> describe_decoder(const KindConfig& config) {
  switch (config.words) {
    case KindConfig::Words::kHuggingFace: return describe_huggingface(config.text);
    case KindConfig::Words::kGguf: return describe_gguf(config.text);
    case KindConfig::Words::kNewerGptrs: return describe_gptrs(config.gptrs_kind, config.text);
    default: break;
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "config of the decoder model: it must hold what a config.json says, as \"huggingface\", or the "
                    "metadata of a GGUF file, as \"gguf\"");
}

}  // namespace ballast
