// The compiled kernels in this library: one image per file of kernels/, with machine code for each kind of GPU. Made by
// the build (cmake/BallastCuda.cmake).
#pragma once

#include <span>
#include <string_view>

#include "ballast/base/bytes.h"

namespace ballast::cuda {

struct KernelImage {
  std::string_view module;
  ByteSpan bytes;
};
// None where the library was built without nvcc.
std::span<const KernelImage> kernel_images();
// "sm_80 sm_90a compute_80": what they were compiled for.
std::string_view kernel_architectures();

}  // namespace ballast::cuda
