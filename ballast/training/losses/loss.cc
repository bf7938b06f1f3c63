#include "ballast/training/losses/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/base/near_miss.h"
#include "ballast/device/host_values.h"
#include "ballast/io/guard.h"
#include "ballast/training/losses/loss_parts.h"

namespace ballast {

namespace {

struct LossRow {
  std::string_view name;
  std::string_view reduction;  // netcl's
  std::optional<ops::ElementLoss> element;
  bool has_beta = false, has_margin = false, is_weighted = false;
};

constexpr std::array<LossRow, 9> kRows = {{
    {"cross_entropy", "mean", std::nullopt},
    {"mse", "sum", ops::ElementLoss::kSquared},
    {"l1", "sum", ops::ElementLoss::kAbsolute},
    {"l2", "sum", ops::ElementLoss::kSquared},
    {"smooth_l1", "sum", ops::ElementLoss::kSmoothL1, true},
    {"bce", "none", ops::ElementLoss::kBinaryCrossEntropy},
    {"bce_with_logits", "none", ops::ElementLoss::kBinaryCrossEntropyWithLogits},
    {"weighted_bce", "sum", ops::ElementLoss::kBinaryCrossEntropy, false, false, true},
    {"hinge", "mean", std::nullopt, false, true},
}};

Result<const LossRow*> find_loss(const LossConfig& config) {
  for (const LossRow& row : kRows) {
    if (row.name == config.name) return &row;
  }
  const auto names = loss_names();
  const std::string_view near = nearest(config.name, names);
  const std::string hint =
      near.empty() ? fmt::format("there are: {}", fmt::join(names, ", ")) : fmt::format("did you mean \"{}\"?", near);
  return make_error(ErrorCode::kInvalidArgument, fmt::format("there is no loss \"{}\"; {}", config.name, hint));
}

Error refuse(const LossRow& row, std::string_view what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("loss {}: {}", row.name, what));
}

Status check_row(const LossRow& row, const LossConfig& config) {
  const std::string_view reduction = config.reduction ? std::string_view(*config.reduction) : row.reduction;
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    return refuse(row, fmt::format("the reduction is \"{}\"; there are: mean, sum, none", reduction));
  }
  if (config.beta && !row.has_beta) return refuse(row, "there is no \"beta\"");
  if (config.margin && !row.has_margin) return refuse(row, "there is no \"margin\"");
  if (config.beta && !(*config.beta > 0)) return refuse(row, "\"beta\" must be above 0");
  return {};
}

uint64_t counted(std::span<const uint32_t> labels) {
  return static_cast<uint64_t>(
      std::ranges::count_if(labels, [](uint32_t label) { return label != ops::kIgnoredLabel; }));
}

// Mean over the rows that count; [1].
Result<Tensor> mean_over_rows(Context& context, const LossRow& row, const LossConfig& config, const Tensor& predictions,
                              const LossTarget& target) {
  if (row.has_margin) return ops::hinge_loss(context, predictions, target.labels, config.margin.value_or(1));
  if (target.values != nullptr) return ops::cross_entropy(context, predictions, *target.values);
  return ops::cross_entropy(context, predictions, target.labels);
}

// One value for each row, 0 where it is ignored: a row by itself is its own mean.
Result<Tensor> row_by_row(Context& context, const LossRow& row, const LossConfig& config, const Tensor& predictions,
                          const LossTarget& target) {
  std::vector<Tensor> losses;
  for (uint64_t i = 0; i < predictions.dims()[0]; ++i) {
    if (target.values == nullptr && target.labels[i] == ops::kIgnoredLabel) {
      BALLAST_TRY(Tensor zero, context.workspace().zeros({1}, predictions.dtype()));
      losses.push_back(std::move(zero));
      continue;
    }
    BALLAST_TRY(const Tensor scores, ops::slice_along_axis(context, predictions, 0, i, 1));
    LossTarget own;
    Tensor values;
    if (target.values != nullptr) {
      BALLAST_TRY(values, ops::slice_along_axis(context, *target.values, 0, i, 1));
      own.values = &values;
    } else {
      own.labels = target.labels.subspan(i, 1);
    }
    BALLAST_TRY(Tensor loss, mean_over_rows(context, row, config, scores, own));
    losses.push_back(std::move(loss));
  }
  return ops::concat_along_axis(context, losses, 0);
}

Result<Tensor> row_loss(Context& context, const LossRow& row, const LossConfig& config, const Tensor& predictions,
                        const LossTarget& target, std::string_view reduction) {
  if (target.weights != nullptr) return refuse(row, "takes no weights of elements");
  if (row.has_margin && target.values != nullptr) return refuse(row, "needs labels, one per row");
  BALLAST_TRY(const Tensor mean, mean_over_rows(context, row, config, predictions, target));
  if (reduction == "none") return row_by_row(context, row, config, predictions, target);
  const uint64_t rows = target.values != nullptr ? predictions.dims().leading() : counted(target.labels);
  return reduce_mean(context, mean, rows, reduction, row.name);
}

// -(t log p + (1 - t) log(1 - p)) as netcl's weighted_bce has it: probabilities are kept 1e-7 from 0 and 1, and those
// that lie beyond have the slope of the edge, so that they come back.
Result<Tensor> past_the_edge(Context& context, const Tensor& predictions, const Tensor& targets) {
  constexpr double kEdge = 1e-7;
  BALLAST_TRY(std::vector<double> moves, doubles_of(predictions));
  for (double& p : moves) p = std::clamp(p, kEdge, 1 - kEdge) - p;
  BALLAST_TRY(const Tensor moved, constants(context, moves, predictions));
  BALLAST_TRY(const Tensor p, ops::add(context, predictions, moved));
  const auto one_minus = [&](const Tensor& x) -> Result<Tensor> {
    BALLAST_TRY(const Tensor negated, ops::unary(context, UnaryOp::kNeg, x));
    return ops::unary(context, UnaryOp::kShift, negated, 1);
  };
  const auto share = [&](const Tensor& x, const Tensor& weight) -> Result<Tensor> {
    BALLAST_TRY(const Tensor logarithm, ops::unary(context, UnaryOp::kLog, x));
    return ops::binary(context, BinaryOp::kMul, logarithm, weight);
  };
  BALLAST_TRY(const Tensor rest, one_minus(p));
  BALLAST_TRY(const Tensor rest_targets, one_minus(targets));
  BALLAST_TRY(const Tensor first, share(p, targets));
  BALLAST_TRY(const Tensor second, share(rest, rest_targets));
  BALLAST_TRY(const Tensor sum, ops::add(context, first, second));
  return ops::unary(context, UnaryOp::kNeg, sum);
}

}  // namespace

std::vector<std::string_view> loss_names() {
  std::vector<std::string_view> names;
  for (const LossRow& row : kRows) names.push_back(row.name);
  return names;
}

Status check_loss(const LossConfig& config) {
  BALLAST_TRY(const LossRow* row, find_loss(config));
  return check_row(*row, config);
}

Result<Tensor> compute_loss(Context& context, const LossConfig& config, const Tensor& predictions,
                            const LossTarget& target) {
  return guarded([&]() -> Result<Tensor> {
    BALLAST_TRY(const LossRow* row, find_loss(config));
    BALLAST_CHECK(check_row(*row, config));
    const std::string_view reduction = config.reduction ? std::string_view(*config.reduction) : row->reduction;
    if (!row->element) return row_loss(context, *row, config, predictions, target, reduction);
    if (target.values == nullptr) return refuse(*row, "needs values to compare with, of the shape of the predictions");
    if (row->is_weighted && target.weights == nullptr) return refuse(*row, "needs a weight for each element");
    BALLAST_TRY(Tensor losses, row->is_weighted ? past_the_edge(context, predictions, *target.values)
                                                : ops::element_loss(context, *row->element, predictions, *target.values,
                                                                    config.beta.value_or(1)));
    if (target.weights != nullptr) {
      BALLAST_TRY(losses, ops::binary(context, BinaryOp::kMul, losses, *target.weights));
    }
    return reduce_loss(context, losses, reduction);
  });
}

}  // namespace ballast
