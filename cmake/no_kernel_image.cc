// What a build without nvcc has in place of compiled kernels (BallastCuda.cmake).
#include "ballast/backends/cuda/kernel_image.h"

namespace ballast::cuda {

std::span<const KernelImage> kernel_images() { return {}; }
std::string_view kernel_architectures() { return {}; }

}  // namespace ballast::cuda
