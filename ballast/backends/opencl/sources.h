// The texts of kernels/*.cl, which the build embeds (cmake/EmbedKernels.cmake).
#pragma once

#include <span>
#include <string_view>

namespace ballast::opencl {

struct KernelSource {
  std::string_view program;  // the file's name without .cl
  std::string_view text;
};
std::span<const KernelSource> kernel_sources();

}  // namespace ballast::opencl
