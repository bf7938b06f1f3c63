// A real GPU, where there is one; `make test-cuda` says that there must be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "ballast/backends/cuda/launch.h"
#include "ballast/device/host_values.h"
#include "tests/support/ops_testing.h"
#include "tests/support/recorded_models.h"

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

TEST_F(Gpu, IsNotChosenForWhatMayBeWrittenForTheHost) {
  const std::string path = recorded_model_path("gpt_micro");
  LoadOptions options;
  EXPECT_EQ(load_or_die(path, options)->backend().name, "cuda");
  options.extend = [](Registry&) { return Status(); };
  EXPECT_EQ(load_or_die(path, options)->backend().name, "cpu");
  options.backend = "cuda";
  EXPECT_EQ(load_or_die(path, options)->backend().name, "cuda");
}

TEST_F(Gpu, IsNotForProcessesThatAreForked) {
  ASSERT_TRUE(find_backend("cuda")->open_device());
  const auto try_it = [] {
    const auto device = find_backend("cuda")->open_device();
    std::fprintf(stderr, "%s\n", device ? "it opens" : device.error().message.c_str());
    std::_Exit(device ? 1 : 0);
  };
  GTEST_FLAG_SET(death_test_style, "fast");  // forks, and does not start anew
  EXPECT_EXIT(try_it(), ::testing::ExitedWithCode(0), "after fork");
}

// More rows and sequences than a grid is high.
TEST_F(Gpu, AttendsInManySequences) {
  constexpr uint64_t kSequences = 70'000;
  Lab lab(*find_backend("cuda"));
  std::vector<float> qkv(kSequences * 12);
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(i % 1009);
  const auto before = lab.workspace.queue().device().fallbacks();
  const Tensor x = *lab.workspace.from(qkv, {kSequences, 12});
  const ops::AttentionConfig config{.q_heads = 1, .kv_heads = 1, .head_dim = 4, .sequences = kSequences};
  const auto y = ops::attention(lab.context, config, x);
  ASSERT_TRUE(y) << y.error().message;
  const auto values = HostValues<float>::of(*y);
  ASSERT_TRUE(values) << values.error().message;
  for (uint64_t row = 0; row < kSequences; ++row) {
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ((*values)[row * 4 + i], qkv[row * 12 + 8 + i]) << row;
  }
  EXPECT_EQ(lab.workspace.queue().device().fallbacks(), before) << "the device computed it";
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
