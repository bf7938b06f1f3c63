#include "tests/support/ledger_device.h"

#include <cstring>
#include <utility>
#include <vector>

namespace ballast::testing {

namespace {

class LedgerMemory final : public DeviceMemory {
 public:
  LedgerMemory(std::shared_ptr<DeviceLedger> ledger, std::unique_ptr<std::byte[]> memory, uint64_t bytes)
      : DeviceMemory(bytes, memory.get()), ledger_(std::move(ledger)), memory_(std::move(memory)) {
    ledger_->bytes_out += bytes;
  }
  ~LedgerMemory() override { ledger_->bytes_out -= bytes(); }

 private:
  std::shared_ptr<DeviceLedger> ledger_;
  std::unique_ptr<std::byte[]> memory_;
};

bool ledger_call_fails(DeviceLedger& ledger) { return ++ledger.calls == ledger.failing_call; }

class LedgerDevice final : public Device {
 public:
  explicit LedgerDevice(std::shared_ptr<DeviceLedger> ledger) : ledger_(std::move(ledger)) {}
  std::string_view name() const override { return "ledger"; }
  const DeviceLimits& limits() const override { return limits_; }
  Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override {
    if (ledger_call_fails(*ledger_)) return make_error(ErrorCode::kIo, "the device failed");
    if (bytes > ledger_->most_bytes || ledger_->bytes_out > ledger_->most_bytes - bytes) {
      return make_error(ErrorCode::kOutOfMemory, "the device is full");
    }
    auto memory = std::make_unique<std::byte[]>(bytes);
    std::memset(memory.get(), 0xAB, bytes);  // what nobody wrote is no zero
    ++ledger_->allocations;
    return std::unique_ptr<DeviceMemory>(std::make_unique<LedgerMemory>(ledger_, std::move(memory), bytes));
  }
  Result<std::shared_ptr<Queue>> open_queue() override { return make_error(ErrorCode::kUnsupported, "there is one"); }

 private:
  const DeviceLimits limits_{.memory = 0, .largest_piece = uint64_t{1} << 40, .alignment = 16, .is_host_memory = true};
  std::shared_ptr<DeviceLedger> ledger_;
};

class LedgerQueue final : public Queue {
 public:
  explicit LedgerQueue(std::shared_ptr<DeviceLedger> ledger)
      : ledger_(std::move(ledger)), device_(std::make_shared<LedgerDevice>(ledger_)) {}
  Device& device() const override { return *device_; }
  void fill(DevicePlace to, uint64_t bytes, std::byte value) override {
    const std::vector<std::byte> values(bytes, value);
    move(values.data(), at(to), bytes);
  }
  void copy_in(DevicePlace to, ByteSpan from) override { move(from.data(), at(to), from.size()); }
  void copy_out(ConstDevicePlace from, MutableByteSpan to) override { move(at(from), to.data(), to.size()); }
  void copy(ConstDevicePlace from, DevicePlace to, uint64_t bytes) override { move(at(from), at(to), bytes); }
  Status finish() override { return std::exchange(state_, Status()); }

 private:
  static std::byte* at(const auto& place) { return place.memory->host_address() + place.offset; }
  void move(const std::byte* from, std::byte* to, uint64_t bytes) {
    if (ledger_call_fails(*ledger_)) {
      state_ = make_error(ErrorCode::kIo, "the device failed");
    } else if (bytes != 0) {
      std::memcpy(to, from, bytes);
    }
  }

  std::shared_ptr<DeviceLedger> ledger_;
  std::shared_ptr<Device> device_;
  Status state_;
};

}  // namespace

std::shared_ptr<Queue> make_ledger_queue(std::shared_ptr<DeviceLedger> ledger) {
  return std::make_shared<LedgerQueue>(std::move(ledger));
}

}  // namespace ballast::testing
