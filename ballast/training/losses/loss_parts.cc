#include "ballast/training/losses/loss_parts.h"

#include <fmt/format.h>

#include <vector>

namespace ballast {

Result<Tensor> reduce_loss(Context& context, const Tensor& losses, std::string_view reduction) {
  if (reduction == "none") return losses;
  if (reduction == "sum") return ops::sum_all(context, losses);
  if (reduction == "mean") return ops::mean_all(context, losses);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("the reduction is \"{}\"; there are: mean, sum, none", reduction));
}

Error only_one_number(std::string_view loss, std::string_view reduction) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("loss {}: the reduction is \"{}\"; there are: mean, sum", loss, reduction));
}

Result<Tensor> reduce_mean(Context& context, const Tensor& mean, uint64_t rows, std::string_view reduction,
                           std::string_view loss) {
  if (reduction == "mean") return mean;
  if (reduction == "sum") return ops::unary(context, UnaryOp::kScale, mean, static_cast<double>(rows));
  return only_one_number(loss, reduction);
}

Result<Tensor> constants(Context& context, std::span<const double> values, const Tensor& like) {
  if (like.dtype() == DType::kF64) {
    return context.workspace().from_bytes(std::as_bytes(values), like.dims(), DType::kF64);
  }
  const std::vector<float> floats(values.begin(), values.end());
  return context.workspace().from(floats, like.dims());
}

Result<Tensor> unit_rows(Context& context, const Tensor& x) {
  constexpr double kAboveZero = 1e-8;   // netcl's
  constexpr double kUnderRoot = 1e-30;  // gives a row of zeros a slope
  BALLAST_TRY(const Tensor squares, ops::unary(context, UnaryOp::kSquare, x));
  BALLAST_TRY(const Tensor sums, ops::sum_last_dim(context, squares));
  BALLAST_TRY(const Tensor shifted, ops::unary(context, UnaryOp::kShift, sums, kUnderRoot));
  BALLAST_TRY(const Tensor lengths, ops::unary(context, UnaryOp::kSqrt, shifted));
  BALLAST_TRY(const Tensor above_zero, ops::unary(context, UnaryOp::kShift, lengths, kAboveZero));
  BALLAST_TRY(const Tensor ones, constants(context, std::vector<double>(static_cast<size_t>(sums.count()), 1), sums));
  BALLAST_TRY(const Tensor factors, ops::binary(context, BinaryOp::kDiv, ones, above_zero));
  return ops::scale_rows(context, x, factors);
}

}  // namespace ballast
