// What linear does on the device, for functionals that need it on their way.
#pragma once

#include "ballast/backends/cuda/weight_access.h"

namespace ballast::cuda {

// Whether kernels compute such products; x is f32.
bool supports_product(const Context& context, const Param& weight, const ops::LinearOptions& options);
// The bits of a row depend on that row, the weight and the context's numerics alone.
Result<Tensor> product(Context& context, const Tensor& x, const Param& weight, const ops::LinearOptions& options);

}  // namespace ballast::cuda
