// Sums that losses share.
#pragma once

#include "ballast/backends/host/kernel_access.h"

namespace ballast::host {

// The sum of all elements in double, in pieces whose size is always the same; added in their order.
Result<double> sum_in_pieces(Context& context, const Tensor& x);
// A tensor of one element.
Result<Tensor> single(Context& context, double value, DType dtype);

}  // namespace ballast::host
