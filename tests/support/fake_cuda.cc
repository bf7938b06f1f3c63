#include "tests/support/fake_cuda.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "ballast/backends/offload/fallback.h"
#include "tests/support/places.h"

namespace ballast::testing {

namespace {

// Loaded with names of its own: nobody else's calls of cuInit must reach it.
template <typename Function>
Function* fake_symbol(const char* name) {
  static void* const library = dlopen(fake_driver_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

FakeCuda& fresh_fake_cuda() {
  fake_symbol<void()>("fake_cuda_reset")();
  return *fake_symbol<FakeCuda*()>("fake_cuda_settings")();
}

Result<std::shared_ptr<const cuda::Driver>> fake_driver() { return cuda::Driver::open(fake_driver_path()); }

Result<std::shared_ptr<cuda::CudaDevice>> fake_device() {
  BALLAST_TRY(auto driver, fake_driver());
  return cuda::CudaDevice::open(std::move(driver), 0);
}

const Backend& fake_cuda_backend() {
  static constexpr Backend kBackend = {
      .name = "fake_cuda",
      .summary = "the host in place of a GPU",
      .open_device = []() -> Result<std::shared_ptr<Device>> {
        BALLAST_TRY(auto device, fake_device());
        return std::shared_ptr<Device>(std::move(device));
      },
      .level = [] { return std::string_view("sm_90"); },
      .block_arithmetic = [](DType, Numerics) { return std::string_view("f32"); },
      .add_implementations = offload::add_fallbacks,
  };
  return kBackend;
}

}  // namespace ballast::testing
