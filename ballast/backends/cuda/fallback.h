// What the device does not compute, the host does: inputs are copied there, the backend `cpu` computes, and the results
// are copied back. Slow, complete, and told to whoever asks the device (CudaDevice::fallbacks).
#pragma once

#include "ballast/ops/ops.h"
#include "ballast/ops/registry.h"

namespace ballast::cuda {

// Defined in fallback.cc for every functional and routine there is.
template <typename Args>
Result<Tensor> run_on_host(Context& context, const Args& args);
template <typename Args>
Status run_routine_on_host(Context& context, const Args& args);

// Every functional and every routine, computed by the host. Families replace what the device computes itself.
void add_fallbacks(Registry& registry);

}  // namespace ballast::cuda
