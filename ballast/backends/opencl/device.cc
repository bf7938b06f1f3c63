#include "ballast/backends/opencl/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>

namespace ballast::opencl {

namespace {

// cl_device_info, cl_platform_info and cl_command_queue_info, by the numbers in cl.h.
constexpr uint32_t kDeviceType = 0x1000, kDeviceUnits = 0x1002, kDeviceGroupSize = 0x1004,
                   kDeviceAlignmentBits = 0x1019, kDevicePiece = 0x1010, kDeviceFloats = 0x101B, kDeviceMemory = 0x101F,
                   kDeviceLittleEndian = 0x1026, kDeviceCompiler = 0x1028, kDeviceName = 0x102B, kDeviceDriver = 0x102D,
                   kDeviceVersion = 0x102F, kDevicePlatform = 0x1031;
constexpr uint32_t kPlatformName = 0x0902;
constexpr uint32_t kQueueContext = 0x1090, kQueueDevice = 0x1091, kQueueProperties = 0x1093;
constexpr DriverBits kQueueOutOfOrder = 1, kExactDivision = 1 << 7;
constexpr uint32_t kMostPlatforms = 64, kMostDevices = 256;
constexpr size_t kMostText = 4096;

template <typename T>
Status ask_device(const Driver& driver, DriverDevice device, uint32_t what, T& value) {
  return Driver::check(driver.device_info(device, what, sizeof(value), &value, nullptr),
                       "asking for a device's properties");
}

// Answers are texts that end with 0, and some drivers put spaces around them.
template <typename Ask>
Result<std::string> ask_text(const Ask& ask) {
  std::string text(kMostText, '\0');
  size_t size = 0;
  BALLAST_CHECK(Driver::check(ask(text.size() - 1, text.data(), &size), "asking for a name"));
  text.resize(std::min(text.find('\0'), text.size()));
  const size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

Result<std::string> device_text(const Driver& driver, DriverDevice device, uint32_t what) {
  return ask_text(
      [&](size_t room, char* out, size_t* size) { return driver.device_info(device, what, room, out, size); });
}

Status add_devices(const Driver& driver, DriverPlatform platform, std::vector<DeviceInfo>& devices) {
  std::vector<DriverDevice> found(kMostDevices);
  uint32_t count = 0;
  const DriverCode code = driver.device_ids(platform, kDriverAnyDevice, kMostDevices, found.data(), &count);
  if (code == kDriverNoDevice) return {};
  BALLAST_CHECK(Driver::check(code, "counting devices"));
  found.resize(std::min(count, kMostDevices));
  for (DriverDevice device : found) {
    BALLAST_TRY(DeviceInfo info, describe_device(driver, device));
    info.index = devices.size();
    devices.push_back(std::move(info));
  }
  return {};
}

// Devices that are open, to tell ours from others.
struct OpenDevices {
  std::mutex mutex;
  std::vector<OpenClDevice*> devices;
};
OpenDevices& open_devices() {
  static auto* const open = new OpenDevices();
  return *open;
}

}  // namespace

std::string_view DeviceInfo::kind() const {
  if ((type & kDriverGpu) != 0) return "gpu";
  if ((type & kDriverCpu) != 0) return "cpu";
  return "accelerator";
}

std::string_view DeviceInfo::lacks() const {
  if (!can_compile) return "its driver cannot compile kernels";
  if (!is_little_endian) return "it is big-endian";
  if (group_size < kGroupSize) return "its work-groups have fewer than 64 work-items";
  return {};
}

Result<DeviceInfo> describe_device(const Driver& driver, DriverDevice device) {
  DeviceInfo info;
  info.device = device;
  BALLAST_CHECK(assign(info.name, device_text(driver, device, kDeviceName)));
  BALLAST_CHECK(assign(info.driver_version, device_text(driver, device, kDeviceDriver)));
  BALLAST_CHECK(assign(info.device_version, device_text(driver, device, kDeviceVersion)));
  DriverPlatform platform = nullptr;
  BALLAST_CHECK(ask_device(driver, device, kDevicePlatform, platform));
  BALLAST_CHECK(assign(info.platform, ask_text([&](size_t room, char* out, size_t* size) {
                         return driver.platform_info(platform, kPlatformName, room, out, size);
                       })));
  uint32_t can_compile = 0, little_endian = 0, alignment_bits = 0;
  size_t group_size = 0;
  DriverBits floats = 0;
  BALLAST_CHECK(ask_device(driver, device, kDeviceType, info.type));
  BALLAST_CHECK(ask_device(driver, device, kDeviceMemory, info.memory));
  BALLAST_CHECK(ask_device(driver, device, kDevicePiece, info.largest_piece));
  BALLAST_CHECK(ask_device(driver, device, kDeviceUnits, info.compute_units));
  BALLAST_CHECK(ask_device(driver, device, kDeviceCompiler, can_compile));
  BALLAST_CHECK(ask_device(driver, device, kDeviceLittleEndian, little_endian));
  BALLAST_CHECK(ask_device(driver, device, kDeviceAlignmentBits, alignment_bits));
  BALLAST_CHECK(ask_device(driver, device, kDeviceGroupSize, group_size));
  BALLAST_CHECK(ask_device(driver, device, kDeviceFloats, floats));
  info.group_size = group_size;
  info.alignment = std::bit_floor(std::max<uint64_t>(alignment_bits / 8, 1));
  info.can_compile = can_compile != 0;
  info.is_little_endian = little_endian != 0;
  info.divides_exactly = (floats & kExactDivision) != 0;
  return info;
}

Result<std::vector<DeviceInfo>> list_devices(const Driver& driver) {
  std::vector<DriverPlatform> platforms(kMostPlatforms);
  uint32_t count = 0;
  BALLAST_CHECK(Driver::check(driver.platform_ids(kMostPlatforms, platforms.data(), &count), "looking for drivers"));
  platforms.resize(std::min(count, kMostPlatforms));
  std::vector<DeviceInfo> devices;
  for (DriverPlatform platform : platforms) BALLAST_CHECK(add_devices(driver, platform, devices));
  if (devices.empty()) return Driver::error(kDriverNoDevice, "looking for a device");
  return devices;
}

// ---------------------------------------------------------------- OpenClDevice

OpenClDevice::OpenClDevice(std::shared_ptr<const Driver> driver, DeviceInfo info, DriverContext context,
                           DriverQueue callers_queue)
    : driver_(std::move(driver)),
      info_(std::move(info)),
      context_(context),
      callers_queue_(callers_queue),
      name_(callers_queue != nullptr ? fmt::format("opencl, the caller's queue, {}", info_.name)
                                     : fmt::format("opencl:{}, {}", info_.index, info_.name)),
      limits_{.memory = info_.memory,
              .largest_piece = info_.largest_piece,
              .alignment = info_.alignment,
              .is_host_memory = false} {
  OpenDevices& open = open_devices();
  const std::lock_guard lock(open.mutex);
  open.devices.push_back(this);
}

OpenClDevice* as_opencl(const Device* device) {
  OpenDevices& open = open_devices();
  const std::lock_guard lock(open.mutex);
  const auto found = std::ranges::find(open.devices, device);
  return found == open.devices.end() ? nullptr : *found;
}

Result<std::shared_ptr<OpenClDevice>> OpenClDevice::open(std::shared_ptr<const Driver> driver, const DeviceInfo& info) {
  DriverCode code = kDriverSuccess;
  const DriverContext context = driver->context_create(nullptr, 1, &info.device, nullptr, nullptr, &code);
  BALLAST_CHECK(Driver::check(code, fmt::format("opening device {}, {}", info.index, info.name)));
  return std::shared_ptr<OpenClDevice>(new OpenClDevice(std::move(driver), info, context, nullptr));
}

Result<std::shared_ptr<OpenClDevice>> OpenClDevice::open_on(std::shared_ptr<const Driver> driver, DriverQueue queue) {
  const auto ask = [&](uint32_t what, auto& value) {
    return Driver::check(driver->queue_info(queue, what, sizeof(value), &value, nullptr),
                         "asking whose the caller's queue is");
  };
  DriverContext context = nullptr;
  DriverDevice device = nullptr;
  DriverBits properties = 0;
  BALLAST_CHECK(ask(kQueueContext, context));
  BALLAST_CHECK(ask(kQueueDevice, device));
  BALLAST_CHECK(ask(kQueueProperties, properties));
  if ((properties & kQueueOutOfOrder) != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "OpenCL: the caller's queue runs commands out of order: make it without "
                      "CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE");
  }
  BALLAST_TRY(DeviceInfo info, describe_device(*driver, device));
  if (const std::string_view lack = info.lacks(); !lack.empty()) {
    return make_error(ErrorCode::kUnsupported, fmt::format("OpenCL: {} cannot compute: {}", info.name, lack));
  }
  BALLAST_CHECK(Driver::check(driver->context_retain(context), "keeping the caller's context"));
  const DriverCode code = driver->queue_retain(queue);
  if (code != kDriverSuccess) driver->context_release(context);
  BALLAST_CHECK(Driver::check(code, "keeping the caller's queue"));
  return std::shared_ptr<OpenClDevice>(new OpenClDevice(std::move(driver), std::move(info), context, queue));
}

OpenClDevice::~OpenClDevice() {
  {
    OpenDevices& open = open_devices();
    const std::lock_guard lock(open.mutex);
    std::erase(open.devices, this);
  }
  for (const auto& [name, kernel] : kernels_) driver_->kernel_release(kernel);
  for (const auto& [name, program] : programs_) driver_->program_release(program);
  if (callers_queue_ != nullptr) driver_->queue_release(callers_queue_);
  driver_->context_release(context_);
}

// Drivers give memory when it is first used, if at all, and fail then; so what is too much is refused here.
Result<std::unique_ptr<DeviceMemory>> OpenClDevice::allocate(uint64_t bytes) {
  const uint64_t counted = std::max<uint64_t>(bytes, 1);  // no buffer is empty
  const uint64_t held = held_.fetch_add(counted);
  const bool fits = counted <= info_.largest_piece && held <= info_.memory && counted <= info_.memory - held;
  DriverCode code = kDriverNoMemory;
  const DriverMemory handle =
      fits ? driver_->memory_create(context_, 1, static_cast<size_t>(counted), nullptr, &code) : nullptr;
  if (code != kDriverSuccess) {
    held_ -= counted;
    return Driver::error(code, fmt::format("allocating {} bytes on {}, which has {} bytes, gives {} at a time, and has "
                                           "given {} to this process",
                                           bytes, name_, info_.memory, info_.largest_piece, held));
  }
  auto* memory = new (std::nothrow) OpenClMemory(*this, handle, bytes, counted);
  if (memory != nullptr) return std::unique_ptr<DeviceMemory>(memory);
  driver_->memory_release(handle);
  held_ -= counted;
  return make_error(ErrorCode::kOutOfMemory, "the host has no memory left");
}

OpenClMemory::~OpenClMemory() {
  device_.driver().memory_release(handle_);
  device_.gave_back(counted_);
}

Result<std::shared_ptr<Queue>> OpenClDevice::open_queue() {
  DriverQueue queue = callers_queue_;
  if (queue != nullptr) {
    BALLAST_CHECK(Driver::check(driver_->queue_retain(queue), "keeping the caller's queue"));
  } else {
    DriverCode code = kDriverSuccess;
    queue = driver_->queue_create(context_, info_.device, 0, &code);
    BALLAST_CHECK(Driver::check(code, "making a queue"));
  }
  return std::shared_ptr<Queue>(std::make_shared<OpenClQueue>(shared_from_this(), queue));
}

}  // namespace ballast::opencl
