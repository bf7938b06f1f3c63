// What the backend computes on the device: one function per family, with its functionals and their routines.
#pragma once

#include "ballast/ops/registry.h"

namespace ballast::cuda {

// Each is a line here and in add_cuda_implementations (cuda.cc), and a file beside this one.
void add_activation(Registry& registry);
void add_attention(Registry& registry);
void add_conv(Registry& registry);
void add_embedding(Registry& registry);
void add_experts(Registry& registry);
void add_linalg(Registry& registry);
void add_normalization(Registry& registry);
void add_pooling(Registry& registry);
void add_reduction(Registry& registry);
void add_rotary(Registry& registry);
void add_shape(Registry& registry);
void add_tensor_ops(Registry& registry);
void add_updates(Registry& registry);

}  // namespace ballast::cuda
