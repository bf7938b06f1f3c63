// A run that was stopped and resumed makes the same bits as one that was not: for every optimizer, with shuffling,
// dropout, averaged weights and a schedule, and with another number of threads behind the break.
#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"
#include "tests/support/training_runs.h"

namespace ballast {
namespace {

using testing::TempFolder;

using testing::advance;
using testing::bits_of;
using testing::image_data;

constexpr uint64_t kSteps = 12;

TrainConfig image_config(const std::string& optimizer) { return testing::image_config(optimizer, kSteps); }

std::unique_ptr<Trainer> trainer_of(const TrainConfig& config, TrainingData data, unsigned threads) {
  return testing::trainer_of(config, std::move(data), {.threads = threads});
}

// Saves at `at`, forgets everything, goes on from the folder with other threads, and compares with `whole`.
void expect_same_bits_after(const TrainConfig& config, const TrainingData& data, uint64_t at, unsigned threads,
                            const std::string& whole) {
  const TempFolder folder;
  {
    const auto first = trainer_of(config, data, 1);
    advance(*first, at);
    const auto manager = CheckpointManager::open(folder.path("run"), {});
    ASSERT_TRUE(manager) << manager.error().message;
    ASSERT_TRUE((*manager)->save(*first->snapshot()));
    ASSERT_TRUE((*manager)->finish());
  }
  const auto second = trainer_of(config, data, threads);
  advance(*second, 2);  // what was there before must not matter
  const auto manager = CheckpointManager::open(folder.path("run"), {});
  ASSERT_TRUE(manager) << manager.error().message;
  const auto found = (*manager)->resume();
  ASSERT_TRUE(found && found->checkpoint);
  const Status restored = second->restore(*found->checkpoint);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(second->step(), at);
  advance(*second, config.train.steps - at);
  EXPECT_TRUE(bits_of(*second) == whole) << "resumed at " << at << " with " << threads << " threads";
}

class ExactResume : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, ExactResume, ::testing::Values("sgd", "momentum", "adam", "adamw", "rmsprop"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ExactResume, GivesTheSameBitsWithAnyNumberOfThreads) {
  const TrainConfig config = image_config(GetParam());
  const TrainingData data = image_data();
  const auto whole = trainer_of(config, data, 2);
  advance(*whole, kSteps);
  const std::string bits = bits_of(*whole);
  for (const unsigned threads : {1U, 2U, 7U}) expect_same_bits_after(config, data, 5, threads, bits);
  expect_same_bits_after(config, data, 1, 3, bits);
}

TEST(ExactResumeOfText, GivesTheSameBitsWithMixedPrecisionAndDropout) {
  const TempFolder folder;
  TrainConfig config = testing::letters_config(folder);
  config.model.kind = "gpt";
  config.model.gpt = {.context_length = 16, .embed_dim = 24, .num_layers = 2, .num_heads = 3, .dropout = 0.1};
  config.train.steps = 6;
  config.train.batch_size = 4;
  config.train.precision = "bf16";
  const TrainingData data = testing::open_letters(config, 16);
  const auto whole = trainer_of(config, data, 2);
  const auto first = whole->advance();
  ASSERT_TRUE(first) << first.error().message;
  advance(*whole, 5);
  for (const unsigned threads : {1U, 7U}) expect_same_bits_after(config, data, 3, threads, bits_of(*whole));
}

TEST(Trainer, AsksForNoMemoryFromTheSecondStepOn) {
  const auto trainer = trainer_of(image_config("adam"), image_data(), 2);
  advance(*trainer, 3);
  const uint64_t before = trainer->allocations();
  advance(*trainer, 8);
  EXPECT_EQ(trainer->allocations(), before);
}

TEST(Trainer, RefusesACheckpointOfAnotherModelAndStaysAsItWas) {
  const TempFolder folder;
  const TrainingData data = image_data();
  const auto one = trainer_of(image_config("adam"), data, 1);
  const auto manager = CheckpointManager::open(folder.path("run"), {});
  ASSERT_TRUE(manager);
  ASSERT_TRUE((*manager)->save(*one->snapshot()));
  ASSERT_TRUE((*manager)->finish());
  auto found = (*manager)->resume();
  ASSERT_TRUE(found && found->checkpoint);

  TrainConfig other = image_config("adam");
  other.model.kind = "mlp";
  other.model.mlp.hidden = {3};
  const auto two = trainer_of(other, data, 1);
  const std::string before = bits_of(*two);
  const Status restored = two->restore(*found->checkpoint);
  ASSERT_FALSE(restored);
  EXPECT_NE(restored.error().message.find("\"1.weight\" is missing"), std::string::npos) << restored.error().message;
  EXPECT_NE(restored.error().message.find("\"0.weight\" is not expected"), std::string::npos);
  EXPECT_TRUE(bits_of(*two) == before);

  const auto three = trainer_of(image_config("sgd"), data, 1);
  const Status moments = three->restore(*found->checkpoint);
  ASSERT_FALSE(moments);
  EXPECT_NE(moments.error().message.find("another optimizer"), std::string::npos) << moments.error().message;
}

TEST(Trainer, StopsAtALossThatIsNotFinite) {
  TrainConfig config = image_config("sgd");
  config.optimizer.lr = 1e30;
  config.schedule.type = "constant";
  config.train.clip_grad_norm = 0;
  const auto trainer = trainer_of(config, image_data(), 1);
  Status status;
  for (uint64_t i = 0; i < kSteps && status; ++i) {
    const auto record = trainer->advance();
    if (!record) status = record.error();
  }
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("a smaller learning rate"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace ballast
