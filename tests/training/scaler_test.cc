#include <gtest/gtest.h>

#include <limits>

#include "ballast/device/host_access.h"
#include "ballast/nn/netcl_io.h"
#include "ballast/training/autocast.h"
#include "ballast/training/grad_scaler.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_netcl.h"
#include "tests/support/temp_folder.h"
#include "tests/support/training_lab.h"

namespace ballast {
namespace {

using testing::json_at;
using testing::TrainingLab;

std::unique_ptr<TrainingLab> small_lab() {
  return std::make_unique<TrainingLab>(
      std::move(*nn::build_sequential(
          R"([{"type": "Linear", "args": {"in_features": 2, "out_features": 1, "bias": false}}])")),
      "reference");
}

TEST(GradScaler, FollowsNetclStepByStep) {
  const std::string traces = testing::read_text_file(testing::netcl_path("traces.json"));
  const auto lab = small_lab();
  const auto optimizer = std::move(*Optimizer::make({.type = "SGD", .lr = 0.1}, lab->model().memory(), lab->params()));
  GradScaler scaler({.init_scale = 1024, .interval = 3});
  for (int i = 0; i < 12; ++i) {
    const std::string at = "GradScaler(1024, growth_interval=3).step/" + std::to_string(i);
    const bool overflow = json_at(traces, at + "/overflow") == "true";
    lab->gradients().clear();
    auto place = lab->gradients().place(lab->params()[0], DType::kF32);
    ASSERT_TRUE(place);
    float* values = host_data<float>(*place->gradient);
    values[0] = overflow ? std::numeric_limits<float>::infinity() : 512;
    values[1] = 4;
    const auto stepped = scaler.step(lab->context(), *optimizer, lab->gradients());
    ASSERT_TRUE(stepped) << stepped.error().message;
    EXPECT_EQ(*stepped, json_at(traces, at + "/stepped") == "true") << i;
    EXPECT_EQ(scaler.scale(), testing::recorded_numbers(traces, at + "/scale_after")[0]) << i;
    EXPECT_EQ(scaler.tracker(), static_cast<uint64_t>(testing::recorded_numbers(traces, at + "/tracker_after")[0]))
        << i;
    if (overflow) continue;
    const auto after = testing::recorded_numbers(traces, at + "/grad_after");
    EXPECT_EQ(values[0], after[0]);
    EXPECT_EQ(values[1], after[1]);
  }
}

TEST(GradScaler, GoesOnWhereItsStateWasSaved) {
  GradScaler a({.init_scale = 8, .interval = 2}), b({.init_scale = 8, .interval = 2});
  a.update(true);
  a.update(true);
  a.update(true);
  ASSERT_TRUE(b.load_state_dict(a.state_dict())) << a.state_dict();
  EXPECT_EQ(b.scale(), 16);
  b.update(true);
  EXPECT_EQ(b.scale(), 32);
  EXPECT_FALSE(b.load_state_dict("{}"));
  EXPECT_EQ(b.scale(), 32);
}

TEST(GradScaler, ChangesNothingWhereItIsOff) {
  GradScaler off({.enabled = false});
  off.update(false);
  EXPECT_EQ(off.scale(), 1);
}

TEST(GradScaler, ScalesEveryLossAlike) {
  // In netcl the mean squared error ignores what comes from above, so that a scaler shrinks its gradients.
  const auto lab = small_lab();
  const Tensor x = *lab->device().from_host(std::vector<float>{1, 2}, {1, 2});
  const Tensor y = *lab->device().from_host(std::vector<float>{3}, {1, 1});
  for (const char* loss : {"mse", "l1", "l2", "smooth_l1"}) {
    ASSERT_TRUE(lab->backward({.name = loss}, x, &y));
    const double plain = *grad_norm(lab->context(), lab->params(), lab->gradients());
    ASSERT_TRUE(lab->backward({.name = loss}, x, &y, {}, 1024));
    EXPECT_NEAR(*grad_norm(lab->context(), lab->params(), lab->gradients()), 1024 * plain, 1e-3 * plain) << loss;
  }
}

TEST(Autocast, HoldsForItsScopeAndSavesTheSameFileInsideAndOutside) {
  const auto lab = small_lab();
  const testing::TempFolder folder;
  ASSERT_TRUE(netcl::save_model(lab->model(), folder.path("outside.netcl")));
  {
    const Autocast autocast(lab->context());
    EXPECT_EQ(lab->context().product_dtype, DType::kBF16);
    ASSERT_TRUE(netcl::save_model(lab->model(), folder.path("inside.netcl")));
    {
      const Autocast off(lab->context(), DType::kF16, false);
      EXPECT_EQ(lab->context().product_dtype, DType::kBF16);
    }
  }
  EXPECT_EQ(lab->context().product_dtype, DType::kF32);
  EXPECT_EQ(testing::read_text_file(folder.path("inside.netcl")),
            testing::read_text_file(folder.path("outside.netcl")));
}

}  // namespace
}  // namespace ballast
