// Losses over pairs and triples of rows, made of functionals: their gradients come from there.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ballast/device/host_values.h"
#include "ballast/ops/metric.h"
#include "ballast/training/losses/loss.h"
#include "ballast/training/losses/loss_parts.h"

namespace ballast {

namespace {

constexpr double kRootShift = 1e-8;  // under the root, as in netcl: a distance of 0 has a slope

Result<Tensor> root(Context& context, const Tensor& x) {
  BALLAST_TRY(const Tensor shifted, ops::unary(context, UnaryOp::kShift, x, kRootShift));
  return ops::unary(context, UnaryOp::kSqrt, shifted);
}

// Between row i of a and row i of b.
Result<Tensor> row_squares(Context& context, const Tensor& a, const Tensor& b) {
  BALLAST_TRY(const Tensor difference, ops::binary(context, BinaryOp::kSub, a, b));
  BALLAST_TRY(const Tensor squares, ops::unary(context, UnaryOp::kSquare, difference));
  return ops::sum_last_dim(context, squares);
}

Result<Tensor> row_distances(Context& context, const Tensor& a, const Tensor& b, bool euclidean) {
  BALLAST_TRY(Tensor squares, row_squares(context, a, b));
  if (!euclidean) return squares;
  return root(context, squares);
}

Status check_labels(std::string_view loss, const Tensor& rows, std::span<const uint32_t> labels) {
  if (rows.dims().rank() == 2 && rows.dims()[0] == labels.size() && !labels.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} needs rows [n, d] and a label for each; there are {} and {} labels", loss,
                                rows.dims().to_string(), labels.size()));
}

// The triples of a batch that count. Which ones do depends on values alone, and no gradient goes through the choice:
// their losses together are the sum of factors[i, j] * distance(i, j), and one margin for each.
struct Triples {
  Triples(std::span<const double> of, std::span<const uint32_t> row_labels, double m)
      : distances(of), labels(row_labels), margin(m), factors(row_labels.size() * row_labels.size()) {}

  double distance(size_t i, size_t j) const { return distances[i * labels.size() + j]; }
  void add(size_t anchor, size_t positive, size_t negative) {
    if (!(distance(anchor, positive) - distance(anchor, negative) + margin > 0)) return;
    factors[anchor * labels.size() + positive] += 1;
    factors[anchor * labels.size() + negative] -= 1;
    ++count;
  }

  std::span<const double> distances;  // [n, n]
  std::span<const uint32_t> labels;
  double margin;
  std::vector<double> factors;
  uint64_t count = 0;
};

void add_hardest(Triples& triples) {
  const auto& labels = triples.labels;
  for (size_t i = 0; i < labels.size(); ++i) {
    std::optional<size_t> far, near;
    for (size_t j = 0; j < labels.size(); ++j) {
      if (j == i) continue;
      const double here = triples.distance(i, j);
      if (labels[j] == labels[i] && (!far || here > triples.distance(i, *far))) far = j;
      if (labels[j] != labels[i] && (!near || here < triples.distance(i, *near))) near = j;
    }
    if (far && near) triples.add(i, *far, *near);
  }
}

void add_all(Triples& triples) {
  const auto& labels = triples.labels;
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < labels.size(); ++j) {
      if (j == i || labels[j] != labels[i]) continue;
      for (size_t k = 0; k < labels.size(); ++k) {
        if (labels[k] != labels[i]) triples.add(i, j, k);
      }
    }
  }
}

struct Mined {
  Tensor sum;      // [1]
  uint64_t count;  // of the triples that are not 0
};

Result<Mined> mined_triplets(Context& context, const Tensor& rows, std::span<const uint32_t> labels,
                             const MetricLossConfig& config, void (*mine)(Triples&)) {
  BALLAST_TRY(Tensor distances, ops::square_distances(context, rows, rows));
  if (config.euclidean) {
    BALLAST_TRY(distances, root(context, distances));
  }
  BALLAST_TRY(const std::vector<double> values, doubles_of(distances));
  Triples triples(values, labels, config.margin);
  mine(triples);
  BALLAST_TRY(const Tensor factors, constants(context, triples.factors, distances));
  BALLAST_TRY(const Tensor products, ops::binary(context, BinaryOp::kMul, distances, factors));
  BALLAST_TRY(const Tensor sum, ops::sum_all(context, products));
  BALLAST_TRY(Tensor shifted,
              ops::unary(context, UnaryOp::kShift, sum, config.margin * static_cast<double>(triples.count)));
  return Mined{std::move(shifted), triples.count};
}

// A sum, or its share of `count`.
Result<Tensor> reduce_sum(Context& context, const Tensor& sum, uint64_t count, std::string_view reduction,
                          std::string_view loss) {
  if (reduction == "sum") return sum;
  if (reduction != "mean") return only_one_number(loss, reduction);
  return ops::unary(context, UnaryOp::kScale, sum, 1 / static_cast<double>(std::max<uint64_t>(count, 1)));
}

Result<Tensor> triplet_rows(Context& context, const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                            const MetricLossConfig& config) {
  BALLAST_TRY(const Tensor near, row_distances(context, anchor, positive, config.euclidean));
  BALLAST_TRY(const Tensor far, row_distances(context, anchor, negative, config.euclidean));
  BALLAST_TRY(const Tensor difference, ops::binary(context, BinaryOp::kSub, near, far));
  BALLAST_TRY(const Tensor shifted, ops::unary(context, UnaryOp::kShift, difference, config.margin));
  return ops::relu(context, shifted);
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
  BALLAST_TRY(const Mined mined, mined_triplets(context, rows, labels, config, add_hardest));
  return reduce_sum(context, mined.sum, labels.size(), config.reduction, "batch_hard_triplet");
}

Result<Tensor> batch_all_triplet_loss(Context& context, const Tensor& rows, std::span<const uint32_t> labels,
                                      const MetricLossConfig& config) {
  BALLAST_CHECK(check_labels("batch_all_triplet", rows, labels));
  BALLAST_TRY(const Mined mined, mined_triplets(context, rows, labels, config, add_all));
  return reduce_sum(context, mined.sum, mined.count, config.reduction, "batch_all_triplet");
}

Result<Tensor> contrastive_loss(Context& context, const Tensor& a, const Tensor& b, std::span<const uint32_t> labels,
                                const MetricLossConfig& config) {
  BALLAST_CHECK(check_labels("contrastive", a, labels));
  std::vector<double> similar, different;
  for (const uint32_t label : labels) {
    similar.push_back(label != 0 ? 1 : 0);
    different.push_back(label != 0 ? 0 : 1);
  }
  BALLAST_TRY(const Tensor squares, row_squares(context, a, b));
  BALLAST_TRY(const Tensor similar_mask, constants(context, similar, squares));
  BALLAST_TRY(const Tensor different_mask, constants(context, different, squares));
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
    BALLAST_TRY(q, unit_rows(context, queries));
    BALLAST_TRY(k, unit_rows(context, keys));
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
