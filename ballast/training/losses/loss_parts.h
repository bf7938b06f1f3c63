// What losses are made of.
#pragma once

#include <span>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast {

// `losses` as they are, their sum, or their mean.
Result<Tensor> reduce_loss(Context& context, const Tensor& losses, std::string_view reduction);
// Of a mean over `rows`: the mean itself or the sum. "none" is an error that names the loss.
Result<Tensor> reduce_mean(Context& context, const Tensor& mean, uint64_t rows, std::string_view reduction,
                           std::string_view loss);
Error only_one_number(std::string_view loss, std::string_view reduction);

// Values that no gradient reaches, of the shape and type of `like`.
Result<Tensor> constants(Context& context, std::span<const double> values, const Tensor& like);
// Rows over their length plus 1e-8.
Result<Tensor> unit_rows(Context& context, const Tensor& x);

}  // namespace ballast
