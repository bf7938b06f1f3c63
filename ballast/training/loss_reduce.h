// How losses become one number.
#pragma once

#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast {

// `losses` as they are, their sum, or their mean.
Result<Tensor> reduce_loss(Context& context, const Tensor& losses, std::string_view reduction);
// Of a mean over `rows`: the mean itself or the sum. "none" is an error that names the loss.
Result<Tensor> reduce_mean(Context& context, const Tensor& mean, uint64_t rows, std::string_view reduction,
                           std::string_view loss);

}  // namespace ballast
