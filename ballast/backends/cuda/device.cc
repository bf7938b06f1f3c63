#include "ballast/backends/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "ballast/backends/cuda/architectures.h"
#include "ballast/backends/cuda/kernel_image.h"

namespace ballast::cuda {

namespace {

// CUdevice_attribute, by the numbers in cuda.h.
constexpr int kMultiprocessors = 16, kCacheBytes = 38, kMajor = 75, kMinor = 76, kSharedBytes = 97;
// CUfunction_attribute.
constexpr int kCompiledFor = 5, kLargestDynamicShared = 8;  // the first is CU_FUNC_ATTRIBUTE_PTX_VERSION
// What every kernel may have without asking.
constexpr uint32_t kUsualSharedBytes = 48 << 10;
constexpr uint64_t kMemoryAlignment = 256;
constexpr unsigned kStreamAlone = 1;  // CU_STREAM_NON_BLOCKING: nothing waits for the default stream

Result<DeviceInfo> describe(const Driver& driver, int index) {
  DeviceInfo info;
  info.index = index;
  DriverDevice device = 0;
  BALLAST_CHECK(driver.check(driver.device_get(&device, index), "looking for a device"));
  char name[256] = {};
  BALLAST_CHECK(driver.check(driver.device_name(name, sizeof(name) - 1, device), "asking for a device's name"));
  info.name = name;
  size_t bytes = 0;
  BALLAST_CHECK(driver.check(driver.device_memory(&bytes, device), "asking for a device's memory"));
  info.memory = bytes;
  int multiprocessors = 0, shared = 0, cache = 0;
  for (const auto& [attribute, value] : {std::pair(kMajor, &info.facts.major), std::pair(kMinor, &info.facts.minor),
                                         std::pair(kMultiprocessors, &multiprocessors),
                                         std::pair(kSharedBytes, &shared), std::pair(kCacheBytes, &cache)}) {
    BALLAST_CHECK(driver.check(driver.device_attribute(value, attribute, device), "asking for a device's properties"));
  }
  info.facts.multiprocessors = static_cast<uint32_t>(multiprocessors);
  info.facts.shared_bytes = static_cast<uint64_t>(shared);
  info.facts.cache_bytes = static_cast<uint64_t>(cache);
  return info;
}

}  // namespace

std::string DeviceInfo::architecture() const { return fmt::format("sm_{}{}", facts.major, facts.minor); }

Result<std::vector<DeviceInfo>> list_devices(const Driver& driver) {
  int count = 0;
  BALLAST_CHECK(driver.check(driver.device_count(&count), "counting devices"));
  std::vector<DeviceInfo> devices;
  for (int index = 0; index < count; ++index) {
    BALLAST_TRY(DeviceInfo info, describe(driver, index));
    devices.push_back(std::move(info));
  }
  if (devices.empty()) return driver.error(kDriverNoDevice, "looking for a device");
  return devices;
}

const DeviceInfo* first_usable(std::span<const DeviceInfo> devices, std::string_view architectures) {
  const auto found =
      std::ranges::find_if(devices, [&](const DeviceInfo& info) { return runs_on(architectures, info.facts); });
  return found == devices.end() ? nullptr : &*found;
}

// ---------------------------------------------------------------- CudaDevice

CudaDevice::CudaDevice(std::shared_ptr<const Driver> driver, DeviceInfo info, DriverDevice device,
                       DriverContext context)
    : driver_(std::move(driver)),
      info_(std::move(info)),
      device_(device),
      context_(context),
      name_(fmt::format("cuda:{}, {}", info_.index, info_.name)),
      limits_{.memory = info_.memory,
              .largest_piece = info_.memory,
              .alignment = kMemoryAlignment,
              .is_host_memory = false} {}

Result<std::shared_ptr<CudaDevice>> CudaDevice::open(std::shared_ptr<const Driver> driver, int index) {
  BALLAST_TRY(std::vector<DeviceInfo> devices, list_devices(*driver));
  if (index < 0 || static_cast<size_t>(index) >= devices.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("CUDA: there is no device {}: there {} {}, counted from 0", index,
                                  devices.size() == 1 ? "is" : "are", devices.size()));
  }
  DriverDevice device = 0;
  BALLAST_CHECK(driver->check(driver->device_get(&device, index), "looking for a device"));
  DriverContext context = nullptr;
  BALLAST_CHECK(driver->check(driver->context_retain(&context, device),
                              fmt::format("opening device {}, {}", index, devices[static_cast<size_t>(index)].name)));
  return std::shared_ptr<CudaDevice>(
      new CudaDevice(std::move(driver), std::move(devices[static_cast<size_t>(index)]), device, context));
}

CudaDevice::~CudaDevice() {
  make_current();
  spare_pinned_.clear();
  for (const auto& [name, module] : modules_) driver_->module_unload(module);
  driver_->context_release(device_);
}

Result<std::unique_ptr<DeviceMemory>> CudaDevice::allocate(uint64_t bytes) {
  make_current();
  DriverAddress address = 0;
  // The driver has no address for nothing.
  const DriverCode code = driver_->memory_allocate(&address, std::max<uint64_t>(bytes, 1));
  if (code == kDriverOutOfMemory) {
    size_t free = 0, total = 0;
    driver_->memory_info(&free, &total);
    return driver_->error(code,
                          fmt::format("allocating {} bytes on {}, which has {} of {} left", bytes, name_, free, total));
  }
  BALLAST_CHECK(driver_->check(code, fmt::format("allocating {} bytes on {}", bytes, name_)));
  auto* memory = new (std::nothrow) CudaMemory(*this, address, bytes);
  if (memory != nullptr) return std::unique_ptr<DeviceMemory>(memory);
  driver_->memory_free(address);
  return make_error(ErrorCode::kOutOfMemory, "the host has no memory left");
}

CudaMemory::~CudaMemory() {
  device_.make_current();
  device_.driver().memory_free(address_);  // what cannot be given back has nobody to be told
}

Result<std::shared_ptr<Queue>> CudaDevice::open_queue() {
  make_current();
  DriverStream stream = nullptr;
  BALLAST_CHECK(driver_->check(driver_->stream_create(&stream, kStreamAlone), "making a stream"));
  return std::shared_ptr<Queue>(std::make_shared<CudaQueue>(shared_from_this(), stream));
}

Result<DriverModule> CudaDevice::module(std::string_view name) {
  const auto loaded = std::ranges::find(modules_, name, [](const auto& module) { return module.first; });
  if (loaded != modules_.end()) return loaded->second;
  const auto images = kernel_images();
  const auto image = std::ranges::find(images, name, &KernelImage::module);
  if (image == images.end()) {
    return make_error(ErrorCode::kUnsupported, "CUDA: this build has no kernels: build it with nvcc (docs/cuda.md)");
  }
  make_current();
  DriverModule module = nullptr;
  BALLAST_CHECK(driver_->check(driver_->module_load(&module, image->bytes.data()),
                               fmt::format("loading the kernels \"{}\" for {} ({}), of {}", name, info_.architecture(),
                                           info_.name, kernel_architectures())));
  modules_.emplace_back(image->module, module);
  return module;
}

Result<CudaDevice::Function*> CudaDevice::function(Kernel kernel) {
  std::atomic<Function*>& known = functions_[static_cast<size_t>(kernel)];
  if (Function* found = known.load(std::memory_order_acquire)) return found;
  const std::lock_guard lock(mutex_);
  if (Function* found = known.load(std::memory_order_relaxed)) return found;
  const KernelRow& row = kKernelRows[static_cast<size_t>(kernel)];
  BALLAST_TRY(const DriverModule module, this->module(row.module));
  auto function = std::make_unique<Function>();
  function->shared_bytes = kUsualSharedBytes;
  BALLAST_CHECK(driver_->check(driver_->module_function(&function->function, module, std::string(row.function).c_str()),
                               fmt::format("looking for the kernel {}", row.function)));
  // An image has code for many GPUs, and the driver chooses: only it knows what the code that it loaded was made for.
  int compiled_for = 0;
  BALLAST_CHECK(driver_->check(driver_->function_get(&compiled_for, kCompiledFor, function->function),
                               fmt::format("asking what the kernel {} was compiled for", row.function)));
  function->waits_by_itself = waits_by_itself(compiled_for);
  size_t offset = 0, bytes = 0;
  while (driver_->parameter_info != nullptr &&
         driver_->parameter_info(function->function, function->parameter_sizes.size(), &offset, &bytes) ==
             kDriverSuccess) {
    function->parameter_sizes.push_back(bytes);
  }
  known.store(function.get(), std::memory_order_release);
  return owned_functions_.emplace_back(std::move(function)).get();
}

Status CudaDevice::allow_shared_bytes(Function& function, uint32_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes <= function.shared_bytes) return {};
  BALLAST_CHECK(
      driver_->check(driver_->function_set(function.function, kLargestDynamicShared, static_cast<int>(bytes)),
                     fmt::format("asking for {} bytes of shared memory, of {}", bytes, info_.facts.shared_bytes)));
  function.shared_bytes = bytes;
  return {};
}

Result<PinnedMemory> CudaDevice::take_pinned() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_pinned_.empty()) {
      PinnedMemory memory = std::move(spare_pinned_.back());
      spare_pinned_.pop_back();
      return memory;
    }
  }
  return PinnedMemory::make(*this);
}

void CudaDevice::give_back(PinnedMemory memory) {
  constexpr size_t kMostSpare = 8;
  const std::lock_guard lock(mutex_);
  if (memory.data() != nullptr && spare_pinned_.size() < kMostSpare) spare_pinned_.push_back(std::move(memory));
}

std::optional<uint64_t> CudaDevice::free_memory() const {
  make_current();
  size_t free = 0, total = 0;
  if (driver_->memory_info(&free, &total) != kDriverSuccess) return std::nullopt;
  return free;
}

}  // namespace ballast::cuda
