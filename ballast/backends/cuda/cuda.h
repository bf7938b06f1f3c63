// The backend `cuda`: NVIDIA's GPUs, through the driver that the machine has.
#pragma once

#include <string_view>

#include "ballast/ops/backend.h"

namespace ballast {

// Computes on the first device that the kernels were compiled for. It opens where there are a driver, such a GPU, and a
// build that has kernels; find_devices says what is missing.
extern const Backend kCudaBackend;
// "cuda:0", "cuda:1", ...: the same on a device by its number. Null for other names.
const Backend* find_cuda_backend(std::string_view name);

}  // namespace ballast
