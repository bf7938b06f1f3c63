// What the backend computes on the device: one function per family, with its functionals and their routines.
#pragma once

#include "ballast/ops/registry.h"

namespace ballast::opencl {

// Each is a line here and in add_opencl_implementations (opencl.cc), and a file beside this one.
void add_activation(Registry& registry);
void add_attention(Registry& registry);
void add_conv(Registry& registry);
void add_embedding(Registry& registry);
void add_linalg(Registry& registry);
void add_normalization(Registry& registry);
void add_pooling(Registry& registry);
void add_rotary(Registry& registry);
void add_shape(Registry& registry);
void add_tensor_ops(Registry& registry);

}  // namespace ballast::opencl
