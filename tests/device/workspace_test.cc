#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "ballast/device/host_access.h"
#include "ballast/device/tensor.h"

namespace ballast {
namespace {

TEST(Dims, CountEvenWhereADimensionIsZero) {
  EXPECT_EQ((Dims{3, 0}.count()), 0U);
  EXPECT_EQ((Dims{3, 0}.leading()), 3U);
  EXPECT_EQ((Dims{7}.leading()), 1U);
  EXPECT_EQ((Dims{2, 3, 4}.leading()), 6U);
  EXPECT_EQ(Dims{}.count(), 1U);
  EXPECT_EQ((Dims{2, 3}.to_string()), "[2, 3]");
  EXPECT_FALSE((Dims{2, 3} == Dims{2, 3, 1}));
}

TEST(Workspace, GivesMemoryAlignedForAnyVector) {
  Workspace workspace;
  for (const uint64_t count : {0U, 1U, 17U, 1000U}) {
    const auto tensor = workspace.make({count});
    ASSERT_TRUE(tensor);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(host_data<const float>(*tensor)) % 64, 0U);
    EXPECT_EQ(tensor->byte_size(), count * 4);
  }
}

TEST(Workspace, AllocatesNothingWhenTheSameIsRunAgain) {
  Workspace workspace;
  const auto pass = [&] {
    Tensor x = *workspace.make({1, 768});
    for (int layer = 0; layer < 12; ++layer) {
      const Tensor qkv = *workspace.make({1, 3 * 768});
      const Tensor attended = *workspace.make({1, 768});
      const Tensor hidden = *workspace.make({1, 4 * 768});
      x = *workspace.make({1, 768});
    }
    return *workspace.make({1, 50257});
  };
  { const Tensor logits = pass(); }
  const uint64_t after_one = workspace.allocations();
  const uint64_t bytes = workspace.peak_bytes();
  for (int i = 0; i < 100; ++i) const Tensor logits = pass();
  EXPECT_EQ(workspace.allocations(), after_one);
  EXPECT_EQ(workspace.peak_bytes(), bytes);
  EXPECT_LT(after_one, 10U) << "layers must share their memory";
}

TEST(Workspace, KeepsMemoryThatATensorStillHas) {
  Workspace workspace;
  Tensor kept = *workspace.from(std::vector<float>{1, 2, 3}, {3});
  const Tensor copy = kept;
  const Tensor view = copy.reshaped({3, 1});
  kept = Tensor();
  const Tensor other = *workspace.from(std::vector<float>{7, 8, 9}, {3});
  EXPECT_EQ(host_data<const float>(view)[2], 3);
  EXPECT_EQ(view.dims(), (Dims{3, 1}));
  EXPECT_NE(host_data<const float>(other), host_data<const float>(view));
}

TEST(Workspace, TakesTensorsBackFromAnyThread) {
  Workspace workspace;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([tensor = *workspace.make({1000})]() mutable { tensor = Tensor(); });
    }
    const Tensor meanwhile = *workspace.make({1000});
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_LE(workspace.allocations(), 5U);
}

// Python and its kin keep results longer than the model that made them.
TEST(Workspace, MayGoBeforeItsTensors) {
  Tensor kept;
  {
    Workspace workspace;
    const Tensor dropped_first = *workspace.make({1 << 12});
    kept = *workspace.from(std::vector<float>{1, 2, 3}, {3});
  }
  const Tensor copy = kept;
  kept = Tensor();
  EXPECT_EQ(host_data<const float>(copy)[2], 3);
  EXPECT_EQ(copy.device(), host_device().get());
}

TEST(Workspace, MayGoWhileThreadsDropItsTensors) {
  for (int round = 0; round < 50; ++round) {
    auto workspace = std::make_unique<Workspace>();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([tensor = *workspace->make({1000})]() mutable { tensor = Tensor(); });
    }
    workspace.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Workspace, RefusesWhatNoMemoryHolds) {
  Workspace workspace;
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max() / 2;
  for (const Dims& dims : {Dims{kHuge, 3}, Dims{kHuge}, Dims{kHuge, kHuge, 0}, Dims{uint64_t{1} << 45}}) {
    const auto tensor = workspace.make(dims);
    ASSERT_FALSE(tensor);
    EXPECT_EQ(tensor.error().code, ErrorCode::kOutOfMemory);
    EXPECT_TRUE(tensor.error().message.starts_with("no memory for a tensor f32 " + dims.to_string()));
  }
  EXPECT_FALSE(workspace.from(std::vector<float>{1, 2}, {3}));
}

TEST(Workspace, MakesZeros) {
  Workspace workspace;
  { const Tensor dirty = *workspace.from(std::vector<float>(16, 1.0F), {16}); }
  const Tensor zeros = *workspace.zeros({16});
  for (int i = 0; i < 16; ++i) EXPECT_EQ(host_data<const float>(zeros)[i], 0);
}

}  // namespace
}  // namespace ballast
