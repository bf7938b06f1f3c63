#include <fmt/format.h>

#include <cstring>
#include <new>

#include "ballast/device/device.h"

namespace ballast {

namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMostBytes = uint64_t{1} << 46;  // beyond any address space

class HostMemory final : public DeviceMemory {
 public:
  HostMemory(uint64_t bytes, std::byte* address) : DeviceMemory(bytes, address) {}
  ~HostMemory() override { ::operator delete (host_address(), std::align_val_t{kAlignment}); }
};

class HostQueue final : public Queue {
 public:
  Device& device() const override { return *host_device(); }
  void fill(DevicePlace to, uint64_t bytes, std::byte value) override {
    if (bytes != 0) std::memset(at(to), static_cast<int>(value), bytes);
  }
  void copy_in(DevicePlace to, ByteSpan from) override {
    if (!from.empty()) std::memcpy(at(to), from.data(), from.size());
  }
  void copy_out(ConstDevicePlace from, MutableByteSpan to) override {
    if (!to.empty()) std::memcpy(to.data(), at(from), to.size());
  }
  void copy(ConstDevicePlace from, DevicePlace to, uint64_t bytes) override {
    if (bytes != 0) std::memcpy(at(to), at(from), bytes);
  }
  Status finish() override { return {}; }

 private:
  static std::byte* at(const auto& place) { return place.memory->host_address() + place.offset; }
};

class HostDevice final : public Device {
 public:
  std::string_view name() const override { return "host"; }
  const DeviceLimits& limits() const override { return limits_; }

  Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override {
    void* const address =
        bytes <= kMostBytes ? ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow) : nullptr;
    if (address != nullptr) {
      auto* memory = new (std::nothrow) HostMemory(bytes, static_cast<std::byte*>(address));
      if (memory != nullptr) return std::unique_ptr<DeviceMemory>(memory);
      ::operator delete (address, std::align_val_t{kAlignment});
    }
    return make_error(ErrorCode::kOutOfMemory, fmt::format("the host has no {} bytes of memory left", bytes));
  }

  Result<std::shared_ptr<Queue>> open_queue() override { return host_queue(); }

 private:
  const DeviceLimits limits_{.memory = 0, .largest_piece = kMostBytes, .alignment = kAlignment, .is_host_memory = true};
};

}  // namespace

const std::shared_ptr<Device>& host_device() {
  static const std::shared_ptr<Device> device = std::make_shared<HostDevice>();
  return device;
}

Result<std::shared_ptr<Device>> open_host_device() { return host_device(); }

const std::shared_ptr<Queue>& host_queue() {
  static const std::shared_ptr<Queue> queue = std::make_shared<HostQueue>();
  return queue;
}

}  // namespace ballast
