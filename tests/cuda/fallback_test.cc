// What the host computes in place of a device has the host's bits, whatever is computed and wherever pages lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/device/host_values.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/gradient_cases.h"

namespace ballast::testing {
namespace {

Result<std::vector<double>> run_on(const Backend& backend, const ConformanceCase& test) {
  Lab lab(backend);
  std::vector<MemoryParam> params;
  for (size_t i = 0; i < test.params.size(); ++i) {
    const auto values = random_values(100 + i, test.params[i].element_count().value());
    params.push_back(make_param("p" + std::to_string(i), DType::kF32, test.params[i], values));
  }
  const auto store = make_store(std::move(params));
  Trial trial{lab.context, DType::kF32, {}, {}};
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    trial.x.push_back(lab.tensor(random_values(i, test.inputs[i].count()), test.inputs[i]));
  }
  for (size_t i = 0; i < test.params.size(); ++i) trial.params.push_back(param_of(*store, "p" + std::to_string(i)));
  BALLAST_TRY(const Tensor y, test.run(trial));
  EXPECT_EQ(y.device(), &lab.workspace.queue().device());
  return doubles_of(y);
}

TEST(CudaFallback, GivesEveryFunctionalTheBitsOfTheHost) {
  fresh_fake_cuda();
  for (const ConformanceCase& test : conformance_cases()) {
    SCOPED_TRACE(test.functional + ", " + test.name);
    const auto expected = run_on(*find_backend("cpu"), test);
    const auto values = run_on(fake_cuda_backend(), test);
    ASSERT_TRUE(expected) << expected.error().message;
    ASSERT_TRUE(values) << values.error().message;
    ASSERT_TRUE(*values == *expected);
  }
}

TEST(CudaFallback, GivesEveryGradientTheBitsOfTheHost) {
  fresh_fake_cuda();
  for (const ConformanceCase& test : gradient_cases()) {
    SCOPED_TRACE(test.functional + ", " + test.name);
    GradientLab host(test, *find_backend("cpu"), DType::kF32);
    GradientLab device(test, fake_cuda_backend(), DType::kF32);
    const auto expected = host.gradients(), values = device.gradients();
    ASSERT_TRUE(expected) << expected.error().message;
    ASSERT_TRUE(values) << values.error().message;
    ASSERT_TRUE(*values == *expected);
  }
}

TEST(CudaFallback, IsToldByTheDeviceOnceForEachFunctional) {
  fresh_fake_cuda();
  Lab lab(fake_cuda_backend());
  const Tensor x = lab.tensor({1, -2, 3}, {3});
  Device& device = lab.workspace.queue().device();
  EXPECT_TRUE(device.fallbacks().empty());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(ops::relu(lab.context, x));
    ASSERT_TRUE(ops::silu(lab.context, x));
  }
  EXPECT_EQ(device.fallbacks(), (std::vector<std::string_view>{"relu", "silu"}));
}

TEST(CudaFallback, AnErrorOfTheHostLeavesTheDeviceInOrder) {
  fresh_fake_cuda();
  Lab lab(fake_cuda_backend());
  const Tensor x = lab.tensor({1, -2, 3}, {3}, DType::kF64);
  EXPECT_FALSE(ops::relu(lab.context, x)) << "the backend cpu computes with f32 alone";
  EXPECT_EQ(*x.host_view(), nullptr) << "what was shown to the host is hidden again";
  EXPECT_EQ(values_of(x), (std::vector<double>{1, -2, 3}));
}

}  // namespace
}  // namespace ballast::testing
