#include "ballast/training/prepare_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_folder.h"
#include "tests/support/training_runs.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

// Writes down what it is told, and stops after a step.
class Notes final : public RunObserver {
 public:
  explicit Notes(uint64_t stop_after = UINT64_MAX) : stop_after_(stop_after) {}
  Status on_event(const TrainEvent& event) override {
    if (const auto* step = std::get_if<StepRecord>(&event)) losses.push_back(step->loss);
    if (const auto* resume = std::get_if<ResumeRecord>(&event)) resumed = resume->step;
    return {};
  }
  bool wants_stop() override { return losses.size() >= stop_after_; }

  std::vector<double> losses;
  std::optional<uint64_t> resumed;

 private:
  uint64_t stop_after_;
};

class PrepareRunTest : public ::testing::Test {
 protected:
  TrainConfig config() const {
    TrainConfig config = letters_config(folder_);
    config.model.kind = "gpt";
    config.model.gpt = {.context_length = 16, .embed_dim = 16, .num_layers = 1, .num_heads = 2};
    config.train.steps = 5;
    config.train.batch_size = 4;
    config.train.threads = 1;
    return config;
  }
  RunOutcome run(const TrainConfig& config, Notes& notes, bool overwrite = false) {
    auto prepared = prepare_run(config, {.overwrite = overwrite});
    EXPECT_TRUE(prepared) << prepared.error().message;
    if (!prepared) return {};
    auto outcome = complete_run(*prepared, notes, overwrite);
    EXPECT_TRUE(outcome) << outcome.error().message;
    return outcome ? std::move(*outcome) : RunOutcome{};
  }

  TempFolder folder_;
};

TEST_F(PrepareRunTest, TrainsAndWritesTheModelAndTheLog) {
  TrainConfig settings = config();
  settings.train.output = folder_.path("out/model.gptrs");
  settings.log.file = folder_.path("logs/steps.jsonl");
  Notes notes;
  const RunOutcome outcome = run(settings, notes);
  EXPECT_TRUE(outcome.end.finished);
  EXPECT_TRUE(outcome.wrote_output);
  EXPECT_EQ(notes.losses.size(), 5U);
  EXPECT_TRUE(std::filesystem::exists(settings.train.output));
  EXPECT_THAT(read_text_file(settings.log.file), HasSubstr("\"step\":5"));
}

TEST_F(PrepareRunTest, GoesOnFromItsCheckpointsWithTheSameLosses) {
  Notes whole;
  run(config(), whole);
  TrainConfig settings = config();
  settings.checkpoint.folder = folder_.path("checkpoints");
  settings.train.output = folder_.path("model.gptrs");
  Notes first(2), rest;
  const RunOutcome stopped = run(settings, first);
  EXPECT_FALSE(stopped.end.finished);
  EXPECT_FALSE(stopped.wrote_output) << "it can be resumed";
  const RunOutcome outcome = run(settings, rest);
  EXPECT_EQ(rest.resumed, 2U);
  EXPECT_TRUE(outcome.wrote_output);
  first.losses.insert(first.losses.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(first.losses, whole.losses);
  Notes again;
  EXPECT_TRUE(run(settings, again).kept_output) << "a finished run leaves the model alone";
}

TEST_F(PrepareRunTest, FindsOutFirstWhetherTheModelCanBeWritten) {
  TrainConfig settings = config();
  settings.train.output = folder_.write("model.gptrs", "there already");
  const auto refused = prepare_run(settings);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExists);
  EXPECT_TRUE(prepare_run(settings, {.overwrite = true}));
}

// Puts a file where the model is to go as soon as training has begun.
class Intruder final : public RunObserver {
 public:
  explicit Intruder(const TempFolder& folder) : folder_(folder) {}
  Status on_event(const TrainEvent&) override {
    folder_.write("model.gptrs", "of another");
    return {};
  }
  bool wants_stop() override { return false; }

 private:
  const TempFolder& folder_;
};

TEST_F(PrepareRunTest, AFileThatAppearsDuringTrainingStaysAndTheModelIsNotLost) {
  TrainConfig settings = config();
  settings.train.output = folder_.path("model.gptrs");
  for (const bool overwrite : {false, true}) {
    std::filesystem::remove(settings.train.output);
    auto prepared = prepare_run(settings, {.overwrite = overwrite});
    ASSERT_TRUE(prepared) << prepared.error().message;
    Intruder intruder(folder_);
    const auto outcome = complete_run(*prepared, intruder, overwrite);
    EXPECT_EQ(outcome.has_value(), overwrite);
    EXPECT_EQ(read_text_file(settings.train.output) == "of another", !overwrite);
    if (outcome) continue;
    EXPECT_EQ(outcome.error().code, ErrorCode::kExists);
    EXPECT_THAT(outcome.error().message, HasSubstr("model.gptrs: appeared during training"));
    EXPECT_THAT(outcome.error().message, HasSubstr("the trained model is in " + folder_.path("model-1.gptrs")));
    EXPECT_GT(std::filesystem::file_size(folder_.path("model-1.gptrs")), 1000U);
  }
}

TEST_F(PrepareRunTest, WritesNothingOverWhatItReads) {
  TrainConfig settings = config();
  const std::string data = settings.data.paths.front(), before = read_text_file(data);
  settings.train.output = data;
  const auto refused = prepare_run(settings, {.overwrite = true});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("is the data of this run and cannot be its trained model too"));
  settings.train.output.clear();
  settings.log.file = folder_.path("mine.json");
  const auto claimed = prepare_run(settings, {.files_in_use = {{folder_.path("mine.json"), "the configuration"}}});
  ASSERT_FALSE(claimed);
  EXPECT_THAT(claimed.error().message, HasSubstr("is the configuration of this run"));
  EXPECT_EQ(read_text_file(data), before);
}

TEST_F(PrepareRunTest, RefusesAReportThatNobodyWrites) {
  TrainConfig settings = config();
  settings.log.report = folder_.path("report.html");
  const auto refused = prepare_run(settings);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("log.report"));
  EXPECT_TRUE(prepare_run(settings, {.writes_report = true}));
}

TEST_F(PrepareRunTest, SaysWhatBecameOfItAsJson) {
  auto prepared = prepare_run(config());
  ASSERT_TRUE(prepared) << prepared.error().message;
  Notes notes(2);
  const auto outcome = complete_run(*prepared, notes);
  ASSERT_TRUE(outcome) << outcome.error().message;
  const std::string json = to_json(*prepared, *outcome);
  EXPECT_THAT(json, HasSubstr(R"({"step":2,"total_steps":5,"steps_made":2,"parameters":)"));
  EXPECT_THAT(json, HasSubstr(R"("resumed_from":null,"loss":)"));
  EXPECT_THAT(json, HasSubstr(R"("eval_loss":null,"eval_accuracy":null,"finished":false,"output":null,"config":{)"));
}

TEST_F(PrepareRunTest, TellsWhatChangedSinceTheCheckpoint) {
  TrainConfig settings = config();
  settings.checkpoint.folder = folder_.path("checkpoints");
  Notes first(2);
  run(settings, first);
  settings.optimizer.lr = 0.5;
  std::string told;
  PrepareOptions options;
  options.on_note = [&](std::string_view text) { told += text; };
  ASSERT_TRUE(prepare_run(settings, options));
  EXPECT_THAT(told, HasSubstr("changed since the checkpoint"));
}

}  // namespace
}  // namespace ballast::testing
