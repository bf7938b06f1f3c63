// What `ballast train` says must be true: before the run, while it runs, when it is interrupted and when it is over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "ballast/training/checkpoint.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Three features, and one number (or one class) to learn from them.
void write_table(const TempFolder& folder, const std::string& name, bool classes) {
  constexpr size_t kRows = 24;
  std::vector<float> x(kRows * 3), y(kRows);
  std::vector<int32_t> labels(kRows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7) % 11) / 11;
  for (size_t i = 0; i < kRows; ++i) y[i] = x[3 * i] - 2 * x[3 * i + 1] + 3;
  for (size_t i = 0; i < kRows; ++i) labels[i] = static_cast<int32_t>(i % 4);
  WritePlan plan;
  plan.add_tensor(make_info("x", DType::kF32, {kRows, 3}), std::as_bytes(std::span(x)));
  if (classes) plan.add_tensor(make_info("y", DType::kI32, {kRows}), std::as_bytes(std::span(labels)));
  else plan.add_tensor(make_info("y", DType::kF32, {kRows, 1}), std::as_bytes(std::span(y)));
  const auto written = write_archive(folder.path(name), *find_format("npz"), plan);
  EXPECT_TRUE(written) << (written ? "" : written.error().message);
}

// A small model of layers on such a table; `more` goes behind everything.
void write_table_run(const TempFolder& folder, bool classes, const std::string& layers = "",
                     const std::string& more = "") {
  write_table(folder, "table.npz", classes);
  folder.write("run.toml",
               fmt::format("[model]\n{}\n[data]\nkind = \"npz\"\npath = \"table.npz\"\n[optimizer]\nlr = 0.05\n"
                           "[train]\nepochs = 10\nbatch_size = 6\n{}",
                           layers.empty() ? "kind = \"mlp\"\nhidden = [8]" : layers, more));
}

void write_text_run(const TempFolder& folder, const std::string& more = "") {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the cat sat on the mat. ";
  folder.write("cats.txt", text);
  folder.write("run.toml",
               "[model]\nkind = \"gpt\"\ncontext_length = 16\nembed_dim = 16\nnum_layers = 1\nnum_heads = 2\n"
               "[data]\nkind = \"text\"\npath = \"cats.txt\"\n[train]\nsteps = 4\nbatch_size = 2\n" +
                   more);
}

ProgramRun train_in(const TempFolder& folder, const std::vector<std::string>& more = {},
                    const ProgramSetting& setting = {}) {
  std::vector<std::string> words{"train", folder.path("run.toml")};
  words.insert(words.end(), more.begin(), more.end());
  return run_ballast(words, setting);
}

std::string refusal(const ProgramRun& run) {
  EXPECT_EQ(run.exit_code, 2) << run.out << run.err;
  return run.err;
}

// ---------------------------------------------------------------- before the run

TEST(TrainCheck, FindsAnOutputThatCannotBeWritten) {
  const TempFolder folder;
  write_table_run(folder, true);
  folder.write("a_file", "");
  folder.write("there.netcl", "precious");
  const auto check = [&](const std::string& out) {
    return refusal(train_in(folder, {"--check", "--out", folder.path(out)}));
  };
  EXPECT_THAT(check("a_file/x.netcl"), HasSubstr("a_file is not a folder"));
  EXPECT_THAT(check(""), HasSubstr("it is a folder"));
  EXPECT_THAT(check("there.netcl"), HasSubstr("--overwrite replaces it"));
  for (const char* name : {"x.pt", "x.onnx", "x.gguf", "x.gptrs", "x"})
    EXPECT_THAT(check(name), HasSubstr("a model of layers is saved as .netcl or .safetensors")) << name;
  EXPECT_EQ(train_in(folder, {"--check", "--out", folder.path("new/x.netcl")}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path("new"))) << "a check writes nothing";
  EXPECT_EQ(read_text_file(folder.path("there.netcl")), "precious");
  const TempFolder text;
  write_text_run(text);
  EXPECT_THAT(refusal(train_in(text, {"--out", text.path("x.netcl")})), HasSubstr("saved as .gptrs or .safetensors"));
}

TEST(TrainCheck, FindsLayersThatDoNotFitTheData) {
  const TempFolder folder;
  const auto layers = [](int in, int out) {
    return fmt::format("kind = \"sequential\"\nlayers = [{{ type = \"Linear\", in_features = {}, out_features = {} }}]",
                       in, out);
  };
  write_table_run(folder, true, layers(5, 4));
  EXPECT_THAT(refusal(train_in(folder, {"--check"})),
              AllOf(HasSubstr("layer 0 (Linear)"), HasSubstr("needs 5 values")));
  std::filesystem::remove(folder.path("table.npz"));
  write_table_run(folder, true, layers(3, 3));
  EXPECT_THAT(refusal(train_in(folder, {"--check"})),
              HasSubstr("gives 3 values for each example, but the data has 4 classes"));
  EXPECT_THAT(refusal(train_in(folder, {"--check", "--set", "loss.type=mse"})), HasSubstr("the targets are classes"));
  std::filesystem::remove(folder.path("table.npz"));
  write_table_run(folder, true, layers(3, 4));
  EXPECT_EQ(train_in(folder, {"--check"}).exit_code, 0);
}

TEST(TrainCheck, ShowsNumbersInsteadOfPlaceholders) {
  const TempFolder folder;
  write_table_run(folder, true, "", "[schedule]\ntype = \"warmup_cosine\"\n");
  const ProgramRun run = train_in(folder, {"--check", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "config/schedule/max_lr"), "0.05");
  EXPECT_EQ(json_at(run.out, "config/schedule/total"), "40");
  EXPECT_EQ(json_at(run.out, "config/model/in"), "3");
  EXPECT_EQ(json_at(run.out, "config/model/out"), "4");
  EXPECT_EQ(json_at(run.out, "config/data/classes"), "4");
  EXPECT_EQ(json_at(run.out, "config/loss/type"), "\"cross_entropy\"");
  EXPECT_EQ(json_at(run.out, "total_steps"), "40");
  EXPECT_GT(std::stod(json_at(run.out, "grad_norm")), 0);
}

TEST(Train, LearnsNumbersByMeanSquaresUnlessToldOtherwise) {
  const TempFolder folder;
  write_table_run(folder, false);
  const ProgramRun check = train_in(folder, {"--check", "--json"});
  EXPECT_EQ(json_at(check.out, "config/loss/type"), "\"mse\"");
  const ProgramRun run = train_in(folder, {"--json", "--quiet", "--set", "train.epochs=100"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const double loss = std::stod(json_at(run.out, "loss"));
  EXPECT_GT(loss, 0);
  EXPECT_LT(loss, std::stod(json_at(check.out, "loss")) / 10);
  EXPECT_THAT(refusal(train_in(folder, {"--set", "loss.type=cross_entropy"})),
              HasSubstr("one number for each example"));
}

TEST(Train, CreatesTheFolderOfItsOutputForEveryFormat) {
  const TempFolder folder;
  write_text_run(folder, "output = \"new/deep/t.gptrs\"\n");
  EXPECT_EQ(train_in(folder, {"--quiet"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path("new/deep/t.gptrs")));
  EXPECT_EQ(train_in(folder, {"--quiet", "--out", folder.path("other/t.safetensors")}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path("other/t.safetensors")));
}

TEST(Train, ItsSafetensorsFileOfATextModelRuns) {
  const TempFolder folder;
  write_text_run(folder);
  ASSERT_EQ(train_in(folder, {"--quiet", "--out", folder.path("a/t.gptrs")}).exit_code, 0);
  ASSERT_EQ(train_in(folder, {"--quiet", "--out", folder.path("b/t.safetensors")}).exit_code, 0);
  const auto logits = [&](const std::string& model) {
    const ProgramRun run = run_ballast({"forward", folder.path(model), "--tokens", "116,104,101", "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return json_at(run.out, "rows");
  };
  EXPECT_EQ(logits("a/t.gptrs"), logits("b/t.safetensors"));
}

TEST(Train, StepsOfTheCommandLineDecideOverEpochsOfTheFile) {
  const TempFolder folder;
  write_table_run(folder, true);
  const ProgramRun run = train_in(folder, {"--steps", "7", "--json", "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "total_steps"), "7");
  const ProgramRun epochs = train_in(folder, {"--set", "train.epochs=2", "--json", "--quiet"});
  EXPECT_EQ(json_at(epochs.out, "total_steps"), "8");
  EXPECT_THAT(refusal(train_in(folder, {"--steps", "7", "--set", "train.epochs=2"})), HasSubstr("both given"));
}

TEST(Train, RefusesToFineTuneAModelOfAnotherProgramAndSaysSo) {
  const TempFolder folder;
  write_text_run(folder);
  folder.write("run.toml", "[model]\ninit = \"" + test_file_path("hf/llama_plain") +
                               "\"\n[data]\nkind = \"text\"\npath = \"cats.txt\"\n[train]\nsteps = 4\n");
  EXPECT_THAT(
      refusal(train_in(folder)),
      HasSubstr("fine-tuning models of other programs (Hugging Face folders, GGUF files) is not supported yet"));
}

TEST(Train, TakesBatchesOfSeveralTextsForAMinistral) {
  const TempFolder folder;
  write_text_run(folder);
  const std::string model = test_file_path("gptrs/ministral_yarn");
  folder.write("run.toml",
               fmt::format("[model]\ninit = \"{0}/model.gptrs\"\n[data]\nkind = \"text\"\npath = \"cats.txt\"\n"
                           "tokenizer = \"{0}/tokenizer.json\"\n[train]\nsteps = 3\nbatch_size = 2\n",
                           model));
  EXPECT_EQ(train_in(folder, {"--check"}).exit_code, 0);
  const ProgramRun run = train_in(folder, {"--quiet"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Train, WithoutAThreadForCheckpointsIsAnErrorAndNoAbort) {
  const TempFolder folder;
  write_table_run(folder, true);
  // A stack that does not fit the address space: no thread can be made.
  const ProgramRun run =
      run_program({"/bin/bash", "-c",
                   fmt::format("ulimit -s {} && exec {} train {} --checkpoints {} --quiet", uint64_t{1} << 37,
                               program_path(), folder.path("run.toml"), folder.path("run"))});
  EXPECT_EQ(run.signal, 0);
  EXPECT_THAT(refusal(run), HasSubstr("no thread left"));
}

// ---------------------------------------------------------------- interrupted

// Sends SIGTERM as soon as the run has made steps.
ProgramRun interrupted_run(const TempFolder& folder, std::vector<std::string> more) {
  more.insert(more.end(), {"--steps", "2000000000", "--log", folder.path("log.jsonl")});
  ProgramSetting setting;
  bool told = false;
  setting.watch = [&](pid_t process, const std::string&) {
    std::error_code none;
    const auto size = std::filesystem::file_size(folder.path("log.jsonl"), none);
    if (told || none || size < 400) return;
    told = true;
    ::kill(process, SIGTERM);
  };
  const ProgramRun run = train_in(folder, more, setting);
  EXPECT_EQ(run.exit_code, 130) << run.err;
  return run;
}

TEST(Train, SaysThatNothingWasSavedWhenItIsInterruptedWithNowhereToSave) {
  const TempFolder folder;
  write_table_run(folder, true);
  EXPECT_THAT(interrupted_run(folder, {"--quiet"}).err,
              AllOf(HasSubstr("interrupted after step"), HasSubstr("nothing was saved")));
}

TEST(Train, SavesItsModelWhenItIsInterruptedWithoutCheckpoints) {
  const TempFolder folder;
  write_table_run(folder, true);
  const ProgramRun run = interrupted_run(folder, {"--quiet", "--out", folder.path("m.netcl")});
  EXPECT_THAT(run.err, AllOf(HasSubstr("m.netcl holds the model trained so far"), HasSubstr("cannot be resumed")));
  EXPECT_EQ(run_ballast({"verify", folder.path("m.netcl")}).exit_code, 0);
}

// ---------------------------------------------------------------- started again

TEST(Train, AFinishedRunSaysSoAndReportsItsLoss) {
  const TempFolder folder;
  write_table_run(folder, true);
  const std::vector<std::string> words{"--checkpoints",        folder.path("run"), "--out",
                                       folder.path("m.netcl"), "--json",           "--quiet"};
  const ProgramRun first = train_in(folder, words);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string model = read_text_file(folder.path("m.netcl"));
  const ProgramRun again = train_in(folder, words);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("this run is already finished: all 40 steps are done"));
  EXPECT_EQ(json_at(again.out, "loss"), json_at(first.out, "loss"));
  EXPECT_EQ(json_at(again.out, "steps_made"), "0");
  EXPECT_EQ(read_text_file(folder.path("m.netcl")), model);
  std::filesystem::remove(folder.path("m.netcl"));
  ASSERT_EQ(train_in(folder, words).exit_code, 0) << "what is missing is written again";
  EXPECT_EQ(read_text_file(folder.path("m.netcl")), model);
}

TEST(Train, RefusesFewerStepsThanWereMade) {
  const TempFolder folder;
  write_table_run(folder, true);
  ASSERT_EQ(train_in(folder, {"--checkpoints", folder.path("run"), "--quiet"}).exit_code, 0);
  EXPECT_THAT(refusal(train_in(folder, {"--checkpoints", folder.path("run"), "--set", "train.epochs=2"})),
              HasSubstr("the run is already at step 40, beyond the 8 requested"));
}

TEST(Train, ReplacesAModelOnlyWhenAsked) {
  const TempFolder folder;
  write_table_run(folder, true);
  const std::vector<std::string> words{"--quiet", "--out", folder.path("m.netcl")};
  ASSERT_EQ(train_in(folder, words).exit_code, 0);
  EXPECT_THAT(refusal(train_in(folder, words)), HasSubstr("--overwrite replaces it"));
  std::vector<std::string> over = words;
  over.push_back("--overwrite");
  EXPECT_EQ(train_in(folder, over).exit_code, 0);
  // A run that goes on would replace it too, at its end.
  const std::string run = folder.path("run");
  ASSERT_EQ(train_in(folder, {"--quiet", "--checkpoints", run}).exit_code, 0);
  EXPECT_THAT(refusal(train_in(folder, {"--steps", "50", "--checkpoints", run, "--out", folder.path("m.netcl")})),
              HasSubstr("--overwrite replaces it"));
}

TEST(Train, NamesOnlyChangesThatMatterWhenItResumes) {
  const TempFolder folder;
  write_table_run(folder, true);
  ASSERT_EQ(train_in(folder, {"--checkpoints", folder.path("run"), "--quiet", "--threads", "1"}).exit_code, 0);
  const ProgramRun run = train_in(folder, {"--checkpoints", folder.path("run"), "--quiet", "--threads", "2", "--out",
                                           folder.path("m.netcl"), "--steps", "44", "--set", "optimizer.lr=0.01"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("changed since the checkpoint: [optimizer] lr is 0.01, and was 0.05"));
  EXPECT_THAT(run.err, Not(AnyOf(HasSubstr("threads"), HasSubstr("output"), HasSubstr("folder"))));
}

TEST(Train, ShowsTheSameLossEverywhere) {
  const TempFolder folder;
  write_table_run(folder, true);
  const ProgramRun run = train_in(folder, {"--checkpoints", folder.path("run"), "--log", folder.path("log.jsonl")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const size_t at = run.out.find("loss ");
  ASSERT_NE(at, std::string::npos);
  const std::string loss = run.out.substr(at, run.out.find_first_of(",\n", at) - at);
  EXPECT_THAT(run.err, HasSubstr("step 40 of 40  100 %  epoch 10  " + loss + "  "));
  const ProgramRun list = run_ballast({"checkpoints", "list", folder.path("run"), "--json"});
  const std::string kept = json_at(list.out, "checkpoints/0/metrics/loss");
  EXPECT_THAT(read_text_file(folder.path("log.jsonl")), HasSubstr("{\"step\":40,\"loss\":" + kept + ","));
  EXPECT_NEAR(std::stod(kept), std::stod(loss.substr(5)), 1e-4);
}

TEST(Train, StopsWhenNoCheckpointCanBeReadAndTouchesNone) {
  const TempFolder folder;
  write_table_run(folder, true);
  ASSERT_EQ(train_in(folder, {"--checkpoints", folder.path("run"), "--quiet"}).exit_code, 0);
  folder.write("run/step-00000040.json", "{");
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(folder.path("run")), {}); };
  const auto before = files();
  EXPECT_THAT(train_in(folder, {"--checkpoints", folder.path("run"), "--quiet"}).err,
              HasSubstr("none of its checkpoints can be read"));
  EXPECT_NE(train_in(folder, {"--checkpoints", folder.path("run"), "--quiet"}).exit_code, 0);
  EXPECT_EQ(read_text_file(folder.path("run/step-00000040.json")), "{");
  EXPECT_EQ(files(), before);
}

TEST(Train, WarnsOnceOfParametersThatNoGradientReaches) {
  const TempFolder folder;
  WritePlan plan;
  const std::vector<float> zeros(24 * 3);
  const std::vector<int32_t> labels(24);
  plan.add_tensor(make_info("x", DType::kF32, {24, 3}), std::as_bytes(std::span(zeros)));
  plan.add_tensor(make_info("y", DType::kI32, {24}), std::as_bytes(std::span(labels)));
  ASSERT_TRUE(write_archive(folder.path("zeros.npz"), *find_format("npz"), plan));
  folder.write("run.toml",
               "[model]\nkind = \"mlp\"\nout = 2\n[data]\nkind = \"npz\"\npath = \"zeros.npz\"\n[train]\nsteps = 3\n");
  const ProgramRun run = train_in(folder, {"--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string warning = "warning: step 1: the gradient of \"0.weight\" is all zeros: it is not being trained";
  EXPECT_THAT(run.err, HasSubstr(warning));
  EXPECT_EQ(run.err.find("warning", run.err.find(warning) + 1), std::string::npos);
  EXPECT_THAT(train_in(folder, {"--check"}).err, HasSubstr("\"0.weight\" is all zeros"));
}

}  // namespace
}  // namespace ballast::testing
