// What the backend computes on the device: one function per family, with its functionals and their routines.
#pragma once

#include "ballast/ops/registry.h"

namespace ballast::cuda {

// Each is a line here and in add_cuda_implementations (cuda.cc), and a file beside this one.
void add_updates(Registry& registry);

}  // namespace ballast::cuda
