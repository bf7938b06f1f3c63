// Where tensors live and work is done: memory, queues, copies, limits. The host is one device; a backend brings
// another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/base/result.h"

namespace ballast {

// A piece of a device's memory, given back when this goes. What lies behind it only the backend of the device knows.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  uint64_t bytes() const { return bytes_; }
  // Null where the host cannot reach it.
  std::byte* host_address() const { return host_address_; }

 protected:
  DeviceMemory(uint64_t bytes, std::byte* host_address) : bytes_(bytes), host_address_(host_address) {}
  // For a device that shows its memory only now and then.
  void set_host_address(std::byte* address) { host_address_ = address; }

 private:
  uint64_t bytes_;
  std::byte* host_address_;
};

struct DeviceLimits {
  uint64_t memory = 0;         // bytes of all of it; 0: not known
  uint64_t largest_piece = 0;  // bytes that one allocation can have
  uint64_t alignment = 1;      // of every piece
  bool is_host_memory = false;
};

class Queue;

// Any thread may call it. Memory must not outlive it; queues, and tensors by way of those, keep it alive.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  virtual const DeviceLimits& limits() const = 0;
  // Uninitialised; kOutOfMemory where there is no room for it. Any other error says that the device is lost.
  virtual Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) = 0;
  virtual Result<std::shared_ptr<Queue>> open_queue() = 0;
  // Bytes of limits().memory that nobody has, neither this process nor another; absent: not known.
  virtual std::optional<uint64_t> free_memory() const { return std::nullopt; }
  // Functionals and routines that the host has computed in place of this device in this process, in the order of their
  // first use.
  virtual std::vector<std::string_view> fallbacks() const { return {}; }
};

// A place in a device's memory.
struct DevicePlace {
  DeviceMemory* memory = nullptr;
  uint64_t offset = 0;
};
struct ConstDevicePlace {
  const DeviceMemory* memory = nullptr;
  uint64_t offset = 0;
};

// Orders work: what is put into a queue happens as if each piece began when the one before it was done. One thread at a
// time. Ranges must lie within their memory. A queue keeps its device alive.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual Device& device() const = 0;

  virtual void fill(DevicePlace to, uint64_t bytes, std::byte value) = 0;
  // `from` may change again at once.
  virtual void copy_in(DevicePlace to, ByteSpan from) = 0;
  // `to` has the bytes when finish() was called. The host's queue is never behind.
  virtual void copy_out(ConstDevicePlace from, MutableByteSpan to) = 0;
  // Within the device; the ranges do not overlap.
  virtual void copy(ConstDevicePlace from, DevicePlace to, uint64_t bytes) = 0;
  // Waits for all that was put in, and gives the first error since the last call.
  virtual Status finish() = 0;
};

// The machine's own memory. There is one.
const std::shared_ptr<Device>& host_device();
Result<std::shared_ptr<Device>> open_host_device();  // the same: what a backend of the host has for its device
// A queue of it that does everything at once. Any number of threads may use it.
const std::shared_ptr<Queue>& host_queue();

}  // namespace ballast
