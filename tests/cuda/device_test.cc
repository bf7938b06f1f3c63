// Memory, copies, parameters and launches on a GPU that is made up (tests/cuda/fake_driver.cc), which defers work
// as a real driver may.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ballast/backends/cuda/kernel_image.h"
#include "ballast/backends/cuda/launch.h"
#include "ballast/device/host_values.h"
#include "ballast/engine/kv_pool.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/kv_texts.h"
#include "tests/support/ops_testing.h"

namespace ballast::testing {
namespace {

using cuda::CudaDevice;
using cuda::CudaPointer;
using cuda::CudaQueue;
using cuda::Kernel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::byte> some_bytes(size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xFF);
  return bytes;
}

class CudaQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake = &fresh_fake_cuda();
    auto opened = fake_device();
    ASSERT_TRUE(opened) << opened.error().message;
    device = *std::move(opened);
    auto made = device->open_queue();
    ASSERT_TRUE(made) << made.error().message;
    queue = *std::move(made);
  }
  void TearDown() override {
    queue.reset();
    device.reset();
    EXPECT_EQ(fake->bytes_out, 0U);
    EXPECT_EQ(fake->host_bytes_out, 0U);
    EXPECT_EQ(fake->streams_out, 0U);
    EXPECT_EQ(fake->events_out, 0U);
  }

  std::unique_ptr<DeviceMemory> allocate(uint64_t bytes) {
    auto memory = device->allocate(bytes);
    EXPECT_TRUE(memory) << memory.error().message;
    return *std::move(memory);
  }

  FakeCuda* fake = nullptr;
  std::shared_ptr<CudaDevice> device;
  std::shared_ptr<Queue> queue;
};

TEST_F(CudaQueueTest, TellsOfItsDevice) {
  EXPECT_EQ(device->name(), "cuda:0, Fake GPU");
  EXPECT_EQ(device->limits().memory, fake->memory);
  EXPECT_FALSE(device->limits().is_host_memory);
  EXPECT_EQ(&queue->device(), device.get());
}

TEST_F(CudaQueueTest, SourcesMayChangeAtOnceAndTargetsArriveWithFinish) {
  // More than all pinned memory of the queue together, in pieces of every size.
  const uint64_t total = CudaQueue::kPieceBytes * (CudaQueue::kPieces + 1) + 12345;
  const auto expected = some_bytes(total, 3);
  const auto memory = allocate(total);
  std::vector<std::byte> source;
  for (uint64_t at = 0, size = 1; at < total; at += source.size(), size = size * 3 + 1) {
    const uint64_t some = std::min(size, total - at);
    source.assign(expected.begin() + static_cast<ptrdiff_t>(at), expected.begin() + static_cast<ptrdiff_t>(at + some));
    queue->copy_in({memory.get(), at}, source);
    std::ranges::fill(source, std::byte{0xEE});
  }
  std::vector<std::byte> all(total), few(100);
  queue->copy_out({memory.get(), 7}, few);
  queue->copy_out({memory.get()}, all);
  ASSERT_TRUE(queue->finish());
  EXPECT_TRUE(all == expected);
  EXPECT_TRUE(std::ranges::equal(few, std::span(expected).subspan(7, 100)));
}

TEST_F(CudaQueueTest, FillsAndCopiesWithinTheDevice) {
  const auto a = allocate(64), b = allocate(64);
  queue->fill({a.get()}, 64, std::byte{1});
  queue->fill({a.get(), 8}, 4, std::byte{2});
  queue->copy({a.get(), 6}, {b.get(), 10}, 4);
  std::vector<std::byte> out(4);
  queue->copy_out({b.get(), 10}, out);
  ASSERT_TRUE(queue->finish());
  EXPECT_EQ(out, (std::vector<std::byte>{std::byte{1}, std::byte{1}, std::byte{2}, std::byte{2}}));
  queue->copy_in({a.get()}, {});
  queue->copy_out({a.get()}, {});
  EXPECT_TRUE(queue->finish()) << "nothing is nothing";
}

TEST_F(CudaQueueTest, ALackOfMemorySaysHowMuchThereIs) {
  const auto memory = device->allocate(fake->memory + 1);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(memory.error().message,
              AllOf(HasSubstr("1073741825 bytes"), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"), HasSubstr("quantised")));
  EXPECT_TRUE(device->allocate(16)) << "others go on";
}

TEST_F(CudaQueueTest, KeepsTheFirstErrorAndLeavesOutWhatComesBehindIt) {
  const auto memory = allocate(64);
  queue->fill({memory.get()}, 64, std::byte{1});
  fake->failing_call = fake->calls + 1;
  fake->failing_code = 1;
  queue->fill({memory.get()}, 64, std::byte{2});
  queue->fill({memory.get()}, 64, std::byte{3});
  const Status failed = queue->finish();
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("filling memory"));
  std::vector<std::byte> out(1);
  queue->copy_out({memory.get()}, out);
  EXPECT_TRUE(queue->finish()) << "an error is told once";
  EXPECT_EQ(out[0], std::byte{1});
}

TEST_F(CudaQueueTest, ALostDeviceSaysSoEachTime) {
  const auto memory = allocate(64);
  fake->failing_call = fake->calls + 1;
  fake->failing_code = 719;
  for (int i = 0; i < 2; ++i) {
    queue->fill({memory.get()}, 64, std::byte{2});
    const Status lost = queue->finish();
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().code, ErrorCode::kIo);
    EXPECT_THAT(lost.error().message, AllOf(HasSubstr("CUDA_ERROR_LAUNCH_FAILED"), HasSubstr("lost")));
  }
}

TEST_F(CudaQueueTest, ALostDeviceDoesNotLackMemory) {
  Workspace workspace(queue);
  fake->failing_call = fake->calls + 1;
  fake->failing_code = 719;
  for (int i = 0; i < 2; ++i) {
    const auto tensor = workspace.make({3});
    ASSERT_FALSE(tensor);
    EXPECT_EQ(tensor.error().code, ErrorCode::kIo);
    EXPECT_THAT(tensor.error().message, AllOf(StartsWith("the device \"cuda:0, Fake GPU\" is lost"),
                                              HasSubstr("CUDA_ERROR_LAUNCH_FAILED"), Not(HasSubstr("no memory"))));
  }
}

TEST_F(CudaQueueTest, EveryCallThatFailsIsAnErrorAndLeavesNothingBehind) {
  uint64_t done_at = 0;
  const auto use = [&]() -> Status {
    BALLAST_TRY(const auto other, fake_device());
    BALLAST_TRY(const std::shared_ptr<Queue> own, other->open_queue());
    Workspace workspace(own);
    BALLAST_TRY(const Tensor x,
                workspace.from(std::vector<float>(CudaQueue::kPieceBytes / 2, 1), {CudaQueue::kPieceBytes / 2}));
    BALLAST_TRY(const Tensor y, workspace.copy(x));
    BALLAST_TRY(const auto values, HostValues<float>::of(y));
    done_at = fake->calls;  // what goes has nobody to tell
    return values[100] == 1 ? Status() : make_error(ErrorCode::kCorrupt, "another number");
  };
  const uint64_t before = fake->calls;
  ASSERT_TRUE(use());
  const uint64_t calls = done_at - before;
  for (uint64_t n = 1; n <= calls; ++n) {
    fake->failing_call = fake->calls + n;
    const Status failed = use();
    ASSERT_FALSE(failed) << "call " << n;
    EXPECT_NE(failed.error().code, ErrorCode::kCorrupt) << "call " << n;
    ASSERT_EQ(fake->bytes_out, 0U) << "call " << n;
    ASSERT_EQ(fake->host_bytes_out, 0U) << "call " << n;
  }
}

TEST_F(CudaQueueTest, PagesWithoutABudgetLeaveAReserve) {
  const auto shape = small_kv_shape({0});
  auto unlimited = KvPool::make(shape, queue), limited = KvPool::make(shape, queue, {.most_bytes = 1 << 20});
  ASSERT_TRUE(unlimited && limited);
  KvSequence text(*unlimited), other(*limited);
  ASSERT_TRUE(text.reserve(1));
  fake->memory = fake->bytes_out + (512 << 20);
  const Status refused = text.reserve(kPagePositions + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("536870912 bytes"), HasSubstr("budget")));
  EXPECT_TRUE(other.reserve(1)) << "a budget is taken at its word";
  fake->memory *= 2;
  EXPECT_TRUE(text.reserve(kPagePositions + 1)) << "there is room again";
}

// ---------------------------------------------------------------- launches

class CudaLaunch : public ::testing::Test {
 protected:
  CudaLaunch() : fake(fresh_fake_cuda()), lab(fake_cuda_backend()) {
    const bool has_kernels = !cuda::kernel_images().empty();
    if (!has_kernels) why_not = "built without kernels";
  }
  FakeCuda& fake;
  Lab lab;
  std::string why_not;
};

TEST_F(CudaLaunch, GoesToTheDevice) {
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  const Tensor y = lab.tensor({1, 2, 3}, {3});
  EXPECT_EQ(static_cast<uint64_t>(cuda::device_address(y)) % 16, 0U);
  const auto launch = [&](uint32_t blocks) {
    return cuda::launch(lab.context, Kernel::fill_f32, {.grid = {blocks}, .block = {256}, .shared_bytes = 100 << 10},
                        cuda::device_address(y), 1.0F, y.count());
  };
  ASSERT_TRUE(launch(1));
  EXPECT_EQ(fake.launches, 1U);
  ASSERT_TRUE(launch(0));
  EXPECT_EQ(fake.launches, 1U) << "nothing is not launched";
}

TEST_F(CudaLaunch, WithArgumentsOfOtherSizesIsRefused) {
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  const Tensor y = lab.tensor({1, 2, 3}, {3});
  const Status launched = cuda::launch(lab.context, Kernel::fill_f32, {}, cuda::device_address(y), 1.0, uint32_t{3});
  ASSERT_FALSE(launched);
  EXPECT_THAT(launched.error().message, AllOf(HasSubstr("fill_f32"), HasSubstr("8, 4, 8"), HasSubstr("8, 8, 4")));
  EXPECT_EQ(fake.launches, 0U);
}

// A GPU of compute capability 9.0 runs machine code for sm_90a, which waits by itself, or PTX for 8.0, which does not.
TEST_F(CudaLaunch, IsEarlyOnlyWhereTheLoadedCodeWaitsByItself) {
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  const auto early_of_three = [&](int compiled_for) {
    fake.compiled_for = compiled_for;
    Lab other(fake_cuda_backend());  // a device of its own, which loads kernels anew
    EXPECT_EQ(cuda::facts(other.context).major, 9);
    const Tensor y = other.tensor({1, 2, 3}, {3});
    const uint64_t launched = fake.launches, early = fake.early_launches;
    for (int i = 0; i < 3; ++i) {
      const Status done =
          cuda::launch(other.context, Kernel::fill_f32, {.block = {256}}, cuda::device_address(y), 1.0F, y.count());
      EXPECT_TRUE(done) << done.error().message;
    }
    EXPECT_EQ(fake.launches, launched + 3);
    return fake.early_launches - early;
  };
  EXPECT_EQ(early_of_three(90), 2U) << "all but a queue's first";
  EXPECT_EQ(early_of_three(80), 0U);
  EXPECT_EQ(early_of_three(0), 0U) << "a driver that does not tell";
}

// ---------------------------------------------------------------- parameters

class CudaParams : public ::testing::Test {
 protected:
  CudaParams() : fake(fresh_fake_cuda()), lab(fake_cuda_backend(), 2) {}

  // What lies on the device: the fake's memory is the host's.
  std::vector<std::byte> bytes_at(CudaPointer address, size_t count) {
    EXPECT_TRUE(lab.workspace.queue().finish());
    const auto* const begin = reinterpret_cast<const std::byte*>(static_cast<uint64_t>(address));  // NOLINT
    return {begin, begin + count};
  }

  FakeCuda& fake;
  Lab lab;
};

MemoryParam bytes_param(const std::string& name, const Shape& shape) {
  MemoryParam param;
  param.info.name = name;
  param.info.dtype = DType::kU8;
  param.info.shape = shape;
  param.info.byte_size = shape.element_count().value();
  param.payload.resize(param.info.byte_size);
  const auto bytes = some_bytes(param.payload.size(), 9);
  std::ranges::copy(bytes, param.payload.begin());
  return param;
}

TEST_F(CudaParams, AreUploadedOnceAndGoWithTheirStore) {
  const uint64_t before = fake.bytes_out;
  {
    const auto store = make_store({bytes_param("w", {3000, 1000})});
    const Param w = param_of(*store, "w");
    const auto first = cuda::weights(lab.context, w);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(bytes_at(first->address, 3000000), some_bytes(3000000, 9));
    EXPECT_EQ(first->rows, 3000U);
    EXPECT_EQ(first->row_bytes, 1000U);
    const uint64_t uploaded = fake.uploaded;
    const auto rows = cuda::weights(lab.context, w, {.first = 5, .count = 7});
    ASSERT_TRUE(rows);
    EXPECT_EQ(rows->address, first->address + 5000);
    EXPECT_EQ(rows->rows, 7U);
    Lab other(fake_cuda_backend());
    EXPECT_EQ(fake.uploaded, uploaded);
    EXPECT_GE(fake.bytes_out, before + 3000000);
  }
  EXPECT_EQ(fake.bytes_out, before);
}

TEST_F(CudaParams, AreWholeAfterAnyCallThatFailed) {
  constexpr size_t kBytes = 12'000'000;  // more than one piece of pinned memory
  uint64_t failed_calls = 0;
  for (bool is_past_all = false; !is_past_all; ++failed_calls) {
    const auto store = make_store({bytes_param("w", {3000, 4000})});
    const Param w = param_of(*store, "w");
    fake.failing_call = fake.calls + failed_calls + 1;
    const bool is_there = static_cast<bool>(cuda::weights(lab.context, w));
    const bool is_done = static_cast<bool>(lab.workspace.queue().finish());
    is_past_all = fake.calls < fake.failing_call;
    fake.failing_call = 0;
    EXPECT_EQ(is_there && is_done, is_past_all) << "call " << failed_calls;
    const auto again = cuda::weights(lab.context, w);
    ASSERT_TRUE(again) << again.error().message << ", call " << failed_calls;
    ASSERT_TRUE(bytes_at(again->address, kBytes) == some_bytes(kBytes, 9)) << "call " << failed_calls;
  }
  EXPECT_GT(failed_calls, 6U);
  EXPECT_LE(fake.events_out, CudaQueue::kPieces) << "those of the queue, and of no parameter";
}

TEST_F(CudaParams, AreNotKeptWhereTheQueueHasFailedBefore) {
  const auto store = make_store({bytes_param("w", {30, 10})});
  const Param w = param_of(*store, "w");
  int made = 0;
  const cuda::WeightForm form{"same", 300, [&](Context& context, const cuda::WeightSpan& stored, CudaPointer) {
                                ++made;
                                EXPECT_EQ(bytes_at(stored.address, 300), some_bytes(300, 9));
                                EXPECT_EQ(&context, &lab.context);
                                return Status();
                              }};
  const auto fail = [&] {
    EXPECT_TRUE(lab.workspace.zeros({2}));  // the next one takes its block
    EXPECT_TRUE(lab.workspace.queue().finish());
    fake.failing_call = fake.calls + 1;
    EXPECT_TRUE(lab.workspace.zeros({2})) << "the queue keeps the error";
  };
  fail();
  EXPECT_FALSE(cuda::weight_form(lab.context, w, form));
  EXPECT_EQ(made, 0);
  fail();
  EXPECT_FALSE(cuda::weights(lab.context, w));
  ASSERT_TRUE(cuda::weight_form(lab.context, w, form)) << "an error is told once";
  EXPECT_EQ(made, 1);
  const auto stored = cuda::weights(lab.context, w);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(bytes_at(stored->address, 300), some_bytes(300, 9));
}

TEST_F(CudaParams, OfAStoreWithABudgetAreUploadedTileByTile) {
  ResidencyOptions options;
  options.budget = 64 << 10;
  const auto store = make_store({bytes_param("w", {3000, 100})}, options);
  const auto w = cuda::weights(lab.context, param_of(*store, "w"));
  ASSERT_TRUE(w) << w.error().message;
  EXPECT_EQ(bytes_at(w->address, 300000), some_bytes(300000, 9));
  EXPECT_LE(store->stats().peak, options.budget);
}

TEST_F(CudaParams, ThatDoNotFitAreAnErrorThatNamesThem) {
  const auto store = make_store({bytes_param("w", {3000, 1000})});
  fake.memory = fake.bytes_out + 1000;
  const auto w = cuda::weights(lab.context, param_of(*store, "w"));
  ASSERT_FALSE(w);
  EXPECT_EQ(w.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(w.error().message, AllOf(HasSubstr("\"w\""), HasSubstr("3000000 bytes"), HasSubstr("quantised")));
}

TEST_F(CudaParams, AnotherFormIsMadeOnceFromBytesThatGoAgain) {
  const auto store = make_store({bytes_param("w", {1000, 10})});
  const Param w = param_of(*store, "w");
  const uint64_t before = fake.bytes_out;
  int made = 0;
  const cuda::WeightForm form{"halved", 500, [&](Context& context, const cuda::WeightSpan& stored, CudaPointer out) {
                                ++made;
                                EXPECT_EQ(bytes_at(stored.address, 10000), some_bytes(10000, 9));
                                EXPECT_NE(out, CudaPointer::kNull);
                                EXPECT_EQ(&context, &lab.context);
                                return Status();
                              }};
  const auto first = cuda::weight_form(lab.context, w, form), second = cuda::weight_form(lab.context, w, form);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(fake.bytes_out, before + 500);
}

}  // namespace
}  // namespace ballast::testing
