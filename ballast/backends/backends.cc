#include "ballast/backends/backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ballast/backends/cpu/cpu.h"
#include "ballast/backends/cuda/cuda.h"
#include "ballast/backends/opencl.h"
#include "ballast/backends/reference/reference.h"

namespace ballast {

namespace {

constexpr std::array<const Backend*, 4> kBackends = {&kCpuBackend, &kCudaBackend, &kOpenClBackend, &kReferenceBackend};

bool is_usable(const Backend& backend) { return backend.find_devices == nullptr || backend.find_devices(); }

}  // namespace

std::span<const Backend* const> all_backends() { return kBackends; }

std::vector<const Backend*> usable_backends() {
  std::vector<const Backend*> usable;
  for (const Backend* backend : kBackends) {
    if (is_usable(*backend)) usable.push_back(backend);
  }
  return usable;
}

const Backend& default_backend(bool to_train) {
  const bool may_be_cuda = !to_train || kCudaBackend.trains;
  return may_be_cuda && is_usable(kCudaBackend) ? kCudaBackend : static_cast<const Backend&>(kCpuBackend);
}

const Backend* find_backend(std::string_view name) {
  const auto at = std::ranges::find(kBackends, name, [](const Backend* backend) { return backend->name; });
  if (at != kBackends.end()) return *at;
  const Backend* numbered = find_cuda_backend(name);
  return numbered != nullptr ? numbered : find_opencl_backend(name);
}

Result<const Backend*> choose_backend(std::string_view name) {
  if (name.empty()) return &default_backend();
  if (const Backend* backend = find_backend(name)) return backend;
  if (name.starts_with("opencl:")) return no_opencl_device(name);
  std::vector<std::string_view> names;
  for (const Backend* backend : kBackends) names.push_back(backend->name);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("there is no backend \"{}\"; there are: {}", name, fmt::join(names, ", ")));
}

Result<const Backend*> choose_training_backend(std::string_view name) {
  if (name.empty()) return &default_backend(true);
  BALLAST_TRY(const Backend* backend, choose_backend(name));
  if (backend->trains) return backend;
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("the backend \"{}\" does not train: train with \"{}\", and run the result on \"{}\"",
                                name, default_backend(true).name, name));
}

}  // namespace ballast
