// The recorded runs of the real netcl, step by step.
#include <gtest/gtest.h>

#include <cmath>

#include "ballast/base/json_object.h"
#include "ballast/nn/netcl_io.h"
#include "ballast/training/schedule.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_netcl.h"
#include "tests/support/temp_folder.h"
#include "tests/support/training_lab.h"

namespace ballast {
namespace {

using testing::netcl_expectation;
using testing::netcl_path;
using testing::recorded_numbers;
using testing::TrainingLab;

struct Run {
  const char* name;
  LossConfig loss{};
  OptimizerConfig optimizer{};
  const char* data = "train_mlp_data.npz";
  const char* target = "y";
  double weights = 4e-7;  // absolute, of the last weights
  double losses = 1e-6;   // relative
  std::optional<double> clip{};
  std::optional<ScheduleConfig> schedule{};
};
// What a test's name shows.
void PrintTo(const Run& run, std::ostream* out) { *out << run.name; }

std::unique_ptr<nn::Sequential> model_of(const std::string& file) {
  auto loaded = netcl::load_model(netcl_path(file));
  EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message);
  return std::move(loaded->model);
}

Tensor from_archive(TrainingLab& lab, const std::string& file, const std::string& name) {
  const auto array = testing::archive_array(netcl_path(file), name);
  return *lab.device().from_host(array.values, array.dims);
}

void expect_losses(const std::vector<double>& expected, const std::vector<float>& seen, double relative) {
  ASSERT_EQ(expected.size(), seen.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(seen[i], expected[i], relative * std::max(1.0, std::abs(expected[i]))) << "step " << i;
  }
}

void expect_weights(nn::Sequential& seen, const std::string& file, double absolute) {
  const auto expected = model_of(file);
  ASSERT_EQ(seen.tensors().size(), expected->tensors().size());
  for (size_t i = 0; i < seen.tensors().size(); ++i) {
    const auto a = seen.memory().values<float>(i), b = expected->memory().values<float>(i);
    double worst = 0;
    for (size_t j = 0; j < a.size(); ++j) worst = std::max(worst, std::abs(static_cast<double>(a[j]) - b[j]));
    EXPECT_LE(worst, absolute) << seen.tensors()[i].name();
  }
}

class NetclRun : public ::testing::TestWithParam<std::tuple<Run, const char*>> {};

TEST_P(NetclRun, GivesTheSameLossesAndWeights) {
  const auto& [run, backend] = GetParam();
  const std::string expected = netcl_expectation(run.name);
  const std::string init =
      std::string(run.data).starts_with("train_cnn") ? "train_cnn_init.netcl" : "train_mlp_init.netcl";
  TrainingLab lab(model_of(init), backend, 2);
  auto optimizer = Optimizer::make(run.optimizer, lab.model().memory(), lab.params());
  ASSERT_TRUE(optimizer) << optimizer.error().message;
  std::unique_ptr<Schedule> schedule;
  if (run.schedule) schedule = std::move(*Schedule::make(*run.schedule));
  const Tensor x = from_archive(lab, run.data, "x"), y = from_archive(lab, run.data, run.target);
  std::vector<float> losses;
  std::vector<double> norms;
  for (int step = 0; step < 20; ++step) {
    if (schedule) (*optimizer)->set_lr(schedule->step());
    const auto loss = lab.backward(run.loss, x, &y);
    ASSERT_TRUE(loss) << loss.error().message;
    losses.push_back(*loss);
    if (run.clip) norms.push_back(*clip_grad_norm(lab.context(), lab.params(), lab.gradients(), *run.clip));
    ASSERT_TRUE((*optimizer)->step(lab.context(), lab.gradients()));
  }
  expect_losses(recorded_numbers(expected, "losses"), losses, run.losses);
  expect_weights(lab.model(), std::string(run.name) + ".final.netcl", run.weights);
  if (run.clip) {
    const auto recorded = recorded_numbers(expected, "grad_norms");
    for (size_t i = 0; i < norms.size(); ++i) EXPECT_NEAR(norms[i], recorded[i], 1e-6 * recorded[i]) << i;
  }
}

const LossConfig kMse{.name = "mse"}, kSmooth{.name = "smooth_l1", .beta = 0.5},
    kBce{.name = "bce_with_logits", .reduction = "mean"};
// Adam divides by roots of tiny numbers, which makes rounding larger: 2e-6 where netcl's own backends are 2e-6 apart.
INSTANTIATE_TEST_SUITE_P(
    Recorded, NetclRun,
    ::testing::Combine(
        ::testing::Values(
            Run{.name = "train_sgd", .optimizer = {.type = "SGD", .lr = 0.1}},
            Run{.name = "train_sgd_momentum", .optimizer = {.type = "SGD", .lr = 0.05, .momentum = 0.9}},
            Run{.name = "train_sgd_momentum_wd",
                .optimizer = {.type = "SGD", .lr = 0.05, .momentum = 0.9, .weight_decay = 0.01}},
            Run{.name = "train_sgd_clip", .optimizer = {.type = "SGD", .lr = 0.1}, .clip = 0.25},
            Run{.name = "train_sgd_mse", .loss = kMse, .optimizer = {.type = "SGD", .lr = 0.002}, .target = "r"},
            Run{.name = "train_momentum_nesterov",
                .optimizer = {.type = "Momentum", .lr = 0.03, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}},
            Run{.name = "train_adam", .optimizer = {.type = "Adam", .lr = 0.01}, .weights = 2e-6},
            Run{.name = "train_adam_wd",
                .optimizer =
                    {.type = "Adam", .lr = 0.01, .weight_decay = 0.02, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6}},
            Run{.name = "train_adam_bce_logits",
                .loss = kBce,
                .optimizer = {.type = "Adam", .lr = 0.01},
                .weights = 2e-6},
            Run{.name = "train_adam_smooth_l1",
                .loss = kSmooth,
                .optimizer = {.type = "Adam", .lr = 0.01},
                .target = "r",
                .weights = 2e-6},
            Run{.name = "train_adam_cosine",
                .optimizer = {.type = "Adam", .lr = 0.01},
                .weights = 2e-6,
                .schedule =
                    ScheduleConfig{
                        .type = "CosineAnnealingLR", .lr = 0.02, .min_lr = 0.0005, .warmup = 5, .period = 15}},
            Run{.name = "train_adamw",
                .optimizer = {.type = "AdamW", .lr = 0.01, .weight_decay = 0.01},
                .weights = 2e-6},
            Run{.name = "train_rmsprop", .optimizer = {.type = "RMSProp", .lr = 0.01}},
            Run{.name = "train_rmsprop_momentum",
                .optimizer = {.type = "RMSProp", .lr = 0.003, .momentum = 0.9, .weight_decay = 0.01, .alpha = 0.95}},
            // Through a convolution, batch norm and pooling rounding adds up over 20 steps of momentum.
            Run{.name = "train_cnn_sgd",
                .optimizer = {.type = "SGD", .lr = 0.05, .momentum = 0.9},
                .data = "train_cnn_data.npz",
                .weights = 5e-6,
                .losses = 5e-6}),
        ::testing::Values("reference", "cpu")),
    [](const auto& value) {
      return std::string(std::get<0>(value.param).name).substr(6) + "_on_" + std::get<1>(value.param);
    });

// ---------------------------------------------------------------- checkpoints in the middle

struct Resume {
  const char* name;
  OptimizerConfig optimizer;
};
void PrintTo(const Resume& resume, std::ostream* out) { *out << resume.name; }

class NetclCheckpoint : public ::testing::TestWithParam<Resume> {};

std::vector<std::string> names_of(std::span<const Param> params) {
  std::vector<std::string> names;
  for (const Param& param : params) names.push_back(param.name());
  return names;
}

TEST_P(NetclCheckpoint, ContinuesHereToTheSameLosses) {
  const std::string expected = netcl_expectation(GetParam().name);
  TrainingLab lab(model_of("train_mlp_init.netcl"), "cpu", 2);
  auto optimizer = Optimizer::make(GetParam().optimizer, lab.model().memory(), lab.params());
  ASSERT_TRUE(optimizer);
  const auto names = names_of(lab.model().parameters());
  const auto loaded = netcl::load_checkpoint(lab.model().parameter_tensors(), netcl_path(GetParam().name), names);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto state = (*optimizer)->load_state_dict(loaded->checkpoint.optim_state);
  ASSERT_TRUE(state) << state.error().message;
  // What we write of it is what netcl wrote, to the last digit.
  EXPECT_EQ((*optimizer)->state_dict(), loaded->checkpoint.optim_state);
  const Tensor x = from_archive(lab, "train_mlp_data.npz", "x"), y = from_archive(lab, "train_mlp_data.npz", "y");
  std::vector<float> losses;
  for (int step = 0; step < 10; ++step) {
    const auto loss = lab.backward({}, x, &y);
    ASSERT_TRUE(loss) << loss.error().message;
    losses.push_back(*loss);
    ASSERT_TRUE((*optimizer)->step(lab.context(), lab.gradients()));
  }
  expect_losses(recorded_numbers(expected, "losses_after"), losses, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Recorded, NetclCheckpoint,
                         ::testing::Values(Resume{"ckpt_sgd_momentum", {.type = "SGD", .lr = 0.05, .momentum = 0.9}},
                                           Resume{"ckpt_adam", {.type = "Adam", .lr = 0.01}},
                                           Resume{"ckpt_adamw", {.type = "AdamW", .lr = 0.01, .weight_decay = 0.01}}),
                         [](const auto& value) { return std::string(value.param.name); });

TEST(NetclCheckpoint, KeepsRunningStatisticsWhereNamesAskForThem) {
  // netcl's parameters() leaves them out (its trap 5); a model's state dict has them.
  const testing::TempFolder folder;
  const auto model = model_of("train_cnn_init.netcl"), other = model_of("train_cnn_init.netcl");
  model->memory().values<float>(*model->memory().find("1.running_mean"))[0] = 42;
  ASSERT_TRUE(netcl::save_model(*model, folder.path("m.netcl")));
  const auto loaded = netcl::load_model(folder.path("m.netcl"));
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->model->memory().values<float>(*model->memory().find("1.running_mean"))[0], 42);
}

}  // namespace
}  // namespace ballast
