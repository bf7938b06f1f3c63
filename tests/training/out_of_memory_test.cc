// Training that runs out of the host's memory: a step is made whole, or can be tried again, or says that a checkpoint
// is needed; never an exception.
#include "tests/support/out_of_memory.h"

#include <filesystem>

#include "ballast/training/make_trainable.h"
#include "ballast/training/train_event.h"
#include "examples/emulated_backend.h"
#include "tests/support/training_runs.h"

namespace ballast::testing {
namespace {

// No running statistics, which a step that is tried again would move twice.
TrainConfig small_config() {
  TrainConfig config = image_config("adamw", 8);
  config.model = {};
  config.model.kind = "mlp";
  config.model.mlp.hidden = {6};
  config.model.mlp.dropout = 0.2;
  return config;
}

TrainingData evaluated_data() {
  TrainingData data = image_data();
  data.evaluation = data.training;
  return data;
}

std::unique_ptr<Trainer> small_trainer() { return trainer_of(small_config(), evaluated_data(), {.threads = 1}); }

// What the trainer is, kept in a folder, as it was after its steps so far.
LoadedCheckpoint saved(const Trainer& trainer, const std::string& folder) {
  const auto manager = CheckpointManager::open(folder, {});
  EXPECT_TRUE(manager) << manager.error().message;
  EXPECT_TRUE((*manager)->save(*trainer.snapshot()));
  EXPECT_TRUE((*manager)->finish());
  auto found = (*manager)->resume();
  EXPECT_TRUE(found && found->checkpoint);
  return *std::move(found->checkpoint);
}

TEST(TrainerOutOfMemory, AStepIsMadeWholeOrCanBeMadeAgain) {
  const TempFolder folder;
  const auto whole = small_trainer();
  advance(*whole, 2);
  const LoadedCheckpoint checkpoint = saved(*whole, folder.path("run"));
  advance(*whole, 1);
  const std::string expected = bits_of(*whole);
  const auto trainer = small_trainer();
  size_t again = 0, torn = 0;
  for_each_allocation([&] { return trainer->advance(); }, 400,
                      [&](int64_t passed) {
                        ASSERT_TRUE(trainer->restore(checkpoint));
                        const auto failed = [&] {
                          // For good: where a single one fails, the workspace gives memory back and asks again.
                          const FailingAllocation failing(passed, FailingAllocation::Until::kForGood);
                          return trainer->advance();
                        }();
                        if (!failed) {
                          ASSERT_EQ(failed.error().code, ErrorCode::kOutOfMemory)
                              << passed << ": " << failed.error().message;
                          const bool is_torn = !trainer->snapshot();
                          ++(is_torn ? torn : again);
                          if (is_torn) {
                            ASSERT_TRUE(trainer->restore(checkpoint));
                          }
                          advance(*trainer, 1);
                        }
                        ASSERT_TRUE(bits_of(*trainer) == expected) << passed;
                      });
  EXPECT_GT(again, torn);
}

TEST(TrainerOutOfMemory, AnEvaluationAndASavedModelLeaveTheParametersWhereTheyWere) {
  const TempFolder folder;
  const auto trainer = small_trainer();
  advance(*trainer, 2);
  const std::string before = bits_of(*trainer);
  const std::string path = folder.path("model.netcl");
  expect_no_escape([&]() -> Status {
    BALLAST_TRY([[maybe_unused]] const EvalRecord record, trainer->evaluate());
    BALLAST_TRY([[maybe_unused]] const auto idle, trainer->params_without_gradient());
    BALLAST_CHECK(trainer->save_model(path));
    BALLAST_TRY([[maybe_unused]] const TrainingSnapshot snapshot, trainer->snapshot());
    return {};
  });
  EXPECT_TRUE(bits_of(*trainer) == before);
}

TEST(TrainerOutOfMemory, IsAnErrorWhileATrainerIsMadeAndRestored) {
  const TempFolder folder;
  const auto trainer = small_trainer();
  advance(*trainer, 1);
  const LoadedCheckpoint checkpoint = saved(*trainer, folder.path("run"));
  expect_no_escape([&] { return trainer->restore(checkpoint); });
  const TrainConfig config = small_config();
  const TrainingData data = evaluated_data();
  std::vector<TrainingData> copies(5000, data);  // made before: the test's own must not fail
  expect_no_escape(
      [&]() -> Status {
        TrainingData own = std::move(copies.back());
        copies.pop_back();
        BALLAST_TRY(auto model, make_trainable(config, own));
        BALLAST_TRY([[maybe_unused]] const auto made,
                    Trainer::make(config, std::move(model), std::move(own), {.threads = 1}));
        return {};
      },
      200);
}

TEST(Trainer, AStepThatFailsWhileItChangesWeightsIsRefusedUntilACheckpointIsRestored) {
  const TempFolder folder;
  const auto trainer = trainer_of(small_config(), evaluated_data(), {.backend = &emulated::backend(), .threads = 1});
  advance(*trainer, 1);
  const LoadedCheckpoint checkpoint = saved(*trainer, folder.path("run"));
  emulated::fail_call(0);
  advance(*trainer, 1);
  const std::string expected = bits_of(*trainer);
  const uint64_t calls = emulated::calls();
  size_t torn = 0;
  for (uint64_t n = 1; n <= calls; ++n) {
    ASSERT_TRUE(trainer->restore(checkpoint));
    emulated::fail_call(n);
    const auto record = trainer->advance();
    emulated::fail_call(0);
    ASSERT_FALSE(record) << n;
    if (const auto snapshot = trainer->snapshot(); !snapshot) {
      ++torn;
      EXPECT_NE(snapshot.error().message.find("restore a checkpoint"), std::string::npos);
      EXPECT_FALSE(trainer->advance());
      EXPECT_FALSE(trainer->try_step());
      EXPECT_FALSE(trainer->evaluate());
      EXPECT_FALSE(trainer->save_model(folder.path("model.netcl")));
      ASSERT_TRUE(trainer->restore(checkpoint));
    }
    advance(*trainer, 1);
    ASSERT_TRUE(bits_of(*trainer) == expected) << n;
  }
  EXPECT_GT(torn, 0U);
  EXPECT_LT(torn, calls / 2);
}

}  // namespace
}  // namespace ballast::testing
