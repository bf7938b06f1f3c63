// Kernels that are slow and obvious: what every other backend is compared with. In f32 they are also the answer to
// "what should this be to the bit", in f64 to "what should this be".
#pragma once

#include "ballast/backends/host/host_backend.h"

namespace ballast {

extern const HostBackend kReferenceBackend;

}  // namespace ballast
