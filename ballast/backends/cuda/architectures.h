// Which GPUs compiled kernels run on.
#pragma once

#include <string_view>

#include "ballast/backends/cuda/launch.h"

namespace ballast::cuda {

// `architectures` as kernel_architectures() has them: "sm_80 sm_90a compute_80". Machine code runs on later minor
// versions of its major one, of sm_90a on exactly that; what is for the assembler of the driver (compute_) on all later
// ones.
bool runs_on(std::string_view architectures, const Facts& facts);

}  // namespace ballast::cuda
