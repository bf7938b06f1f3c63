// The two gradients of a convolution.
#pragma once

#include "ballast/backends/host/kernel_table.h"

namespace ballast::cpu::gradients {

// gradients_conv2d.cc: dw
void conv2d_weight(const Conv2dGradient<float>& gradient, float* scratch, ThreadPool& pool);
uint64_t conv2d_weight_scratch(const Conv2dProblem<float>& forward, unsigned threads);

}  // namespace ballast::cpu::gradients
