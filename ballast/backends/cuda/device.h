// A GPU, its memory, and queues on it.
//
// A queue is a stream. Copies from the host go through pinned memory of the queue, so that the source may change at
// once and nothing waits; copies to the host arrive with finish(). The first error is kept until then, and what is put
// in behind it is left out.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/backends/cuda/driver.h"
#include "ballast/backends/cuda/kernel_names.h"
#include "ballast/backends/cuda/launch.h"
#include "ballast/backends/offload/fallback.h"
#include "ballast/device/tensor.h"

namespace ballast::cuda {

// What is known of a GPU before it is opened.
struct DeviceInfo {
  int index = 0;
  std::string name;
  uint64_t memory = 0;
  Facts facts;

  std::string architecture() const;  // "sm_90"
};
Result<std::vector<DeviceInfo>> list_devices(const Driver& driver);
// The first that kernels for these architectures run on; null: none.
const DeviceInfo* first_usable(std::span<const DeviceInfo> devices, std::string_view architectures);

class CudaDevice;

// Pinned memory of the host, with which the device copies while the host goes on.
class PinnedMemory {
 public:
  static constexpr uint64_t kBytes = 8 << 20;

  static Result<PinnedMemory> make(const CudaDevice& device);
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept { swap(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedMemory();
  std::byte* data() const { return data_; }

 private:
  void swap(PinnedMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
  }
  const CudaDevice* device_ = nullptr;
  std::byte* data_ = nullptr;
};

class CudaDevice final : public Device, public std::enable_shared_from_this<CudaDevice> {
 public:
  static Result<std::shared_ptr<CudaDevice>> open(std::shared_ptr<const Driver> driver, int index);
  ~CudaDevice() override;

  std::string_view name() const override { return name_; }
  const DeviceLimits& limits() const override { return limits_; }
  Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override;
  Result<std::shared_ptr<Queue>> open_queue() override;
  std::optional<uint64_t> free_memory() const override;
  // Of all models, because one device serves them all.
  std::vector<std::string_view> fallbacks() const override { return fallback_list_.names(); }

  const Driver& driver() const { return *driver_; }
  const DeviceInfo& info() const { return info_; }
  // Before each call of the driver: a context is current on a thread.
  void make_current() const { driver_->context_set(context_); }

  struct Function {
    DriverFunction function = nullptr;
    std::atomic<uint32_t> shared_bytes = 0;  // that it may have now
    bool waits_by_itself = false;            // for the kernel before it
    std::vector<size_t> parameter_sizes;     // empty where the driver does not tell
  };
  // Loads the kernel's module when one of its kernels is first wanted.
  Result<Function*> function(Kernel kernel);
  // More shared memory than every kernel may have, from the next launch on.
  Status allow_shared_bytes(Function& function, uint32_t bytes);
  // Of PinnedMemory::kBytes. Making it takes milliseconds, so what queues give back is kept.
  Result<PinnedMemory> take_pinned();
  void give_back(PinnedMemory memory);
  offload::FallbackList& fallback_list() { return fallback_list_; }

 private:
  CudaDevice(std::shared_ptr<const Driver> driver, DeviceInfo info, DriverDevice device, DriverContext context);
  Result<DriverModule> module(std::string_view name);

  const std::shared_ptr<const Driver> driver_;
  const DeviceInfo info_;
  const DriverDevice device_;
  const DriverContext context_;
  const std::string name_;
  DeviceLimits limits_;

  mutable std::mutex mutex_;
  std::vector<std::pair<std::string_view, DriverModule>> modules_;
  std::array<std::atomic<Function*>, kKernelRows.size()> functions_{};
  std::vector<std::unique_ptr<Function>> owned_functions_;
  std::vector<PinnedMemory> spare_pinned_;
  offload::FallbackList fallback_list_;
};

class CudaMemory final : public offload::OffloadMemory {
 public:
  CudaMemory(CudaDevice& device, DriverAddress address, uint64_t bytes)
      : OffloadMemory(bytes, nullptr), device_(device), address_(address) {}
  // Waits for whatever still uses it.
  ~CudaMemory() override;

  DriverAddress address() const { return address_; }

 private:
  CudaDevice& device_;
  const DriverAddress address_;
};

class CudaQueue final : public offload::OffloadQueue {
 public:
  // Pinned memory of a queue: so many pieces of so many bytes are on their way to the device at once.
  static constexpr size_t kPieces = 4;
  static constexpr uint64_t kPieceBytes = PinnedMemory::kBytes;

  CudaQueue(std::shared_ptr<CudaDevice> device, DriverStream stream) : device_(std::move(device)), stream_(stream) {}
  ~CudaQueue() override;

  Device& device() const override { return *device_; }
  void fill(DevicePlace to, uint64_t bytes, std::byte value) override;
  void copy_in(DevicePlace to, ByteSpan from) override;
  void copy_out(ConstDevicePlace from, MutableByteSpan to) override;
  void copy(ConstDevicePlace from, DevicePlace to, uint64_t bytes) override;
  Status finish() override;

  // copy_in, where the bytes are copied to pinned memory by several threads.
  void copy_in(DevicePlace to, ByteSpan from, ThreadPool* threads);
  // A kernel that waits by itself may start while the one before it still runs, and reads parameters before it waits
  // for that (kernels/common.cuh).
  Status launch(Kernel kernel, const Grid& grid, std::span<const void* const> arguments, std::span<const size_t> sizes);
  // The next kernel waits for the one before from its beginning: that one makes parameters.
  void keep_next_apart() { next_may_overlap_ = false; }
  // The first error since finish(), of what the driver refused at once.
  const Status& status() const { return status_; }
  CudaDevice& cuda_device() const { return *device_; }
  DriverStream stream() const { return stream_; }
  offload::FallbackList& fallback_list() const override { return device_->fallback_list(); }

 private:
  struct Piece {
    PinnedMemory memory;
    DriverEvent event = nullptr;
    bool is_on_its_way = false;
    uint64_t used = 0;
  };
  struct Arrival {
    uint64_t offset = 0;
    MutableByteSpan to;
  };

  bool is_going() const { return static_cast<bool>(status_); }
  void keep(Status status);
  void check(DriverCode code, std::string_view doing) { keep(device_->driver().check(code, doing)); }
  // A piece with room for at least one byte more.
  Piece* next_piece();
  Status prepare(Piece& piece);
  void turn_page();

  const std::shared_ptr<CudaDevice> device_;
  const DriverStream stream_;
  Status status_;
  std::array<Piece, kPieces> pieces_;
  size_t at_ = 0;
  PinnedMemory out_;
  uint64_t out_used_ = 0;
  std::vector<Arrival> arrivals_;
  bool next_may_overlap_ = false;
};

// The queue that a context computes with, which must be of a CUDA device.
inline CudaQueue& queue_of(const Context& context) { return static_cast<CudaQueue&>(context.workspace().queue()); }

}  // namespace ballast::cuda
