#include "ballast/training/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/base/near_miss.h"
#include "ballast/training/loss_reduce.h"

namespace ballast {

namespace {

struct LossRow {
  std::string_view name;
  std::string_view reduction;  // netcl's
  std::optional<ops::ElementLoss> element;
  bool has_beta = false, has_margin = false;
};

constexpr std::array<LossRow, 8> kRows = {{
    {"cross_entropy", "mean", std::nullopt},
    {"mse", "sum", ops::ElementLoss::kSquared},
    {"l1", "sum", ops::ElementLoss::kAbsolute},
    {"l2", "sum", ops::ElementLoss::kSquared},
    {"smooth_l1", "sum", ops::ElementLoss::kSmoothL1, true},
    {"bce", "none", ops::ElementLoss::kBinaryCrossEntropy},
    {"bce_with_logits", "none", ops::ElementLoss::kBinaryCrossEntropyWithLogits},
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
  if (!row.element && reduction == "none") return refuse(row, "is one number for all rows: take mean or sum");
  return {};
}

uint64_t counted(std::span<const uint32_t> labels) {
  return static_cast<uint64_t>(
      std::ranges::count_if(labels, [](uint32_t label) { return label != ops::kIgnoredLabel; }));
}

Result<Tensor> row_loss(Context& context, const LossRow& row, const LossConfig& config, const Tensor& predictions,
                        const LossTarget& target, std::string_view reduction) {
  if (target.weights != nullptr) return refuse(row, "takes no weights of elements");
  const bool has_labels = target.values == nullptr;
  if (row.has_margin) {
    if (!has_labels) return refuse(row, "needs labels, one per row");
    BALLAST_TRY(const Tensor mean, ops::hinge_loss(context, predictions, target.labels, config.margin.value_or(1)));
    return reduce_mean(context, mean, target.labels.size(), reduction, row.name);
  }
  if (has_labels) {
    BALLAST_TRY(const Tensor mean, ops::cross_entropy(context, predictions, target.labels));
    return reduce_mean(context, mean, counted(target.labels), reduction, row.name);
  }
  BALLAST_TRY(const Tensor mean, ops::cross_entropy(context, predictions, *target.values));
  return reduce_mean(context, mean, predictions.dims().leading(), reduction, row.name);
}

}  // namespace

std::vector<std::string_view> loss_names() {
  std::vector<std::string_view> names;
  for (const LossRow& row : kRows) names.push_back(row.name);
  return names;
}

Result<Tensor> reduce_loss(Context& context, const Tensor& losses, std::string_view reduction) {
  if (reduction == "none") return losses;
  if (reduction == "sum") return ops::sum_all(context, losses);
  if (reduction == "mean") return ops::mean_all(context, losses);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("the reduction is \"{}\"; there are: mean, sum, none", reduction));
}

Result<Tensor> reduce_mean(Context& context, const Tensor& mean, uint64_t rows, std::string_view reduction,
                           std::string_view loss) {
  if (reduction == "mean") return mean;
  if (reduction == "sum") return ops::unary(context, UnaryOp::kScale, mean, static_cast<double>(rows));
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("loss {}: the reduction is \"{}\"; there are: mean, sum", loss, reduction));
}

Status check_loss(const LossConfig& config) {
  BALLAST_TRY(const LossRow* row, find_loss(config));
  return check_row(*row, config);
}

Result<Tensor> compute_loss(Context& context, const LossConfig& config, const Tensor& predictions,
                            const LossTarget& target) {
  BALLAST_TRY(const LossRow* row, find_loss(config));
  BALLAST_CHECK(check_row(*row, config));
  const std::string_view reduction = config.reduction ? std::string_view(*config.reduction) : row->reduction;
  if (!row->element) return row_loss(context, *row, config, predictions, target, reduction);
  if (target.values == nullptr) return refuse(*row, "needs values to compare with, of the shape of the predictions");
  BALLAST_TRY(Tensor losses,
              ops::element_loss(context, *row->element, predictions, *target.values, config.beta.value_or(1)));
  if (target.weights != nullptr) {
    BALLAST_TRY(losses, ops::binary(context, BinaryOp::kMul, losses, *target.weights));
  }
  return reduce_loss(context, losses, reduction);
}

}  // namespace ballast
