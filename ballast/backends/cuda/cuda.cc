#include "ballast/backends/cuda/cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <utility>

#include "ballast/backends/backends.h"
#include "ballast/backends/cuda/architectures.h"
#include "ballast/backends/cuda/device.h"
#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/kernel_image.h"
#include "ballast/backends/cuda/weight_access.h"
#include "ballast/io/process_id.h"

namespace ballast {

namespace {

using cuda::CudaDevice;
using cuda::DeviceInfo;

// What this machine has. Found once, because asking takes a tenth of a second where there is a driver.
struct Machine {
  std::shared_ptr<const cuda::Driver> driver;
  std::vector<DeviceInfo> devices;
};

Result<Machine> look_around() {
  if (cuda::kernel_images().empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "CUDA: this program was built without kernels for GPUs: build it with nvcc (docs/cuda.md)");
  }
  BALLAST_TRY(std::shared_ptr<const cuda::Driver> driver, cuda::Driver::system());
  BALLAST_TRY(std::vector<DeviceInfo> devices, cuda::list_devices(*driver));
  return Machine{std::move(driver), std::move(devices)};
}

// The driver serves the process that started it, and none that this one forks.
const Result<Machine>& machine() {
  static const int64_t first_process = process_id();
  static const auto* const found = new Result<Machine>(look_around());
  if (!*found || process_id() == first_process) return *found;
  static const auto* const forked = new Result<Machine>(
      make_error(ErrorCode::kUnsupported,
                 "CUDA: it cannot be used after fork(), because the parent process has used it: start processes with "
                 "spawn, or compute with the backend \"cpu\""));
  return *forked;
}

Status check_architecture(const DeviceInfo& info) {
  if (cuda::runs_on(cuda::kernel_architectures(), info.facts)) return {};
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("CUDA: device {}, {}, is {}, and this program has kernels for {}: build it for this GPU "
                  "(docs/cuda.md), or compute with another backend",
                  info.index, info.name, info.architecture(), cuda::kernel_architectures()));
}

Result<const DeviceInfo*> find_device(size_t index) {
  const Result<Machine>& found = machine();
  if (!found) return found.error();
  if (index >= found->devices.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("CUDA: there is no device {}; the last is {}", index, found->devices.size() - 1));
  }
  const DeviceInfo* info = &found->devices[index];
  BALLAST_CHECK(check_architecture(*info));
  return info;
}

constexpr size_t kMostDevices = 16;

Result<const DeviceInfo*> find_first() {
  const Result<Machine>& found = machine();
  if (!found) return found.error();
  const std::span<const DeviceInfo> devices = found->devices;
  const DeviceInfo* first =
      cuda::first_usable(devices.first(std::min(devices.size(), kMostDevices)), cuda::kernel_architectures());
  if (first == nullptr) return std::move(check_architecture(devices.front())).error();
  return first;
}

// Opened once and kept, with its kernels: executions come and go.
Result<std::shared_ptr<Device>> open_numbered(size_t index) {
  BALLAST_TRY(const DeviceInfo* info, find_device(index));
  static std::mutex mutex;
  static auto* const opened = new std::array<std::shared_ptr<CudaDevice>, kMostDevices>();
  const std::lock_guard lock(mutex);
  std::shared_ptr<CudaDevice>& device = (*opened)[index];
  if (device == nullptr) {
    BALLAST_TRY(device, CudaDevice::open(machine()->driver, info->index));
  }
  return std::shared_ptr<Device>(device);
}

Result<std::shared_ptr<Device>> open_first() {
  BALLAST_TRY(const DeviceInfo* info, find_first());
  return open_numbered(static_cast<size_t>(info->index));
}

std::string_view level_of_first() {
  static const auto* const name = [] {
    const auto info = find_first();
    return new std::string(info ? (*info)->architecture() : "none");
  }();
  return *name;
}

std::string_view level_of(size_t index) {
  static auto* const names = [] {
    auto* made = new std::array<std::string, kMostDevices>();
    for (size_t i = 0; i < kMostDevices; ++i) {
      const auto info = find_device(i);
      (*made)[i] = info ? (*info)->architecture() : "none";
    }
    return made;
  }();
  return (*names)[index];
}

std::string device_line(const DeviceInfo& info) {
  return fmt::format("cuda:{} {}, {}, {:.1f} GB, {} multiprocessors{}", info.index, info.name, info.architecture(),
                     static_cast<double>(info.memory) / 1e9, info.facts.multiprocessors,
                     check_architecture(info) ? "" : ": no kernels for it in this program");
}

Result<std::vector<std::string>> describe_machine() {
  const Result<Machine>& found = machine();
  if (!found) return found.error();
  BALLAST_CHECK(find_first());
  std::vector<std::string> lines = {fmt::format("NVIDIA driver for CUDA {}.{}; kernels for {}",
                                                found->driver->version() / 1000, found->driver->version() % 1000 / 10,
                                                cuda::kernel_architectures())};
  for (const DeviceInfo& info : found->devices) lines.push_back(device_line(info));
  return lines;
}

Result<std::vector<std::string>> describe_numbered(size_t index) {
  BALLAST_TRY(const DeviceInfo* info, find_device(index));
  return std::vector<std::string>{device_line(*info)};
}

// Types that no kernel reads are the CPU's.
std::string_view block_arithmetic(DType dtype, Numerics numerics) {
  if (!cuda::weight_type_of(dtype)) return find_backend("cpu")->block_arithmetic(dtype, numerics);
  if (dtype != DType::kBF16) return "f16 in two parts";
  return numerics == Numerics::kFast ? "bf16 in two parts" : "bf16 in three parts";
}

void add_cuda_implementations(Registry& registry) {
  using namespace cuda;  // NOLINT: a list of its families
  offload::add_fallbacks(registry);
  for (const auto add_family :
       {add_activation, add_attention, add_conv, add_embedding, add_experts, add_linalg, add_normalization, add_pooling,
        add_reduction, add_rotary, add_shape, add_tensor_ops, add_updates}) {
    add_family(registry);
  }
}

constexpr Backend make_backend(std::string_view name, decltype(Backend::open_device) open_device,
                               decltype(Backend::level) level, decltype(Backend::find_devices) find_devices) {
  return Backend{
      .name = name,
      .summary = "NVIDIA GPUs",
      .open_device = open_device,
      .level = level,
      .block_arithmetic = block_arithmetic,
      .add_implementations = add_cuda_implementations,
      .find_devices = find_devices,
      .trains = false,
  };
}

constexpr std::array<std::string_view, kMostDevices> kNames = {
    "cuda:0", "cuda:1", "cuda:2",  "cuda:3",  "cuda:4",  "cuda:5",  "cuda:6",  "cuda:7",
    "cuda:8", "cuda:9", "cuda:10", "cuda:11", "cuda:12", "cuda:13", "cuda:14", "cuda:15"};

template <size_t... kIndices>
constexpr auto make_numbered(std::index_sequence<kIndices...>) {
  return std::array<Backend, kMostDevices>{make_backend(
      kNames[kIndices], [] { return open_numbered(kIndices); }, [] { return level_of(kIndices); },
      [] { return describe_numbered(kIndices); })...};
}

}  // namespace

constinit const Backend kCudaBackend = make_backend("cuda", open_first, level_of_first, describe_machine);

const Backend* find_cuda_backend(std::string_view name) {
  static const auto backends = make_numbered(std::make_index_sequence<kMostDevices>());
  for (const Backend& backend : backends) {
    if (backend.name == name) return &backend;
  }
  return nullptr;
}

}  // namespace ballast
