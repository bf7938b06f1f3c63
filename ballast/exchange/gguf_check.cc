#include "ballast/exchange/gguf_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/decoder_config.h"
#include "ballast/ops/rotary.h"

namespace ballast {

namespace {

// The file as a reader will see it, without tensors and vocabulary.
std::string written_config(const GgufModel& model) {
  Description file;
  file.format = "gguf";
  file.metadata.push_back({"general.architecture", model.architecture});
  file.metadata.insert(file.metadata.end(), model.early.begin(), model.early.end());
  file.metadata.insert(file.metadata.end(), model.settings.begin(), model.settings.end());
  return runnable_config(file)->text;
}

// Collects the first thing that differs.
class Comparison {
 public:
  template <typename T>
  void same(std::string_view what, const T& source, const T& file) {
    if (difference_.empty() && !(source == file))
      difference_ = fmt::format("{} would be {} instead of {}", what, file, source);
  }
  void truth(std::string_view what, bool holds) {
    if (difference_.empty() && !holds) difference_ = what;
  }

  Status result(std::string_view family, std::string_view architecture) const {
    if (difference_.empty()) return {};
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("a GGUF file cannot say what this {} model's config says: in the architecture \"{}\" {}. "
                    "The model runs as it is, and can be copied to safetensors",
                    family, architecture, difference_));
  }

 private:
  std::string difference_;
};

float scale_of(const DecoderDescription& d, const DecoderLayer& layer) {
  if (layer.score_scale != 0) return layer.score_scale;
  return static_cast<float>(1 / std::sqrt(static_cast<double>(d.head_dim)));
}

void compare_layers(const DecoderDescription& a, const DecoderDescription& b, Comparison& compare) {
  compare.same("the number of layers", a.layers.size(), b.layers.size());
  for (size_t i = 0; i < std::min(a.layers.size(), b.layers.size()); ++i) {
    const auto named = [&](std::string_view what) { return fmt::format("{} of layer {}", what, i); };
    compare.same(named("the sliding window"), a.layers[i].window, b.layers[i].window);
    compare.same(named("the rope"), static_cast<int>(a.layers[i].rope), static_cast<int>(b.layers[i].rope));
    compare.same(named("the scale of scores"), scale_of(a, a.layers[i]), scale_of(b, b.layers[i]));
    compare.same(named("whether it is a mixture of experts:"), a.layers[i].sparse, b.layers[i].sparse);
  }
}

void compare_experts(const DecoderExperts& a, const DecoderExperts& b, Comparison& compare) {
  compare.same("the number of experts", a.count, b.count);
  if (a.count == 0) return;
  compare.same("the number of experts used", a.used, b.used);
  compare.same("the width of experts", a.hidden, b.hidden);
  compare.same("the width of the shared expert", a.shared_hidden, b.shared_hidden);
  compare.same("whether the weights of experts add up to 1:", a.normalise, b.normalise);
}

// Scaling that travels as a tensor is none in the keys.
void compare_rope(const DecoderDescription& a, const DecoderDescription& b, Comparison& compare) {
  using Rope = DecoderLayer::Rope;
  if (std::ranges::all_of(a.layers, [](const DecoderLayer& layer) { return layer.rope == Rope::kNone; })) return;
  const ops::RopeScaling& from = a.rope.scaling;
  const ops::RopeScaling& to = b.rope.scaling;
  compare.same("theta", static_cast<float>(a.rope.theta), static_cast<float>(b.rope.theta));
  compare.same("the channels that turn", a.rope.rotary_dim, b.rope.rotary_dim);
  if (from.kind == ops::RopeScaling::Kind::kLlama3 || from.kind == ops::RopeScaling::Kind::kLongRope) return;
  compare.same("the kind of rope scaling", static_cast<int>(from.kind), static_cast<int>(to.kind));
  if (from.kind == ops::RopeScaling::Kind::kNone) return;
  compare.same("the factor of rope scaling", static_cast<float>(from.factor), static_cast<float>(to.factor));
  if (from.kind != ops::RopeScaling::Kind::kYarn) return;
  compare.same("yarn's original context", from.original_context, to.original_context);
  compare.same("yarn's beta_fast", from.beta_fast, to.beta_fast);
  compare.same("yarn's beta_slow", from.beta_slow, to.beta_slow);
  compare.same("yarn's attention factor", static_cast<float>(ops::rope_magnitude(from)),
               static_cast<float>(ops::rope_magnitude(to)));
}

void compare_parts(const DecoderDescription& a, const DecoderDescription& b, Comparison& compare) {
  compare.same("the width", a.width, b.width);
  compare.same("the hidden width", a.hidden, b.hidden);
  compare.same("the number of heads", a.q_heads, b.q_heads);
  compare.same("the number of key heads", a.kv_heads, b.kv_heads);
  compare.same("the width of a head", a.head_dim, b.head_dim);
  compare.same("the norms' epsilon", a.eps, b.eps);
  compare.same("the cap of scores", a.soft_cap, b.soft_cap);
  compare.same("the cap of logits", a.logit_cap, b.logit_cap);
  compare.same("the scale of embeddings", a.embedding_scale, b.embedding_scale);
  compare.same("the temperature of queries", static_cast<float>(a.temperature), static_cast<float>(b.temperature));
  compare.truth("the activation would be another one", a.activation == b.activation);
  compare.truth("the norms would be others",
                a.norm == b.norm && a.post_norms == b.post_norms && a.qk_norm == b.qk_norm);
  compare.truth("the feed-forward part would be another one", a.gated == b.gated);
  if (a.temperature != 0) compare.same("the temperature's step", a.temperature_every, b.temperature_every);
}

}  // namespace

Status check_gguf_says_the_same(const DecoderDescription& source, const GgufModel& model) {
  BALLAST_TRY(const DecoderDescription file, describe_gguf(written_config(model)));
  Comparison compare;
  compare_parts(source, file, compare);
  compare_layers(source, file, compare);
  compare_experts(source.experts, file.experts, compare);
  compare_rope(source, file, compare);
  return compare.result(source.family, model.architecture);
}

Status check_gguf_says_the_same(const BertDescription& source, const GgufModel& model) {
  BALLAST_TRY(const BertDescription file,
              describe_bert({.text = written_config(model), .words = KindConfig::Words::kGguf}));
  Comparison compare;
  compare.same("the number of layers", source.layers, file.layers);
  compare.same("the width", source.width, file.width);
  compare.same("the hidden width", source.hidden, file.hidden);
  compare.same("the number of heads", source.heads, file.heads);
  compare.same("the number of positions", source.positions, file.positions);
  compare.same("the norms' epsilon", source.eps, file.eps);
  compare.truth("the activation would be another one", source.activation == file.activation);
  return compare.result("bert", model.architecture);
}

}  // namespace ballast
