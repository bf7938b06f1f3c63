// Losses over pairs and triples of rows, made of functionals: their gradients come from there.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ballast/training/loss.h"
#include "ballast/training/loss_reduce.h"

namespace ballast {

namespace {

constexpr double kRootShift = 1e-8;  // under the root, as in netcl: a distance of 0 has a slope

Result<Tensor> square_distances(Context& context, const Tensor& a, const Tensor& b) {
  BALLAST_TRY(const Tensor difference, ops::binary(context, BinaryOp::kSub, a, b));
  BALLAST_TRY(const Tensor squares, ops::unary(context, UnaryOp::kSquare, difference));
  return ops::sum_last_dim(context, squares);
}

Result<Tensor> root(Context& context, const Tensor& x) {
  BALLAST_TRY(const Tensor shifted, ops::unary(context, UnaryOp::kShift, x, kRootShift));
  return ops::unary(context, UnaryOp::kSqrt, shifted);
}

Result<Tensor> distances(Context& context, const Tensor& a, const Tensor& b, bool euclidean) {
  BALLAST_TRY(Tensor squares, square_distances(context, a, b));
  if (!euclidean) return squares;
  return root(context, squares);
}

Result<Tensor> filled(Context& context, const std::vector<float>& values) {
  return context.workspace().from(values, {values.size()});
}

Status check_labels(std::string_view loss, const Tensor& rows, std::span<const uint32_t> labels) {
  if (rows.dims().rank() == 2 && rows.dims()[0] == labels.size() && !labels.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} needs rows [n, d] and a label for each; there are {} and {} labels", loss,
                                rows.dims().to_string(), labels.size()));
}

struct HardPairs {
  std::vector<uint32_t> anchors, positives, negatives;
};

// Which rows are farthest and nearest depends on values alone, and no gradient goes through the choice.
HardPairs find_hard(const Tensor& rows, std::span<const uint32_t> labels) {
  const uint64_t d = rows.dims()[1];
  const auto distance = [&](size_t i, size_t j) {
    double sum = 0;
    for (uint64_t k = 0; k < d; ++k) {
      const double step = static_cast<double>(rows.f32()[i * d + k]) - static_cast<double>(rows.f32()[j * d + k]);
      sum += step * step;
    }
    return sum;
  };
  HardPairs pairs;
  for (size_t i = 0; i < labels.size(); ++i) {
    std::optional<size_t> far, near;
    double farthest = -1, nearest = INFINITY;
    for (size_t j = 0; j < labels.size(); ++j) {
      if (j == i) continue;
      const double here = distance(i, j);
      if (labels[j] == labels[i] && here > farthest) farthest = here, far = j;
      if (labels[j] != labels[i] && here < nearest) nearest = here, near = j;
    }
    if (!far || !near) continue;
    pairs.anchors.push_back(static_cast<uint32_t>(i));
    pairs.positives.push_back(static_cast<uint32_t>(*far));
    pairs.negatives.push_back(static_cast<uint32_t>(*near));
  }
  return pairs;
}

Result<Tensor> gather(Context& context, const Tensor& rows, const std::vector<uint32_t>& indices) {
  std::vector<Tensor> picked;
  for (const uint32_t index : indices) {
    BALLAST_TRY(Tensor row, ops::slice_along_axis(context, rows, 0, index, 1));
    picked.push_back(std::move(row));
  }
  return ops::concat_along_axis(context, picked, 0);
}

Result<Tensor> triplet_rows(Context& context, const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                            const MetricLossConfig& config) {
  BALLAST_TRY(const Tensor near, distances(context, anchor, positive, config.euclidean));
  BALLAST_TRY(const Tensor far, distances(context, anchor, negative, config.euclidean));
  BALLAST_TRY(const Tensor difference, ops::binary(context, BinaryOp::kSub, near, far));
  BALLAST_TRY(const Tensor shifted, ops::unary(context, UnaryOp::kShift, difference, config.margin));
  return ops::relu(context, shifted);
}

// Rows of length 1.
Result<Tensor> normalized(Context& context, const Tensor& x) {
  BALLAST_TRY(const Tensor squares, ops::unary(context, UnaryOp::kSquare, x));
  BALLAST_TRY(const Tensor sums, ops::sum_last_dim(context, squares));
  BALLAST_TRY(const Tensor lengths, ops::unary(context, UnaryOp::kSqrt, sums));
  BALLAST_TRY(const Tensor above_zero, ops::unary(context, UnaryOp::kShift, lengths, kRootShift));
  BALLAST_TRY(const Tensor ones, filled(context, std::vector<float>(static_cast<size_t>(sums.count()), 1)));
  BALLAST_TRY(const Tensor factors, ops::binary(context, BinaryOp::kDiv, ones.reshaped(sums.dims()), above_zero));
  return ops::scale_rows(context, x, factors);
}

Result<Tensor> one_way(Context& context, const Tensor& queries, const Tensor& keys, double temperature) {
  constexpr std::array<size_t, 2> kTurned = {1, 0};
  BALLAST_TRY(const Tensor turned, ops::transpose(context, keys, kTurned));
  BALLAST_TRY(const Tensor products, ops::matmul(context, queries, turned));
  BALLAST_TRY(const Tensor logits, ops::unary(context, UnaryOp::kScale, products, 1 / temperature));
  std::vector<uint32_t> labels(static_cast<size_t>(queries.dims()[0]));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<uint32_t>(i);
  return ops::cross_entropy(context, logits, labels);
}

}  // namespace

Result<Tensor> triplet_loss(Context& context, const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                            const MetricLossConfig& config) {
  BALLAST_TRY(const Tensor losses, triplet_rows(context, anchor, positive, negative, config));
  return reduce_loss(context, losses, config.reduction);
}

Result<Tensor> batch_hard_triplet_loss(Context& context, const Tensor& rows, std::span<const uint32_t> labels,
                                       const MetricLossConfig& config) {
  BALLAST_CHECK(check_labels("batch_hard_triplet", rows, labels));
  const HardPairs pairs = find_hard(rows, labels);
  if (pairs.anchors.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "batch_hard_triplet: no row has another of its label and one of a different label");
  }
  BALLAST_TRY(const Tensor anchors, gather(context, rows, pairs.anchors));
  BALLAST_TRY(const Tensor positives, gather(context, rows, pairs.positives));
  BALLAST_TRY(const Tensor negatives, gather(context, rows, pairs.negatives));
  BALLAST_TRY(const Tensor losses, triplet_rows(context, anchors, positives, negatives, config));
  BALLAST_TRY(const Tensor sum, ops::sum_all(context, losses));
  if (config.reduction == "sum") return sum;
  if (config.reduction != "mean") return reduce_mean(context, sum, 1, config.reduction, "batch_hard_triplet");
  return ops::unary(context, UnaryOp::kScale, sum, 1 / static_cast<double>(labels.size()));
}

Result<Tensor> contrastive_loss(Context& context, const Tensor& a, const Tensor& b, std::span<const uint32_t> labels,
                                const MetricLossConfig& config) {
  BALLAST_CHECK(check_labels("contrastive", a, labels));
  std::vector<float> similar, different;
  for (const uint32_t label : labels) {
    similar.push_back(label != 0 ? 1 : 0);
    different.push_back(label != 0 ? 0 : 1);
  }
  BALLAST_TRY(const Tensor similar_mask, filled(context, similar));
  BALLAST_TRY(const Tensor different_mask, filled(context, different));
  BALLAST_TRY(const Tensor squares, square_distances(context, a, b));
  BALLAST_TRY(const Tensor lengths, root(context, squares));
  BALLAST_TRY(const Tensor negated, ops::unary(context, UnaryOp::kNeg, lengths));
  BALLAST_TRY(const Tensor short_of, ops::unary(context, UnaryOp::kShift, negated, config.margin));
  BALLAST_TRY(const Tensor hinge, ops::relu(context, short_of));
  BALLAST_TRY(const Tensor hinge_square, ops::unary(context, UnaryOp::kSquare, hinge));
  BALLAST_TRY(const Tensor first, ops::binary(context, BinaryOp::kMul, squares, similar_mask));
  BALLAST_TRY(const Tensor second, ops::binary(context, BinaryOp::kMul, hinge_square, different_mask));
  BALLAST_TRY(const Tensor losses, ops::add(context, first, second));
  return reduce_loss(context, losses, config.reduction);
}

Result<Tensor> info_nce_loss(Context& context, const Tensor& queries, const Tensor& keys, const InfoNceConfig& config) {
  if (!(config.temperature > 0) || queries.dims().rank() != 2 || !(queries.dims() == keys.dims())) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("info_nce needs a temperature above 0 and queries and keys of one shape [n, d]; there "
                    "are {}, {} and {}",
                    config.temperature, queries.dims().to_string(), keys.dims().to_string()));
  }
  Tensor q = queries, k = keys;
  if (config.normalize) {
    BALLAST_TRY(q, normalized(context, queries));
    BALLAST_TRY(k, normalized(context, keys));
  }
  BALLAST_TRY(Tensor mean, one_way(context, q, k, config.temperature));
  if (config.symmetric) {
    BALLAST_TRY(const Tensor back, one_way(context, k, q, config.temperature));
    BALLAST_TRY(const Tensor sum, ops::add(context, mean, back));
    BALLAST_TRY(mean, ops::unary(context, UnaryOp::kScale, sum, 0.5));
  }
  return reduce_mean(context, mean, queries.dims()[0], config.reduction, "info_nce");
}

}  // namespace ballast
