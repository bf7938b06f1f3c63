#include "ballast/models/text_inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/device/host_values.h"
#include "ballast/ops/attention.h"

namespace ballast {

namespace {

// Keeps what a decoder calls "blocks.3.output", and the last form of what it calls "blocks.3.attention.qkv...".
class LayerSink final : public TraceSink {
 public:
  explicit LayerSink(std::vector<TextInspection::Layer>& layers) : layers_(layers) {}

  Status on_output(std::string_view name, std::string_view /*functional*/, const Tensor& output) override {
    if (at_ == layers_.size() || !name.starts_with(fmt::format("blocks.{}.", at_))) return {};
    const std::string_view part = name.substr(fmt::format("blocks.{}.", at_).size());
    if (part.starts_with("attention.qkv")) layers_[at_].qkv = output;
    if (part != "output") return {};
    layers_[at_].states = output;
    ++at_;
    return {};
  }
  size_t seen() const { return at_; }

 private:
  std::vector<TextInspection::Layer>& layers_;
  size_t at_ = 0;
};

// Scores of one query, from the first position that it sees to itself, become shares.
void softmax(std::span<float> scores) {
  const float most = *std::ranges::max_element(scores);
  double sum = 0;
  for (float& score : scores) sum += score = std::exp(score - most);
  for (float& score : scores) score = static_cast<float>(score / sum);
}

float score_of(const ops::AttentionConfig& config, const float* query, const float* key) {
  double sum = 0;
  for (size_t i = 0; i < config.head_dim; ++i) sum += double{query[i]} * double{key[i]};
  const float score = static_cast<float>(sum) * ops::score_scale<float>(config);
  return config.soft_cap == 0 ? score : config.soft_cap * std::tanh(score / config.soft_cap);
}

}  // namespace

Result<TextInspection> inspect_text(const CausalLm& model, Context& context, std::span<const TokenId> ids) {
  const LayerViews* const views = model.layer_views();
  if (views == nullptr) return make_error(ErrorCode::kUnsupported, "the layers of this model cannot be looked at");
  TextInspection found;
  found.layers.resize(static_cast<size_t>(views->layers()));
  LayerSink sink(found.layers);
  context.trace = &sink;
  auto logits = model.forward_tokens(context, ids, LogitRows::kAll);
  context.trace = nullptr;
  BALLAST_TRY(found.logits, std::move(logits));
  if (sink.seen() == found.layers.size()) return found;
  return make_error(ErrorCode::kUnsupported, fmt::format("only {} of {} layers of this model showed what they compute",
                                                         sink.seen(), found.layers.size()));
}

Result<std::vector<float>> attention_weights(const ops::AttentionConfig& config, const Tensor& qkv) {
  BALLAST_CHECK(ops::check_packed(config, qkv));
  BALLAST_TRY(const std::vector<float> values, floats_of(qkv));
  const auto length = static_cast<size_t>(qkv.dims()[0]), width = static_cast<size_t>(qkv.dims()[1]);
  const auto heads = static_cast<size_t>(config.q_heads), head_dim = static_cast<size_t>(config.head_dim);
  const auto shared = static_cast<size_t>(config.q_heads / config.kv_heads);  // queries' heads for each of keys
  std::vector<float> weights(heads * length * length);
  for (size_t head = 0; head < heads; ++head) {
    const size_t key_at = (heads + head / shared) * head_dim;
    for (size_t row = 0; row < length; ++row) {
      const size_t first = config.window == 0 || row < config.window ? 0 : row + 1 - static_cast<size_t>(config.window);
      const std::span<float> seen(weights.data() + (head * length + row) * length + first, row + 1 - first);
      const float* const query = values.data() + row * width + head * head_dim;
      for (size_t i = 0; i < seen.size(); ++i) {
        seen[i] = score_of(config, query, values.data() + (first + i) * width + key_at);
      }
      softmax(seen);
    }
  }
  return weights;
}

}  // namespace ballast
