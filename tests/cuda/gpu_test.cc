// A real GPU, where there is one; `make test-cuda` says that there must be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "ballast/backends/cuda/launch.h"
#include "ballast/device/host_values.h"
#include "tests/support/ops_testing.h"

namespace ballast::testing {
namespace {

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto found = find_backend("cuda")->find_devices();
    if (found) return;
    if (std::getenv("BALLAST_NEEDS_CUDA") != nullptr) FAIL() << found.error().message;
    GTEST_SKIP() << found.error().message;
  }
};

TEST_F(Gpu, IsTheDefaultAndTellsOfItself) {
  EXPECT_EQ(default_backend().name, "cuda");
  EXPECT_EQ(default_backend(true).name, "cpu") << "it does not train";
  Lab lab(*find_backend("cuda"));
  const Device& device = lab.workspace.queue().device();
  EXPECT_TRUE(device.name().starts_with("cuda:0, ")) << device.name();
  EXPECT_GT(device.limits().memory, uint64_t{1} << 30);
  const cuda::Facts& facts = cuda::facts(lab.context);
  EXPECT_GE(facts.major, 7);
  EXPECT_GT(facts.multiprocessors, 0U);
  EXPECT_GE(facts.shared_bytes, 48U << 10);
}

TEST_F(Gpu, CopiesWhatItIsGiven) {
  Lab lab(*find_backend("cuda"));
  std::vector<float> values(50'000'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 16777213);
  auto expected = values;
  const auto x = lab.workspace.from(values, {values.size()});
  std::ranges::fill(values, -1.0F);  // may change at once
  ASSERT_TRUE(x) << x.error().message;
  const auto y = lab.workspace.copy(*x);
  ASSERT_TRUE(y) << y.error().message;
  const auto copied = HostValues<float>::of(*y);
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_TRUE(std::ranges::equal(*copied, expected));
}

TEST_F(Gpu, RunsKernels) {
  Lab lab(*find_backend("cuda"));
  Tensor y = lab.tensor(std::vector<double>(1000, 1), {1000});
  ASSERT_TRUE(cuda::launch(lab.context, cuda::Kernel::fill_f32, {.grid = {4}, .block = {128}}, cuda::device_address(y),
                           2.5F, uint64_t{999}));
  const auto values = values_of(y);
  EXPECT_EQ(values[0], 2.5);
  EXPECT_EQ(values[998], 2.5);
  EXPECT_EQ(values[999], 1);
}

TEST_F(Gpu, RefusesArgumentsThatAreNotTheKernels) {
  Lab lab(*find_backend("cuda"));
  const Tensor y = lab.tensor({1}, {1});
  EXPECT_FALSE(cuda::launch(lab.context, cuda::Kernel::fill_f32, {}, cuda::device_address(y), 1.0, uint32_t{1}));
}

TEST_F(Gpu, SaysThatItsMemoryIsTooSmallAndGoesOn) {
  Lab lab(*find_backend("cuda"));
  Device& device = lab.workspace.queue().device();
  const auto memory = device.allocate(device.limits().memory + (1 << 20));
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(memory.error().message, ::testing::HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_TRUE(lab.workspace.from(std::vector<float>{1, 2}, {2}));
}

TEST_F(Gpu, HasParametersOnceForAllQueues) {
  const std::vector<double> values = random_values(1, 1 << 20);
  const auto store = make_store({make_param("w", DType::kF32, {1024, 1024}, values)});
  Lab first(*find_backend("cuda")), second(*find_backend("cuda"));
  const auto a = cuda::weights(first.context, param_of(*store, "w"));
  const auto b = cuda::weights(second.context, param_of(*store, "w"), {.first = 1, .count = 1});
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_TRUE(b) << b.error().message;
  EXPECT_EQ(a->address + 4096, b->address);
}

}  // namespace
}  // namespace ballast::testing
