// An OpenCL device, its memory, and queues on it.
//
// A queue is a command queue that keeps order: one of its own, or one that the program brought. Small copies from the
// host go through memory of the queue, so that the source may change at once and nothing waits. The first error is kept
// until finish(), and what is put in behind it is left out.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/backends/offload/fallback.h"
#include "ballast/backends/opencl/driver.h"
#include "ballast/backends/opencl/launch.h"
#include "ballast/device/tensor.h"

namespace ballast::opencl {

// What is known of a device before it is opened.
struct DeviceInfo {
  size_t index = 0;  // among those of all platforms
  std::string name, platform, driver_version, device_version;
  DriverBits type = 0;
  uint64_t memory = 0, largest_piece = 0;
  uint64_t alignment = 1;
  uint64_t group_size = 0;  // work-items of a group, at most
  uint32_t compute_units = 0;
  bool can_compile = false, is_little_endian = false, divides_exactly = false;
  DriverDevice device = nullptr;

  std::string_view kind() const;  // "gpu", "cpu", "accelerator"
  // Why kernels do not run on it; empty: they do.
  std::string_view lacks() const;
};
Result<DeviceInfo> describe_device(const Driver& driver, DriverDevice device);
// Of all platforms, in the order that the library gives them. kUnsupported where there is none.
Result<std::vector<DeviceInfo>> list_devices(const Driver& driver);

class OpenClQueue;

class OpenClDevice final : public Device, public std::enable_shared_from_this<OpenClDevice> {
 public:
  static Result<std::shared_ptr<OpenClDevice>> open(std::shared_ptr<const Driver> driver, const DeviceInfo& info);
  // The device and context of a queue that the program brought: all queues of this device are that one.
  static Result<std::shared_ptr<OpenClDevice>> open_on(std::shared_ptr<const Driver> driver, DriverQueue queue);
  ~OpenClDevice() override;

  std::string_view name() const override { return name_; }
  const DeviceLimits& limits() const override { return limits_; }
  Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override;
  Result<std::shared_ptr<Queue>> open_queue() override;
  std::vector<std::string_view> fallbacks() const override { return fallback_list_.names(); }

  const Driver& driver() const { return *driver_; }
  const DeviceInfo& info() const { return info_; }
  DriverContext context() const { return context_; }
  offload::FallbackList& fallback_list() { return fallback_list_; }

  // Sets the arguments and puts the kernel into the queue. Compiles its program when one of its kernels is first
  // wanted.
  Status launch(DriverQueue queue, const Kernel& kernel, const Grid& grid, std::span<const Argument> arguments);
  void gave_back(uint64_t bytes) { held_ -= bytes; }

 private:
  OpenClDevice(std::shared_ptr<const Driver> driver, DeviceInfo info, DriverContext context, DriverQueue callers_queue);
  Result<DriverProgram> program(const Kernel& kernel);
  Result<DriverKernel> function(const Kernel& kernel);

  const std::shared_ptr<const Driver> driver_;
  const DeviceInfo info_;
  const DriverContext context_;
  const DriverQueue callers_queue_;  // null: queues are its own
  const std::string name_;
  DeviceLimits limits_;
  std::atomic<uint64_t> held_ = 0;  // bytes of memory given out

  std::mutex mutex_;  // also while arguments are set: they belong to the kernel
  std::map<std::string, DriverProgram, std::less<>> programs_;
  std::map<std::string, DriverKernel, std::less<>> kernels_;
  offload::FallbackList fallback_list_;
};

class OpenClMemory final : public offload::OffloadMemory {
 public:
  OpenClMemory(OpenClDevice& device, DriverMemory handle, uint64_t bytes, uint64_t counted)
      : OffloadMemory(bytes, nullptr), device_(device), handle_(handle), counted_(counted) {}
  // The driver keeps it as long as work that was put into a queue needs it.
  ~OpenClMemory() override;

  DriverMemory handle() const { return handle_; }

 private:
  OpenClDevice& device_;
  const DriverMemory handle_;
  const uint64_t counted_;  // against the device's memory
};

class OpenClQueue final : public offload::OffloadQueue {
 public:
  // Bytes of copies from the host that are kept until finish(), and the largest that is: others are waited for.
  static constexpr uint64_t kMostStaged = 8 << 20, kLargestStaged = 1 << 20;

  OpenClQueue(std::shared_ptr<OpenClDevice> device, DriverQueue queue) : device_(std::move(device)), queue_(queue) {}
  ~OpenClQueue() override;

  Device& device() const override { return *device_; }
  void fill(DevicePlace to, uint64_t bytes, std::byte value) override;
  void copy_in(DevicePlace to, ByteSpan from) override;
  void copy_out(ConstDevicePlace from, MutableByteSpan to) override;
  void copy(ConstDevicePlace from, DevicePlace to, uint64_t bytes) override;
  Status finish() override;
  offload::FallbackList& fallback_list() const override { return device_->fallback_list(); }

  Status launch(const Kernel& kernel, const Grid& grid, std::span<const Argument> arguments);
  // The first error since finish(), of what the driver refused at once.
  const Status& status() const { return status_; }
  OpenClDevice& opencl_device() const { return *device_; }

 private:
  bool is_going() const { return static_cast<bool>(status_); }
  void check(DriverCode code, std::string_view doing);

  const std::shared_ptr<OpenClDevice> device_;
  const DriverQueue queue_;
  Status status_;
  std::vector<std::vector<std::byte>> staged_;
  uint64_t staged_bytes_ = 0;
};

// Null where it is the device of another backend.
OpenClDevice* as_opencl(const Device* device);

// The queue that a context computes with, which must be of an OpenCL device.
inline OpenClQueue& queue_of(const Context& context) { return static_cast<OpenClQueue&>(context.workspace().queue()); }

}  // namespace ballast::opencl
