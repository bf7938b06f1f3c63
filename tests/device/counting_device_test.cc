// A device of which the tests know everything that was taken from it, and which fails when told.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "ballast/device/tensor.h"

namespace ballast {
namespace {

struct Ledger {
  uint64_t taken = 0;  // bytes that are out
  bool is_full = false;
  uint64_t most = UINT64_MAX;  // that it has
  bool is_lost = false;
};

class CountedMemory final : public DeviceMemory {
 public:
  CountedMemory(std::shared_ptr<Ledger> ledger, std::vector<std::byte> bytes)
      : DeviceMemory(bytes.size(), nullptr), hidden(std::move(bytes)), ledger_(std::move(ledger)) {
    ledger_->taken += hidden.size();
  }
  ~CountedMemory() override { ledger_->taken -= hidden.size(); }

  std::vector<std::byte> hidden;

 private:
  std::shared_ptr<Ledger> ledger_;
};

class CountingDevice final : public Device {
 public:
  explicit CountingDevice(std::shared_ptr<Ledger> ledger) : ledger_(std::move(ledger)) {}
  std::string_view name() const override { return "counting"; }
  const DeviceLimits& limits() const override { return limits_; }
  Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override {
    if (ledger_->is_lost) return make_error(ErrorCode::kIo, "it fell off the bus");
    if (ledger_->is_full || ledger_->taken + bytes > ledger_->most) return make_error(ErrorCode::kOutOfMemory, "full");
    return std::unique_ptr<DeviceMemory>(new CountedMemory(ledger_, std::vector<std::byte>(bytes)));
  }
  Result<std::shared_ptr<Queue>> open_queue() override { return make_error(ErrorCode::kUnsupported, "none"); }

 private:
  const DeviceLimits limits_{};
  std::shared_ptr<Ledger> ledger_;
};

class CountingQueue final : public Queue {
 public:
  explicit CountingQueue(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Device& device() const override { return *device_; }
  void fill(DevicePlace to, uint64_t bytes, std::byte value) override {
    std::memset(at(to), static_cast<int>(value), bytes);
  }
  void copy_in(DevicePlace to, ByteSpan from) override { std::memcpy(at(to), from.data(), from.size()); }
  void copy_out(ConstDevicePlace from, MutableByteSpan to) override {
    const auto* memory = static_cast<const CountedMemory*>(from.memory);
    std::memcpy(to.data(), memory->hidden.data() + from.offset, to.size());
  }
  void copy(ConstDevicePlace from, DevicePlace to, uint64_t bytes) override {
    copy_out(from, MutableByteSpan(at(to), bytes));
  }
  Status finish() override { return {}; }

 private:
  static std::byte* at(DevicePlace place) {
    return static_cast<CountedMemory*>(place.memory)->hidden.data() + place.offset;
  }
  std::shared_ptr<Device> device_;
};

struct Counting {
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  std::shared_ptr<Queue> queue = std::make_shared<CountingQueue>(std::make_shared<CountingDevice>(ledger));
};

TEST(DeviceWorkspace, ReachesTheDeviceThroughItsQueueAlone) {
  Counting counting;
  Workspace workspace(counting.queue);
  const Tensor tensor = *workspace.from(std::vector<float>{1, 2, 3}, {3});
  std::vector<float> values(3);
  ASSERT_TRUE(tensor.read(std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
  const Tensor zeros = *workspace.zeros({3});
  ASSERT_TRUE(zeros.read(std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values, std::vector<float>(3, 0));
}

TEST(DeviceWorkspace, GivesEverythingBackWhenItsLastTensorGoes) {
  Counting counting;
  Tensor kept;
  {
    Workspace workspace(counting.queue);
    counting.queue.reset();
    kept = *workspace.make({100});
    const Tensor dropped = *workspace.make({4000});
    EXPECT_EQ(counting.ledger->taken, 512U + 16384U);
  }
  EXPECT_EQ(counting.ledger->taken, 512U) << "what a tensor has, and nothing else";
  kept = Tensor();
  EXPECT_EQ(counting.ledger->taken, 0U);
}

TEST(DeviceWorkspace, SaysWhichTensorADeviceHasNoRoomFor) {
  Counting counting;
  Workspace workspace(counting.queue);
  counting.ledger->is_full = true;
  const auto tensor = workspace.make({3, 5}, DType::kF64);
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code, ErrorCode::kOutOfMemory);
  EXPECT_TRUE(tensor.error().message.starts_with("no memory for a tensor f64 [3, 5]: ")) << tensor.error().message;
  counting.ledger->is_full = false;
  EXPECT_TRUE(workspace.make({3, 5}, DType::kF64)) << "it goes on when there is room again";
}

TEST(DeviceWorkspace, GivesFreeMemoryBackWhereADeviceHasNoRoom) {
  Counting counting;
  Workspace workspace(counting.queue);
  counting.ledger->most = 1024 + 256;
  const Tensor kept = *workspace.make({64});
  { const Tensor dropped = *workspace.make({256}); }
  EXPECT_EQ(counting.ledger->taken, 1024U + 256U);
  const auto tensor = workspace.make({128});
  ASSERT_TRUE(tensor) << tensor.error().message;
  EXPECT_EQ(counting.ledger->taken, 512U + 256U);
  EXPECT_FALSE(workspace.make({256})) << "what tensors have stays";
  EXPECT_EQ(workspace.peak_bytes(), 1024U + 256U);
}

TEST(DeviceWorkspace, SaysThatADeviceIsLost) {
  Counting counting;
  Workspace workspace(counting.queue);
  counting.ledger->is_lost = true;
  const auto tensor = workspace.make({3});
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code, ErrorCode::kIo);
  EXPECT_EQ(tensor.error().message,
            "the device \"counting\" is lost, and cannot make a tensor f32 [3]: it fell off the bus");
}

TEST(HostDevice, HasMemoryThatTheHostReaches) {
  const auto memory = host_device()->allocate(100);
  ASSERT_TRUE(memory);
  EXPECT_EQ((*memory)->bytes(), 100U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*memory)->host_address()) % host_device()->limits().alignment, 0U);
  Queue& queue = *host_queue();
  queue.fill({memory->get(), 0}, 100, std::byte{7});
  queue.copy_in({memory->get(), 10}, std::as_bytes(std::span("ab", 2)));
  queue.copy({memory->get(), 10}, {memory->get(), 20}, 2);
  std::vector<std::byte> out(3);
  queue.copy_out({memory->get(), 20}, out);
  EXPECT_TRUE(queue.finish());
  EXPECT_EQ(out, (std::vector{std::byte{'a'}, std::byte{'b'}, std::byte{7}}));
  EXPECT_EQ(host_device()->allocate(uint64_t{1} << 60).error().code, ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace ballast
