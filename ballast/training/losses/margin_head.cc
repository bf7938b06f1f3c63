#include "ballast/training/losses/margin_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "ballast/base/checked.h"
#include "ballast/nn/initialize.h"
#include "ballast/training/losses/loss_parts.h"

namespace ballast {

namespace {

Error bad_head(const std::string& what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("margin head: {}", what));
}

Result<ops::AngularMargin> margin_kind(const MarginHeadConfig& config) {
  const bool is_arc_face = config.kind == "arcface";
  if (config.easy_margin && !is_arc_face) return bad_head("an easy margin is there for arcface only");
  if (is_arc_face) return config.easy_margin ? ops::AngularMargin::kEasyArcFace : ops::AngularMargin::kArcFace;
  if (config.kind == "cosface") return ops::AngularMargin::kCosFace;
  if (config.kind == "sphereface") return ops::AngularMargin::kSphereFace;
  return bad_head(fmt::format("there is no kind \"{}\"; there are: arcface, cosface, sphereface", config.kind));
}

void scale_to_unit_length(std::span<float> row) {
  double sum = 0;
  for (const float value : row) sum += static_cast<double>(value) * static_cast<double>(value);
  const double length = std::max(std::sqrt(sum), 1e-12);
  for (float& value : row) value = static_cast<float>(static_cast<double>(value) / length);
}

}  // namespace

Result<size_t> add_margin_centers(TrainedParams& memory, const std::string& name, const MarginHeadConfig& config,
                                  uint64_t features, uint64_t classes, uint64_t seed) {
  const auto rows = checked_mul(classes, config.sub_centers);
  if (features == 0 || rows.value_or(0) == 0) {
    return bad_head(fmt::format("{} features, {} classes and {} sub-centers: each must be 1 at least", features,
                                classes, config.sub_centers));
  }
  TensorInfo info;
  info.name = name;
  info.dtype = DType::kF32;
  info.shape = Shape{*rows, features};
  info.requires_grad = true;
  BALLAST_TRY(const size_t index, memory.add(std::move(info)));
  BALLAST_CHECK(nn::initialize(memory.bytes(index), memory.params()[index], nn::Initial::normal(1), seed));
  const auto values = memory.values<float>(index);
  for (size_t at = 0; at < values.size(); at += features) scale_to_unit_length(values.subspan(at, features));
  return index;
}

Result<MarginHead> MarginHead::make(const MarginHeadConfig& config, const Param& centers) {
  BALLAST_TRY(const ops::AngularMargin kind, margin_kind(config));
  const Shape& shape = centers.shape();
  if (shape.rank() == 2 && config.sub_centers != 0 && shape.dims()[0] % config.sub_centers == 0) {
    return MarginHead(config, kind, centers);
  }
  return bad_head(fmt::format("centers \"{}\" {} are not [classes * {}, features]", centers.name(), shape.to_string(),
                              config.sub_centers));
}

Result<Tensor> MarginHead::cosines(Context& context, const Tensor& rows) const {
  constexpr std::array<size_t, 2> kTurned = {1, 0};
  std::vector<uint32_t> all(static_cast<size_t>(centers_.shape().dims()[0]));
  std::iota(all.begin(), all.end(), 0U);
  BALLAST_TRY(const Tensor centers, ops::embedding_lookup(context, centers_, all, rows.dtype()));
  BALLAST_TRY(const Tensor unit_centers, unit_rows(context, centers));
  BALLAST_TRY(const Tensor turned, ops::transpose(context, unit_centers, kTurned));
  BALLAST_TRY(const Tensor unit, unit_rows(context, rows));
  BALLAST_TRY(const Tensor products, ops::matmul(context, unit, turned));
  if (config_.sub_centers == 1) return products;
  // The largest of each class: a window over its sub-centers.
  const uint64_t n = rows.dims()[0];
  BALLAST_TRY(const Tensor by_class, ops::reshape(context, products, {n, classes(), config_.sub_centers, 1}));
  BALLAST_TRY(
      const Tensor largest,
      ops::max_pool2d_nhwc(context, by_class, {.window_w = config_.sub_centers, .stride_w = config_.sub_centers}));
  return ops::reshape(context, largest, {n, classes()});
}

Result<Tensor> MarginHead::logits(Context& context, const Tensor& rows, std::span<const uint32_t> labels) const {
  BALLAST_TRY(const Tensor cosine, cosines(context, rows));
  return ops::margin_logits(context, kind_, cosine, labels, config_.margin, config_.scale);
}

Result<Tensor> MarginHead::loss(Context& context, const Tensor& rows, std::span<const uint32_t> labels) const {
  BALLAST_TRY(const Tensor scaled, logits(context, rows, labels));
  return ops::cross_entropy(context, scaled, labels);
}

}  // namespace ballast
