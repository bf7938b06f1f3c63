// A backend on the GPU that tests/cuda/fake_driver.cc makes up. It launches no kernels: the host computes everything,
// on copies, while tensors, parameters and pages are in the device's memory.
#pragma once

#include <memory>
#include <string>

#include "ballast/backends/cuda/device.h"
#include "ballast/ops/backend.h"
#include "tests/cuda/fake_settings.h"

namespace ballast::testing {

// The settings, as new, of the library. Tests use it one at a time.
FakeCuda& fresh_fake_cuda();
// Opens it as the settings say now.
Result<std::shared_ptr<const cuda::Driver>> fake_driver();
Result<std::shared_ptr<cuda::CudaDevice>> fake_device();
const Backend& fake_cuda_backend();

}  // namespace ballast::testing
