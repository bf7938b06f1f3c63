// `ballast train` as a user runs it: recorded runs of netcl, crashes at any moment, bad configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "ballast/training/train_log.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/recorded_netcl.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using ::testing::HasSubstr;
using testing::ProgramRun;
using testing::ProgramSetting;
using testing::run_ballast;
using testing::run_program;
using testing::TempFolder;
using testing::test_file_path;

// ---------------------------------------------------------------- netcl's runs, from the command line

struct Recorded {
  const char* name;
  const char* optimizer;  // TOML
  const char* more = "";
};
void PrintTo(const Recorded& run, std::ostream* out) { *out << run.name; }

class RecordedRun : public ::testing::TestWithParam<Recorded> {};
INSTANTIATE_TEST_SUITE_P(Netcl, RecordedRun,
                         ::testing::Values(Recorded{"train_sgd", "type = \"sgd\"\nlr = 0.1"},
                                           Recorded{"train_adam", "type = \"adam\"\nlr = 0.01"},
                                           Recorded{"train_adamw", "type = \"adamw\"\nlr = 0.01\nweight_decay = 0.01"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(RecordedRun, IsRepeatedFromItsInitialModelAndData) {
  const TempFolder folder;
  folder.write("run.toml", std::string("[model]\ninit = \"") + test_file_path("netcl/train_mlp_init.netcl") +
                               "\"\n[data]\nkind = \"npz\"\npath = \"" + test_file_path("netcl/train_mlp_data.npz") +
                               "\"\nshuffle = false\n[train]\nsteps = 20\nbatch_size = 0\n[optimizer]\n" +
                               GetParam().optimizer + "\n" + GetParam().more);
  const ProgramRun run = run_ballast(
      {"train", folder.path("run.toml"), "--log", folder.path("log.jsonl"), "--out", folder.path("end.netcl")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto events = read_train_log(folder.path("log.jsonl"));
  ASSERT_TRUE(events) << events.error().message;
  const auto expected = testing::recorded_numbers(testing::netcl_expectation(GetParam().name), "losses");
  std::vector<double> losses;
  for (const TrainEvent& event : *events) {
    if (const auto* step = std::get_if<StepRecord>(&event)) losses.push_back(step->loss);
  }
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-6 * expected[i]) << "step " << i;
  const std::string final_model = test_file_path(std::string("netcl/") + GetParam().name + ".final.netcl");
  const ProgramRun diff = run_ballast({"diff", final_model, folder.path("end.netcl"), "--atol", "1e-6"});
  EXPECT_EQ(diff.exit_code, 0) << diff.out;
}

// ---------------------------------------------------------------- runs of our own

constexpr const char* kDigits = R"(
[model]
kind = "mlp"
hidden = [24]
dropout = 0.2
[data]
kind = "npz"
path = "train.npz"
divide_by = 16
[optimizer]
type = "adamw"
lr = 0.003
[train]
steps = 400
batch_size = 32
seed = 5
output = "out.netcl"
[checkpoint]
folder = "run"
every = 10
)";

void make_digits(const TempFolder& folder) {
  std::filesystem::copy_file(test_file_path("../../models/digits/train.npz"), folder.path("train.npz"));
  folder.write("digits.toml", kDigits);
}

ProgramRun train(const TempFolder& folder, const std::vector<std::string>& more = {},
                 const ProgramSetting& setting = {}) {
  std::vector<std::string> words{BALLAST_PROGRAM, "train", folder.path("digits.toml")};
  words.insert(words.end(), more.begin(), more.end());
  return run_program(words, setting);
}

std::string newest_manifest(const TempFolder& folder) {
  std::string newest;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("run"), none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && name.ends_with(".json")) newest = std::max(newest, name);
  }
  return newest;
}

// The model's bytes after a run that nobody disturbed.
std::string undisturbed() {
  const TempFolder folder;
  make_digits(folder);
  const ProgramRun run = train(folder, {"--quiet"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return testing::read_text_file(folder.path("out.netcl"));
}

TEST(Train, EndsInTheSameBitsHoweverOftenItIsKilled) {
  const TempFolder folder;
  make_digits(folder);
  const std::string whole = undisturbed();
  ASSERT_FALSE(whole.empty());
  // Dies as soon as a new checkpoint is there, whatever it does then; the last one may live.
  constexpr int kKills = 8;
  int kills = 0;
  for (int attempt = 0; attempt <= kKills; ++attempt) {
    const std::string before = newest_manifest(folder);
    ProgramSetting setting;
    setting.watch = [&](pid_t process, const std::string&) {
      if (attempt < kKills && newest_manifest(folder) != before) ::kill(process, SIGKILL);
    };
    const ProgramRun run = train(folder, {"--quiet", "--threads", std::to_string(1 + attempt % 3)}, setting);
    if (run.signal == 0) {
      ASSERT_EQ(run.exit_code, 0) << run.err;
      break;
    }
    ++kills;
  }
  EXPECT_GT(kills, 0) << "the run was over before anyone could kill it";
  ASSERT_TRUE(std::filesystem::exists(folder.path("out.netcl")));
  EXPECT_TRUE(testing::read_text_file(folder.path("out.netcl")) == whole) << "after " << kills << " kills";
  EXPECT_EQ(run_ballast({"checkpoints", "verify", folder.path("run")}).exit_code, 0);
}

TEST(Train, SavesAndStopsAtCtrlC) {
  const TempFolder folder;
  make_digits(folder);
  ProgramSetting setting;
  bool told = false;
  setting.watch = [&](pid_t process, const std::string&) {
    if (!told && std::filesystem::exists(folder.path("run/step-00000010.json"))) {
      told = true;
      ::kill(process, SIGINT);
    }
  };
  const ProgramRun run = train(folder, {"--set", "train.steps=2000000", "--log", folder.path("log.jsonl")}, setting);
  EXPECT_EQ(run.exit_code, 130) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the same command goes on from here"));
  const auto events = read_train_log(folder.path("log.jsonl"));
  ASSERT_TRUE(events);
  // The last checkpoint is of the last step, so that nothing is lost.
  const auto* last = std::get_if<CheckpointRecord>(&events->back());
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(step_of((*events)[events->size() - 2]), last->step);
}

// timeout(1) sends its signal to the process and to the group of which it is part.
TEST(Train, TakesTwoSignalsAtOnceForOneRequest) {
  const TempFolder folder;
  make_digits(folder);
  ProgramSetting setting;
  bool told = false;
  setting.watch = [&](pid_t process, const std::string&) {
    if (told || !std::filesystem::exists(folder.path("run/step-00000010.json"))) return;
    told = true;
    // While it stands still they gather, and arrive in one moment however busy the machine is.
    for (const int signal : {SIGSTOP, SIGINT, SIGTERM, SIGCONT}) ::kill(process, signal);
  };
  const ProgramRun run = train(folder, {"--set", "train.steps=2000000"}, setting);
  EXPECT_EQ(run.exit_code, 130) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the same command goes on from here"));
  EXPECT_EQ(run_ballast({"checkpoints", "verify", folder.path("run")}).exit_code, 0);
}

TEST(Train, PassesOverADamagedCheckpointAndSaysSo) {
  const TempFolder folder;
  make_digits(folder);
  ASSERT_EQ(train(folder, {"--quiet", "--set", "train.steps=40"}).exit_code, 0);
  folder.write("run/step-00000040.json", "{");
  const ProgramRun run = train(folder, {"--quiet", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("passed over: "));
  EXPECT_THAT(run.err, HasSubstr("step-00000040.json"));
  EXPECT_THAT(run.out, HasSubstr("\"resumed_from\":30"));
  EXPECT_TRUE(testing::read_text_file(folder.path("out.netcl")) == undisturbed());
}

TEST(Train, RefusesASecondTrainerOnTheSameFolder) {
  const TempFolder folder;
  make_digits(folder);
  ProgramRun second;
  ProgramSetting setting;
  setting.watch = [&](pid_t process, const std::string&) {
    if (second.exit_code != -1 || !std::filesystem::exists(folder.path("run/step-00000010.json"))) return;
    second = train(folder, {"--quiet"});
    ::kill(process, SIGINT);
  };
  train(folder, {"--quiet", "--set", "train.steps=2000000"}, setting);
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.err, HasSubstr("run"));
}

TEST(Train, SaysWhatIsWrongWithAConfiguration) {
  const TempFolder folder;
  make_digits(folder);
  const auto error_of = [&](const std::string& set) {
    const ProgramRun run = train(folder, {"--set", set});
    EXPECT_EQ(run.exit_code, 2) << set;
    return run.err;
  };
  EXPECT_THAT(error_of("optimizer.learning_rat=1"), HasSubstr("learning_rat"));
  EXPECT_THAT(error_of("optimizer.type=adm"), HasSubstr("adam"));
  EXPECT_THAT(error_of("data.path=nowhere.npz"), HasSubstr("nowhere.npz"));
  EXPECT_THAT(error_of("data.y=labels"), HasSubstr("labels"));
  EXPECT_THAT(error_of("loss.type=mse"), HasSubstr("mse"));
}

TEST(Train, ChecksWithoutTraining) {
  const TempFolder folder;
  make_digits(folder);
  const ProgramRun run = train(folder, {"--check"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("1,810 parameters, 400 steps"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("run")));
}

TEST(Train, TeachesAGptFromATextAndTheFileWrites) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the cat sat on the mat. ";
  folder.write("cats.txt", text);
  folder.write("cats.toml", R"(
[model]
kind = "gpt"
context_length = 32
embed_dim = 32
num_layers = 2
num_heads = 2
[data]
kind = "text"
path = "cats.txt"
tokenizer = "bytes"
held_out = 0.1
[optimizer]
type = "adamw"
lr = 0.005
[train]
steps = 120
batch_size = 8
output = "cats.gptrs"
)");
  const ProgramRun run = run_ballast({"train", folder.path("cats.toml"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  // "the cat " in bytes; what follows must be "sat".
  const ProgramRun wrote = run_ballast({"generate", folder.path("cats.gptrs"), "--tokens",
                                        "116,104,101,32,99,97,116,32", "--greedy", "--max-tokens", "3", "--json"});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  EXPECT_THAT(wrote.out, HasSubstr("\"tokens\":[115,97,116]"));
}

}  // namespace
}  // namespace ballast
