// `ballast train` as a user runs it: recorded runs of netcl, crashes at any moment, bad configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "ballast/training/checkpoints/burn_records.h"
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
  std::vector<std::string> words{testing::program_path(), "train", folder.path("digits.toml")};
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

// Runs until the end, dying as soon as a new checkpoint is there, whatever it does then; the last one may live. Gives
// how often it died.
int train_through_kills(const TempFolder& folder, int most, const std::vector<std::string>& more = {}) {
  int kills = 0;
  for (int attempt = 0; attempt <= most; ++attempt) {
    const std::string before = newest_manifest(folder);
    ProgramSetting setting;
    setting.watch = [&](pid_t process, const std::string&) {
      if (attempt < most && newest_manifest(folder) != before) ::kill(process, SIGKILL);
    };
    std::vector<std::string> words{"--quiet", "--threads", std::to_string(1 + attempt % 3)};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun run = train(folder, words, setting);
    if (run.signal == 0) {
      EXPECT_EQ(run.exit_code, 0) << run.err;
      break;
    }
    ++kills;
  }
  return kills;
}

TEST(Train, EndsInTheSameBitsHoweverOftenItIsKilled) {
  const TempFolder folder;
  make_digits(folder);
  const std::string whole = undisturbed();
  ASSERT_FALSE(whole.empty());
  const int kills = train_through_kills(folder, 8);
  EXPECT_GT(kills, 0) << "the run was over before anyone could kill it";
  ASSERT_TRUE(std::filesystem::exists(folder.path("out.netcl")));
  EXPECT_TRUE(testing::read_text_file(folder.path("out.netcl")) == whole) << "after " << kills << " kills";
  EXPECT_EQ(run_ballast({"checkpoints", "verify", folder.path("run")}).exit_code, 0);
}

// ---------------------------------------------------------------- weights in other formats

constexpr const char* kSmallGpt = R"(
[model]
kind = "gpt"
context_length = 16
embed_dim = 16
num_layers = 1
num_heads = 2
dropout = 0.1
[data]
kind = "text"
path = "cats.txt"
tokenizer = "bytes"
[optimizer]
type = "adam"
lr = 0.005
[train]
steps = 60
batch_size = 4
output = "out.gptrs"
[checkpoint]
folder = "run"
every = 10
)";

void make_cats(const TempFolder& folder) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "the cat sat on the mat. ";
  folder.write("cats.txt", text);
  folder.write("digits.toml", kSmallGpt);
}

struct KeptAs {
  const char* name;
  void (*make)(const TempFolder&);
  const char* format;
  const char* archive;  // what `inspect` calls it
  const char* output;
};
void PrintTo(const KeptAs& kept, std::ostream* out) { *out << kept.name; }

class WeightsKeptAs : public ::testing::TestWithParam<KeptAs> {};
INSTANTIATE_TEST_SUITE_P(Formats, WeightsKeptAs,
                         ::testing::Values(KeptAs{"layers_burnpack", make_digits, "burnpack", "burnpack", "out.netcl"},
                                           KeptAs{"layers_netcl", make_digits, "netcl", "netcl", "out.netcl"},
                                           KeptAs{"gpt_burnpack", make_cats, "burnpack", "burnpack", "out.gptrs"},
                                           KeptAs{"gpt_gptrs", make_cats, "gptrs", "gptrs-checkpoint", "out.gptrs"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(WeightsKeptAs, ResumeToTheSameBitsAndAreFilesOfThatFormat) {
  const TempFolder folder, calm;
  GetParam().make(folder);
  GetParam().make(calm);
  const std::vector<std::string> set{"--set", std::string("checkpoint.format=") + GetParam().format, "--set",
                                     "train.steps=60"};
  std::vector<std::string> quiet{"--quiet"};
  quiet.insert(quiet.end(), set.begin(), set.end());
  ASSERT_EQ(train(calm, quiet).exit_code, 0);
  train_through_kills(folder, 2, set);
  EXPECT_TRUE(testing::read_text_file(folder.path(GetParam().output)) ==
              testing::read_text_file(calm.path(GetParam().output)));
  EXPECT_EQ(run_ballast({"checkpoints", "verify", folder.path("run")}).exit_code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("run"))) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("step-00000060-weights-")) continue;
    const ProgramRun shown = run_ballast({"inspect", entry.path().string(), "--json"});
    EXPECT_EQ(shown.exit_code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr(std::string("\"format\":\"") + GetParam().archive + "\""));
    // It is the trained model itself, in names too.
    const ProgramRun diff = run_ballast({"diff", entry.path().string(), folder.path(GetParam().output)});
    if (std::string(GetParam().format) != "burnpack") {
      EXPECT_EQ(diff.exit_code, 0) << diff.out;
    }
  }
}

TEST(Train, RefusesAFormatThatCannotHoldTheModel) {
  const TempFolder layers, text;
  make_digits(layers);
  make_cats(text);
  const ProgramRun gptrs = train(layers, {"--check", "--set", "checkpoint.format=gptrs"});
  EXPECT_EQ(gptrs.exit_code, 2);
  EXPECT_THAT(gptrs.err, HasSubstr("take safetensors, burnpack or netcl"));
  const ProgramRun netcl = train(text, {"--check", "--set", "checkpoint.format=netcl"});
  EXPECT_EQ(netcl.exit_code, 2);
  EXPECT_THAT(netcl.err, HasSubstr("take safetensors, burnpack or gptrs"));
  const ProgramRun gelu =
      train(layers, {"--check", "--set", "checkpoint.format=netcl", "--set", "model.activation=gelu"});
  EXPECT_EQ(gelu.exit_code, 2);
  EXPECT_THAT(gelu.err, HasSubstr("GELU"));
}

TEST(Train, ExportsItsWeightsAsNetclFromAnyCheckpoint) {
  const TempFolder folder;
  make_digits(folder);
  ASSERT_EQ(train(folder, {"--quiet", "--set", "train.steps=20"}).exit_code, 0);
  const ProgramRun exported =
      run_ballast({"checkpoints", "export", folder.path("run"), "latest", folder.path("again.netcl")});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_EQ(run_ballast({"diff", folder.path("again.netcl"), folder.path("out.netcl"), "--ignore-metadata"}).exit_code,
            0);
}

TEST(Train, ExportsTheOptimizersStateAsBurnsRecord) {
  const TempFolder folder;
  make_digits(folder);
  ASSERT_EQ(train(folder, {"--quiet", "--set", "train.steps=20"}).exit_code, 0);
  const auto export_with = [&](const std::string& out, const std::string& optimizer) {
    return run_ballast({"checkpoints", "export", folder.path("run"), "latest", folder.path(out), "--optimizer",
                        folder.path(optimizer)});
  };
  const ProgramRun run = export_with("model.bpk", "optim.bpk");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("exported step 20: 4 tensors"));
  const ProgramRun shown = run_ballast({"inspect", folder.path("optim.bpk")});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("moment_1"));
  const auto records = import_burn_records({folder.path("model.bpk"), folder.path("optim.bpk"), ""});
  ASSERT_TRUE(records) << records.error().message;
  EXPECT_EQ(records->snapshot.weights.size(), 4U);
  EXPECT_EQ(records->snapshot.state.size(), 8U);
  EXPECT_THAT(records->snapshot.state_json, HasSubstr(R"("1.weight":{"momentum.time":{"u64":20}})"));
  EXPECT_THAT(export_with("model.safetensors", "optim.bpk").err, HasSubstr("OUT must be a .bpk file"));
  EXPECT_EQ(export_with("model.bpk", "other.bpk").exit_code, 2) << "what is there is not overwritten unasked";
}

TEST(Train, RefusesABurnRecordOfAnOptimizerThatBurnDoesNotHave) {
  const TempFolder folder;
  make_digits(folder);
  ASSERT_EQ(train(folder, {"--quiet", "--set", "train.steps=10", "--set", "optimizer.type=rmsprop"}).exit_code, 0);
  const ProgramRun run = run_ballast({"checkpoints", "export", folder.path("run"), "latest", folder.path("model.bpk"),
                                      "--optimizer", folder.path("optim.bpk")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("\"square_mean\" of RMSProp"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("model.bpk")));
}

// ---------------------------------------------------------------- reports

std::string row_of(const TempFolder& folder, const std::string& name) {
  const std::string page = testing::read_text_file(folder.path("run.html"));
  const size_t at = page.find("<td>" + name + "</td>");
  return at == std::string::npos ? "" : page.substr(at, page.find("</tr>", at) - at);
}

TEST(Train, ReportsTheWholeRunAlsoWhenItWasResumedWithoutALog) {
  const TempFolder folder, calm;
  for (const TempFolder* each : {&folder, &calm}) make_digits(*each);
  const std::vector<std::string> whole{"--quiet", "--overwrite", "--set", "train.steps=60", "--report"};
  const auto report = [&](const TempFolder& in) {
    std::vector<std::string> words = whole;
    words.push_back(in.path("run.html"));
    return train(in, words);
  };
  ASSERT_EQ(report(calm).exit_code, 0);
  ASSERT_EQ(train(folder, {"--quiet", "--set", "train.steps=40"}).exit_code, 0);
  ASSERT_EQ(report(folder).exit_code, 0);
  for (const char* name : {"steps", "images", "first loss", "last loss"}) {
    EXPECT_NE(row_of(calm, name), "");
    EXPECT_EQ(row_of(folder, name), row_of(calm, name));
  }
  // What lies beside the checkpoints is no part of them: damage costs the old curve and nothing else.
  folder.write("run/history.jsonl", "no log\n");
  ASSERT_EQ(train(folder, {"--quiet", "--overwrite", "--set", "train.steps=70"}).exit_code, 0);
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
  EXPECT_THAT(run.err, HasSubstr("the same command resumes the run"));
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
  EXPECT_THAT(run.err, HasSubstr("the same command resumes the run"));
  EXPECT_EQ(run_ballast({"checkpoints", "verify", folder.path("run")}).exit_code, 0);
}

TEST(Train, PassesOverADamagedCheckpointAndSaysSo) {
  const TempFolder folder;
  make_digits(folder);
  ASSERT_EQ(train(folder, {"--quiet", "--set", "train.steps=40"}).exit_code, 0);
  folder.write("run/step-00000040.json", "{");
  const ProgramRun run = train(folder, {"--quiet", "--overwrite", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("skipped: "));
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
  EXPECT_THAT(second.err, HasSubstr("holds its lock"));
  EXPECT_THAT(second.err, ::testing::Not(HasSubstr("--overwrite")));
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
