#include "ballast/training/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/recorded_netcl.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::testing::HasSubstr;
using testing::recorded_numbers;

std::string traces() { return testing::read_text_file(testing::netcl_path("traces.json")); }

std::unique_ptr<Schedule> made_schedule(const ScheduleConfig& config) {
  auto schedule = Schedule::make(config);
  EXPECT_TRUE(schedule) << (schedule ? "" : schedule.error().message);
  return schedule ? std::move(*schedule) : nullptr;
}

void expect_rates(Schedule& schedule, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(schedule.step(), expected[i], 1e-15) << "call " << i;
}

TEST(Schedule, WarmupCosineIsNetcls) {
  const auto schedule = made_schedule({.type = "WarmupCosine", .lr = 0.1, .min_lr = 0.001, .total = 20, .warmup = 4});
  expect_rates(*schedule, recorded_numbers(traces(), "WarmupCosine(0.1, 20, warmup_epochs=4, min_lr=0.001).lr(0..25)"));
}

TEST(Schedule, CosineAnnealingIsNetcls) {
  const auto schedule =
      made_schedule({.type = "CosineAnnealingLR", .lr = 0.1, .min_lr = 0.001, .warmup = 3, .period = 8});
  expect_rates(*schedule,
               recorded_numbers(traces(), "CosineAnnealingLR(0.1, 0.001, T_max=8, warmup_epochs=3).step() x 24"));
}

TEST(Schedule, ReducesOnAPlateauAsNetclDoes) {
  const auto check = [](const ScheduleConfig& config, const std::string& name) {
    const auto schedule = made_schedule(config);
    const auto metrics = recorded_numbers(traces(), name + "/metrics"),
               rates = recorded_numbers(traces(), name + "/lrs");
    ASSERT_EQ(metrics.size(), rates.size());
    for (size_t i = 0; i < metrics.size(); ++i) EXPECT_NEAR(schedule->step(metrics[i]), rates[i], 1e-15) << name << i;
  };
  check({.type = "ReduceLROnPlateau", .lr = 0.1, .min_lr = 0.02, .factor = 0.5, .threshold = 1e-3, .patience = 2},
        "ReduceLROnPlateau(0.1, 0.5, patience=2, min_lr=0.02, threshold=1e-3)");
  check({.type = "ReduceLROnPlateau", .lr = 0.1, .factor = 0.5, .patience = 2, .larger_is_better = true},
        "ReduceLROnPlateau(0.1, 0.5, patience=2, mode=max)");
}

TEST(Schedule, GoesOnWhereItsStateWasSaved) {
  const std::vector<ScheduleConfig> configs = {
      {.type = "Constant", .lr = 0.1},
      {.type = "LinearWarmup", .lr = 0.1, .warmup = 6},
      {.type = "WarmupCosine", .lr = 0.1, .total = 20},
      {.type = "CosineAnnealingLR", .lr = 0.1, .warmup = 3},
      {.type = "ReduceLROnPlateau", .lr = 0.1, .factor = 0.5, .patience = 2},
  };
  const std::vector<double> metrics = {1, 0.9, 0.95, 0.94, 0.93, 0.9, 0.91, 0.5, 0.6, 0.6};
  for (const ScheduleConfig& config : configs) {
    const auto whole = made_schedule(config), first = made_schedule(config), second = made_schedule(config);
    for (size_t i = 0; i < 4; ++i) {
      whole->step(metrics[i]);
      first->step(metrics[i]);
    }
    ASSERT_TRUE(second->load_state_dict(first->state_dict())) << first->state_dict();
    for (size_t i = 4; i < metrics.size(); ++i)
      EXPECT_EQ(second->step(metrics[i]), whole->step(metrics[i])) << config.type;
  }
}

TEST(Schedule, RefusesTheStateOfAnother) {
  const auto a = made_schedule({.type = "Constant", .lr = 1}),
             b = made_schedule({.type = "CosineAnnealingLR", .lr = 1});
  const auto refused = b->load_state_dict(a->state_dict());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the schedule Constant, and this run uses CosineAnnealingLR"));
}

TEST(Schedule, SaysWhatItDoesNotHave) {
  const auto message = [](const ScheduleConfig& config) {
    const auto schedule = Schedule::make(config);
    EXPECT_FALSE(schedule);
    return schedule ? std::string() : schedule.error().message;
  };
  EXPECT_THAT(message({.type = "WarmupCosin", .lr = 1}), HasSubstr("did you mean \"WarmupCosine\"?"));
  EXPECT_THAT(message({.type = "Constant", .lr = 1, .warmup = 3}), HasSubstr("Constant has no \"warmup\""));
  EXPECT_THAT(message({.type = "WarmupCosine", .lr = 1}), HasSubstr("needs \"total\""));
}

}  // namespace
}  // namespace ballast
