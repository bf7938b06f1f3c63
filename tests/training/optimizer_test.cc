#include "ballast/training/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/training_lab.h"

namespace ballast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TrainingLab;

constexpr std::string_view kConfig =
    R"([{"type": "Linear", "args": {"in_features": 3, "out_features": 4}}, {"type": "Tanh"},
  {"type": "Linear", "args": {"in_features": 4, "out_features": 2}}])";

std::unique_ptr<TrainingLab> lab_of(uint64_t seed = 1) {
  return std::make_unique<TrainingLab>(std::move(*nn::build_sequential(kConfig, {.seed = seed})), "reference");
}

std::unique_ptr<Optimizer> made(const OptimizerConfig& config, TrainingLab& lab) {
  auto optimizer = Optimizer::make(config, lab.model().memory(), lab.params());
  EXPECT_TRUE(optimizer) << (optimizer ? "" : optimizer.error().message);
  return optimizer ? std::move(*optimizer) : nullptr;
}

void train(TrainingLab& lab, Optimizer& optimizer, int steps) {
  const std::vector<float> rows = {1, 2, 3, -1, 0, 1, 0.5, 0.25, -2, 1, -1, 1};
  const std::vector<uint32_t> labels = {0, 1, 1, 0};
  const Tensor x = *lab.device().from_host(rows, {4, 3});
  for (int i = 0; i < steps; ++i) {
    const auto loss = lab.backward({}, x, nullptr, labels);
    ASSERT_TRUE(loss) << loss.error().message;
    ASSERT_TRUE(optimizer.step(lab.context(), lab.gradients()));
  }
}

std::vector<std::byte> weights(TrainingLab& lab) {
  std::vector<std::byte> all;
  for (const auto& tensor : lab.model().state_dict()) all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
  return all;
}

class EveryOptimizer : public ::testing::TestWithParam<OptimizerConfig> {};

TEST_P(EveryOptimizer, GoesOnFromItsNamedTensorsToTheSameBits) {
  const auto whole = lab_of(), cut = lab_of(), resumed = lab_of(2);
  const auto a = made(GetParam(), *whole), b = made(GetParam(), *cut), c = made(GetParam(), *resumed);
  train(*whole, *a, 7);
  train(*cut, *b, 3);
  ASSERT_TRUE(resumed->model().load_state_dict(cut->model().state_dict()));
  auto from = b->state_tensors(), to = c->state_tensors();
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].info.name, to[i].info.name);
    std::ranges::copy(from[i].bytes, to[i].bytes.begin());
  }
  ASSERT_TRUE(c->load_scalars(b->scalars_json()));
  train(*resumed, *c, 4);
  EXPECT_EQ(weights(*resumed), weights(*whole));
}

TEST_P(EveryOptimizer, GoesOnFromItsJsonToTheSameBits) {
  const auto whole = lab_of(), cut = lab_of(), resumed = lab_of(2);
  const auto a = made(GetParam(), *whole), b = made(GetParam(), *cut), c = made(GetParam(), *resumed);
  train(*whole, *a, 7);
  train(*cut, *b, 3);
  ASSERT_TRUE(resumed->model().load_state_dict(cut->model().state_dict()));
  const auto loaded = c->load_state_dict(b->state_dict());
  ASSERT_TRUE(loaded) << loaded.error().message;
  train(*resumed, *c, 4);
  EXPECT_EQ(weights(*resumed), weights(*whole));
}

TEST_P(EveryOptimizer, TrainsHalfPrecisionThroughMastersOfItsOwn) {
  const auto lab = lab_of();
  ASSERT_TRUE(lab->model().to(DType::kBF16));
  lab->model().track(lab->gradients());
  const auto before = weights(*lab);
  OptimizerConfig config = GetParam();
  config.lr = 1e-3;  // far below what bf16 adds to 1: without masters nothing would ever move
  const auto optimizer = made(config, *lab);
  train(*lab, *optimizer, 40);
  EXPECT_NE(weights(*lab), before);
  EXPECT_THAT(optimizer->state_tensors().back().info.name, HasSubstr(".master"));
}

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer,
                         ::testing::Values(OptimizerConfig{.type = "SGD", .lr = 0.1},
                                           OptimizerConfig{.type = "SGD", .lr = 0.1, .momentum = 0.9},
                                           OptimizerConfig{.type = "Momentum", .lr = 0.1, .nesterov = true},
                                           OptimizerConfig{.type = "Adam", .lr = 0.01, .weight_decay = 0.1},
                                           OptimizerConfig{.type = "AdamW", .lr = 0.01},
                                           OptimizerConfig{.type = "RMSProp", .lr = 0.01},
                                           OptimizerConfig{.type = "RMSProp", .lr = 0.01, .momentum = 0.5}));

TEST(Optimizer, LeavesParametersWithoutGradientAlone) {
  const auto lab = lab_of();
  lab->gradients().freeze(lab->params()[0]);
  const auto bytes = lab->model().memory().bytes(0);
  const std::vector<std::byte> before(bytes.begin(), bytes.end());
  const auto optimizer = made({.type = "AdamW", .lr = 0.1}, *lab);
  train(*lab, *optimizer, 2);
  EXPECT_TRUE(std::ranges::equal(bytes, before));
  EXPECT_FALSE(lab->gradients().find(lab->params()[0]));
}

TEST(Optimizer, SaysWhatItDoesNotHaveOrTake) {
  const auto lab = lab_of();
  const auto message = [&](const OptimizerConfig& config) {
    const auto optimizer = Optimizer::make(config, lab->model().memory(), lab->params());
    EXPECT_FALSE(optimizer) << config.type;
    if (optimizer) return std::string();
    EXPECT_EQ(optimizer.error().code, ErrorCode::kInvalidArgument);
    return optimizer.error().message;
  };
  EXPECT_THAT(message({.type = "Adamw"}), HasSubstr("did you mean \"AdamW\"?"));
  EXPECT_THAT(message({.type = "SGD", .beta1 = 0.9}),
              HasSubstr("SGD has no \"beta1\"; it has: lr, momentum, weight_decay"));
  EXPECT_THAT(message({.type = "SGD", .lr = 0}), HasSubstr("above 0"));
  EXPECT_THAT(message({.type = "Adam", .eps = 0}), HasSubstr("eps must be above 0"));
}

TEST(Optimizer, RefusesAStateThatDoesNotFitAndChangesNothing) {
  const auto lab = lab_of();
  const auto optimizer = made({.type = "SGD", .lr = 0.1, .momentum = 0.9}, *lab);
  train(*lab, *optimizer, 1);
  const std::string before = optimizer->state_dict();
  for (const char* state :
       {R"({"velocity": []})", R"({"velocity": [[1], [2], [3], [4]]})", "{}", "[]", "{\"velocity\": 3}"}) {
    const auto refused = optimizer->load_state_dict(state);
    ASSERT_FALSE(refused) << state;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << state;
    EXPECT_EQ(optimizer->state_dict(), before);
  }
  const auto other = made({.type = "AdamW"}, *lab);
  EXPECT_FALSE(other->load_scalars(optimizer->scalars_json()));
}

TEST(ClipGradNorm, ScalesDownToTheLargestNormAndGivesTheOneBefore) {
  const auto lab = lab_of();
  const Tensor x = *lab->device().from_host(std::vector<float>{1, 2, 3}, {1, 3});
  ASSERT_TRUE(lab->backward({}, x, nullptr, std::vector<uint32_t>{1}));
  const double norm = *grad_norm(lab->context(), lab->params(), lab->gradients());
  ASSERT_GT(norm, 0.01);
  EXPECT_EQ(*clip_grad_norm(lab->context(), lab->params(), lab->gradients(), norm * 2), norm);
  EXPECT_EQ(*grad_norm(lab->context(), lab->params(), lab->gradients()), norm);
  EXPECT_EQ(*clip_grad_norm(lab->context(), lab->params(), lab->gradients(), norm / 4), norm);
  EXPECT_NEAR(*grad_norm(lab->context(), lab->params(), lab->gradients()), norm / 4, 1e-6 * norm);
  EXPECT_FALSE(clip_grad_norm(lab->context(), lab->params(), lab->gradients(), 0));
}

}  // namespace
}  // namespace ballast
