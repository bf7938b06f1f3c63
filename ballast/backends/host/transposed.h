// What transpose does on the host, for functionals that need it on their way.
#pragma once

#include <span>

#include "ballast/backends/host/kernel_access.h"

namespace ballast::host {

Result<Tensor> transposed(Context& context, const Tensor& x, std::span<const size_t> permutation);

}  // namespace ballast::host
