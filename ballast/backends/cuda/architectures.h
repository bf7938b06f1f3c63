// Which GPUs compiled kernels run on.
#pragma once

#include <string_view>

#include "ballast/backends/cuda/launch.h"

namespace ballast::cuda {

// `architectures` as kernel_architectures() has them: "sm_80 sm_90a compute_80". Machine code runs on later minor
// versions of its major one, of sm_90a on exactly that; what is for the assembler of the driver (compute_) on all later
// ones.
bool runs_on(std::string_view architectures, const Facts& facts);

// Whether kernels that were compiled for a virtual architecture (90: compute_90) wait by themselves for the kernel
// before them (kernels/common.cuh), and may therefore be launched before that one has ended. PTX for an older
// architecture has no such instruction, on any GPU that a driver compiles it for.
bool waits_by_itself(int compiled_for);

}  // namespace ballast::cuda
