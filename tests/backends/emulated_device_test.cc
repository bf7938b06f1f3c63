// A device whose memory the host cannot reach, and which fails when told (examples/emulated_backend.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/device/host_values.h"
#include "examples/emulated_backend.h"
#include "tests/support/gradient_cases.h"

namespace ballast {
namespace {

using testing::ConformanceCase;
using testing::GradientLab;
using ::testing::HasSubstr;
using testing::Lab;

TEST(EmulatedDevice, ShowsTheHostValuesAndNoMemory) {
  Lab lab(emulated::backend());
  const Tensor x = lab.tensor({1, -2, 3}, {3});
  EXPECT_EQ(x.device()->name(), "emulated");
  EXPECT_FALSE(x.device()->limits().is_host_memory);
  EXPECT_EQ(*x.host_view(), nullptr);
  const auto y = ops::relu(lab.context, x);
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_EQ(*y->host_view(), nullptr) << "what device code made is hidden when it is done";
  const auto values = HostValues<float>::of(*y);
  ASSERT_TRUE(values);
  EXPECT_EQ(std::vector<float>(values->begin(), values->end()), (std::vector<float>{1, 0, 3}));
}

TEST(EmulatedDevice, TellsOfAFailedCopyWhenOneWaits) {
  Lab lab(emulated::backend());
  emulated::fail_call(2);  // after the allocation
  const auto x = lab.workspace.from(std::vector<float>{1, 2}, {2});
  emulated::fail_call(0);
  ASSERT_TRUE(x) << "the copy is under way";
  const auto values = HostValues<float>::of(*x);
  ASSERT_FALSE(values);
  EXPECT_THAT(values.error().message, HasSubstr("failed at a copy from the host"));
  EXPECT_TRUE(HostValues<float>::of(*x)) << "an error is told once";
}

// A pass forward and back over each of these, with every call to the device failing once.
class EveryCall : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(EmulatedDevice, EveryCall,
                         ::testing::Values("linear", "attention", "conv2d", "layer_norm", "cross_entropy"),
                         [](const auto& test) { return test.param; });

TEST_P(EveryCall, FailsAsAnErrorAndLeavesNothingBehind) {
  const auto cases = testing::gradient_cases();
  const auto test = std::ranges::find(cases, GetParam(), &ConformanceCase::functional);
  ASSERT_NE(test, cases.end());
  const uint64_t before = emulated::bytes_out();
  {
    GradientLab lab(*test, emulated::backend(), DType::kF32);
    const auto pass = [&]() -> Status {
      lab.tape.reset();
      lab.param_gradients.clear();
      lab.lab.context.tape = &lab.tape;
      for (const Tensor& x : lab.trial().x) lab.tape.watch(x);
      Result<Tensor> loss = lab.loss();
      lab.lab.context.tape = nullptr;
      if (!loss) return std::move(loss).error();
      BALLAST_CHECK(lab.tape.backward(lab.lab.context, *loss));
      BALLAST_TRY([[maybe_unused]] const auto value, HostValues<float>::of(*loss));  // waits
      return {};
    };
    ASSERT_TRUE(pass());
    const auto expected = lab.gradients();
    ASSERT_TRUE(expected) << expected.error().message;
    emulated::fail_call(0);
    ASSERT_TRUE(pass());
    const uint64_t calls = emulated::calls();
    ASSERT_GT(calls, 3U);
    for (uint64_t n = 1; n <= calls; ++n) {
      emulated::fail_call(n);
      const Status failed = pass();
      emulated::fail_call(0);
      EXPECT_FALSE(failed) << "call " << n << " of " << calls;
      (void)lab.lab.workspace.queue().finish();
    }
    const auto after = lab.gradients();
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_EQ(*after, *expected) << "everything else keeps running";
  }
  EXPECT_EQ(emulated::bytes_out(), before);
}

}  // namespace
}  // namespace ballast
