// Losses that suit their targets, gradients that are looked at, and destinations that are looked at in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "ballast/io/output_path.h"
#include "ballast/training/config/config_changes.h"
#include "ballast/training/fill_in.h"
#include "ballast/training/make_trainable.h"
#include "ballast/training/run.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

ExampleLayout layout_of(TargetKind targets, uint64_t columns) {
  ExampleLayout layout;
  layout.feature_shape = Shape{3};
  layout.targets = targets;
  layout.classes = targets == TargetKind::kValues ? 0 : 4;
  if (targets == TargetKind::kValues) layout.target_shape = Shape{columns};
  return layout;
}

TEST(ChooseLoss, FollowsFromTheTargetsWhereNobodyChose) {
  EXPECT_EQ(choose_loss({}, layout_of(TargetKind::kClasses, 1))->type, "cross_entropy");
  EXPECT_EQ(choose_loss({}, layout_of(TargetKind::kTokens, 1))->type, "cross_entropy");
  const auto values = choose_loss({}, layout_of(TargetKind::kValues, 1));
  EXPECT_EQ(values->type, "mse");
  EXPECT_EQ(values->reduction, "mean");
  ExampleLayout shares = layout_of(TargetKind::kValues, 3);
  shares.shares = true;
  EXPECT_EQ(choose_loss({}, shares)->type, "cross_entropy");
}

TEST(ChooseLoss, RefusesWhatCannotCompareTheTargets) {
  const auto refused = [](const std::string& type, TargetKind targets, uint64_t columns) {
    const auto chosen = choose_loss({.type = type}, layout_of(targets, columns));
    return chosen ? "" : chosen.error().message;
  };
  for (const char* type : {"mse", "l1", "smooth_l1", "bce", "bce_logits"})
    EXPECT_THAT(refused(type, TargetKind::kClasses, 1), HasSubstr("the targets are classes")) << type;
  EXPECT_THAT(refused("cross_entropy", TargetKind::kValues, 1), HasSubstr("one number for each example"));
  EXPECT_EQ(refused("cross_entropy", TargetKind::kValues, 3), "") << "shares of classes";
  EXPECT_THAT(refused("hinge", TargetKind::kValues, 3), HasSubstr("needs classes"));
  EXPECT_THAT(refused("mse", TargetKind::kTokens, 1), HasSubstr("not for text"));
}

// One linear map of one feature; every example has the same.
std::unique_ptr<Trainer> line_trainer(float feature, float target, const std::string& loss, uint64_t seed = 0) {
  constexpr uint64_t kExamples = 4;
  const std::vector<float> x(kExamples, feature), y(kExamples, target);
  const auto column = [](std::string name, const std::vector<float>& values) {
    ByteVector bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return ArrayColumn{
        .name = std::move(name), .shape = Shape{values.size(), 1}, .bytes = BytesOrView(std::move(bytes))};
  };
  TrainingData data;
  data.training = *make_array_dataset("line", column("x", x), column("y", y));
  TrainConfig config;
  config.model.kind = "mlp";
  config.loss.type = loss;
  config.loss.reduction = "sum";
  config.train.steps = 3;
  config.train.seed = seed;
  config.train.batch_size = kExamples;
  auto model = make_trainable(config, data);
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  auto trainer = Trainer::make(config, std::move(*model), std::move(data), {.threads = 1});
  EXPECT_TRUE(trainer) << (trainer ? "" : trainer.error().message);
  return std::move(*trainer);
}

std::string weights_of(const Trainer& trainer) {
  std::string bits;
  const auto snapshot = trainer.snapshot();
  EXPECT_TRUE(snapshot) << snapshot.error().message;
  for (const SnapshotTensor& tensor : snapshot->weights)
    bits.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return bits;
}

// The sum of four gradients of 1e38 is not finite; the loss is, where the first weight is small.
TEST(Trainer, StopsAtAGradientThatIsNotFiniteAndNamesIt) {
  for (uint64_t seed = 0; seed < 64; ++seed) {
    const auto trainer = line_trainer(1e38F, 0, "l1", seed);
    const std::string before = weights_of(*trainer);
    const auto record = trainer->advance();
    ASSERT_FALSE(record);
    EXPECT_EQ(weights_of(*trainer), before);
    if (record.error().message.starts_with("the loss of step 1")) continue;
    EXPECT_THAT(record.error().message, HasSubstr("the gradient of \"0.weight\" at step 1 is not finite"));
    return;
  }
  FAIL() << "no seed begins with a small weight";
}

TEST(Trainer, TriesAStepWithoutMakingIt) {
  const auto trainer = line_trainer(1, 2, "mse");
  const std::string before = weights_of(*trainer);
  const auto tried = trainer->try_step();
  ASSERT_TRUE(tried) << tried.error().message;
  EXPECT_GT(tried->loss, 0);
  EXPECT_GT(*tried->grad_norm, 0);
  EXPECT_EQ(trainer->step(), 0U);
  EXPECT_EQ(weights_of(*trainer), before);
  const auto made = trainer->advance();
  ASSERT_TRUE(made);
  EXPECT_EQ(made->loss, tried->loss) << "the step that follows is the one that was tried";
  EXPECT_NE(weights_of(*trainer), before);
}

TEST(Trainer, KnowsParametersThatNoGradientReaches) {
  const auto trainer = line_trainer(0, 2, "mse");
  ASSERT_TRUE(trainer->try_step());
  EXPECT_THAT(*trainer->params_without_gradient(), ElementsAre("0.weight"));
  EXPECT_EQ(describe_idle_params({}), "");
  EXPECT_EQ(describe_idle_params({"a", "b", "c", "d", "e", "f"}),
            "the gradient of \"a\", \"b\", \"c\", \"d\" and 2 more is all zeros: they are not being trained");
}

TEST(ConfigChanges, AreThoseThatChangeWhatIsComputed) {
  TrainConfig before, now;
  before.train.steps = now.train.steps = 10;
  now.train.threads = 7;
  now.train.output = "elsewhere.netcl";
  now.checkpoint.folder = "runs/b";
  now.log.file = "log.jsonl";
  EXPECT_THAT(describe_changes(before, now), ElementsAre());
  now.optimizer.lr = 0.5;
  now.train.steps = 20;
  EXPECT_THAT(describe_changes(before, now),
              ElementsAre("[optimizer] lr is 0.5, and was 0.001", "[train] steps is 20, and was 10"));
}

TEST(OutputPath, IsLookedAtBeforeAnythingIsWritten) {
  const TempFolder folder;
  const std::string file = folder.write("there", "x");
  EXPECT_TRUE(check_output_path(folder.path("new"), false));
  EXPECT_TRUE(check_output_path(folder.path("a/b/c/new"), false));
  EXPECT_FALSE(std::filesystem::exists(folder.path("a")));
  EXPECT_EQ(check_output_path(file, false).error().code, ErrorCode::kExists);
  EXPECT_EQ(check_output_path(file, false).error().remedies, Remedy::kAllowOverwrite);
  EXPECT_TRUE(check_output_path(file, true));
  EXPECT_THAT(check_output_path(file + "/new", true).error().message, HasSubstr("there is not a folder"));
  EXPECT_THAT(check_output_path(folder.path() + "/", true).error().message, HasSubstr("it is a folder"));
  EXPECT_FALSE(check_output_path(folder.path(), true));
}

}  // namespace
}  // namespace ballast
