// What linear does on the host, for functionals that need it on their way.
#pragma once

#include "ballast/backends/host/kernel_access.h"

namespace ballast::host {

Result<Tensor> product(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options);

}  // namespace ballast::host
