// Files that the program must not replace, lose or read as something else, however the command line names them.
#include <gmock/gmock.h>

#include <filesystem>

#include "ballast/archive/open.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// ---------------------------------------------------------------- --profile

class ProfileFile : public ::testing::Test {
 protected:
  ProfileFile() { fs::copy_file(recorded_model_path("gpt_micro"), model_); }
  ProgramRun generate(std::vector<std::string> more) const {
    more.insert(more.begin(), {"generate", model_, "--tokens", "1", "--greedy", "--max-tokens", "1"});
    return run_ballast(more);
  }

  TempFolder folder_;
  std::string model_ = folder_.path("model.gptrs");
};

TEST_F(ProfileFile, NeverReplacesTheModelOrAnythingElseThatIsNoProfile) {
  const std::string before = read_text_file(model_), notes = folder_.write("notes.txt", "mine");
  for (const std::string& path : {model_, notes}) {
    const ProgramRun plain = generate({"--profile", path}), forced = generate({"--profile", path, "--overwrite"});
    EXPECT_EQ(plain.exit_code, 2);
    EXPECT_THAT(plain.err, AllOf(HasSubstr(path), HasSubstr("exists already")));
    EXPECT_EQ(forced.exit_code, 2);
    EXPECT_THAT(forced.err, AllOf(HasSubstr(path), HasSubstr("is not a profile")));
  }
  EXPECT_TRUE(read_text_file(model_) == before);
  EXPECT_EQ(read_text_file(notes), "mine");
  EXPECT_THAT(folder_.names(), ElementsAre("model.gptrs", "notes.txt"));
}

TEST_F(ProfileFile, ReplacesAnOlderProfileWhenAsked) {
  const std::string path = folder_.path("profile.json");
  ASSERT_EQ(generate({"--profile", path}).exit_code, 0);
  EXPECT_EQ(generate({"--profile", path}).exit_code, 2);
  EXPECT_EQ(generate({"--profile", path, "--overwrite"}).exit_code, 0);
}

TEST_F(ProfileFile, IsAnotherFileThanTheResult) {
  const std::string path = folder_.path("logits.npz");
  const ProgramRun run = run_ballast({"forward", model_, "--tokens", "1", "--out", path, "--profile", path});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--profile and --out cannot be one file"));
  EXPECT_FALSE(fs::exists(path));
}

// ---------------------------------------------------------------- tokenize

TEST(TokenizeModel, MustBeThereAndBeAModel) {
  const TempFolder folder;
  fs::copy_file(gptrs_tokenizer_path(), folder.path("tokenizer.json"));
  const ProgramRun missing = run_ballast({"tokenize", folder.path("nosuch.gguf"), "--text", "x"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("nosuch.gguf"), HasSubstr("No such file"), Not(HasSubstr("--token"))));
  const std::string fake = folder.write("fake.gguf", "no weights at all");
  const ProgramRun other = run_ballast({"tokenize", fake, "--text", "x"});
  EXPECT_NE(other.exit_code, 0);
  EXPECT_THAT(other.err, HasSubstr("fake.gguf"));
  EXPECT_EQ(run_ballast({"tokenize", folder.path(), "--text", "x"}).exit_code, 0) << "a folder of a tokenizer will do";
}

TEST(TokenizeModel, AdviceNamesOnlyFlagsThatTheCommandHas) {
  const std::string model = test_file_path("gptrs/gpt_micro/model.gptrs");
  const TempFolder folder;
  const std::string text = folder.write("a.txt", "some text");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"tokenize", model, "--text", "x"}, {"perplexity", model, text}}) {
    const ProgramRun run = run_ballast(arguments);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, AllOf(HasSubstr("--tokenizer FILE"), Not(HasSubstr("--tokens")))) << arguments.front();
  }
}

// ---------------------------------------------------------------- train

class TrainFiles : public ::testing::Test {
 protected:
  TrainFiles() {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "the cat sat on the mat. ";
    folder_.write("cats.txt", text);
    folder_.write("run.toml",
                  "[model]\nkind = \"gpt\"\ncontext_length = 16\nembed_dim = 16\nnum_layers = 1\nnum_heads = 2\n"
                  "[data]\nkind = \"text\"\npath = \"cats.txt\"\n[train]\nsteps = 2\nbatch_size = 2\n");
  }
  ProgramRun train(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", folder_.path("run.toml"), "--quiet"});
    return run_ballast(more);
  }
  std::string refusal(const std::vector<std::string>& more) const {
    const ProgramRun run = train(more);
    EXPECT_EQ(run.exit_code, 2) << run.out;
    return run.err;
  }

  TempFolder folder_;
};

TEST_F(TrainFiles, TheLogReplacesNothingButALog) {
  const std::string config = read_text_file(folder_.path("run.toml")), data = read_text_file(folder_.path("cats.txt"));
  const std::string notes = folder_.write("notes.txt", "mine\n");
  EXPECT_THAT(refusal({"--log", folder_.path("run.toml")}), HasSubstr("is the configuration of this run"));
  EXPECT_THAT(refusal({"--log", folder_.path("./cats.txt")}), HasSubstr("is the data of this run"));
  EXPECT_THAT(refusal({"--log", notes}), HasSubstr("exists and is not the log of a run"));
  EXPECT_EQ(read_text_file(folder_.path("run.toml")), config);
  EXPECT_EQ(read_text_file(folder_.path("cats.txt")), data);
  EXPECT_EQ(read_text_file(notes), "mine\n");
  const std::string log = folder_.path("log.jsonl");
  ASSERT_EQ(train({"--log", log}).exit_code, 0);
  EXPECT_EQ(train({"--log", log}).exit_code, 0) << "a log makes room for the next one";
}

TEST_F(TrainFiles, TheReportReplacesNothingButAReport) {
  const std::string page = folder_.write("page.html", "<p>mine</p>");
  EXPECT_THAT(refusal({"--report", page}), HasSubstr("exists and is not the report of a run"));
  EXPECT_EQ(read_text_file(page), "<p>mine</p>");
  for (const char* name : {"report.html", "report.svg"}) {
    ASSERT_EQ(train({"--report", folder_.path(name)}).exit_code, 0) << name;
    EXPECT_EQ(train({"--report", folder_.path(name)}).exit_code, 0) << name;
  }
}

TEST_F(TrainFiles, NoTwoResultsAreOneFile) {
  const std::string path = folder_.path("x.gptrs"), checkpoints = folder_.path("checkpoints");
  EXPECT_THAT(refusal({"--out", path, "--log", path}), HasSubstr("is the trained model of this run"));
  EXPECT_THAT(refusal({"--log", folder_.path("a/../x.html"), "--report", folder_.path("x.html")}),
              HasSubstr("is the log of this run and cannot be its report too"));
  EXPECT_THAT(refusal({"--checkpoints", checkpoints, "--log", checkpoints + "/history.jsonl"}),
              HasSubstr("is the history of this run"));
  EXPECT_THAT(refusal({"--checkpoints", path, "--out", path}), HasSubstr("is the checkpoint folder of this run"));
  EXPECT_FALSE(fs::exists(path));
}

// What a flag says is a name, also where it would be a number in a configuration.
TEST_F(TrainFiles, NamesMayLookLikeNumbersAndHaveQuotes) {
  const std::string script = fmt::format(
      "cd '{}' && '{}' train run.toml --quiet --checkpoints 2024 --log 1e5 --out true.gptrs && "
      "'{}' train run.toml --quiet --log '\"q\"'",
      folder_.path(), program_path(), program_path());
  const ProgramRun run = run_program({"/bin/sh", "-c", script});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* name : {"2024", "1e5", "true.gptrs", "\"q\""}) EXPECT_TRUE(fs::exists(folder_.path(name))) << name;
}

// ---------------------------------------------------------------- "-"

TEST(StandardOutput, IsRefusedWhereOnlyAFileWillDo) {
  const TempFolder folder;
  const std::string model = recorded_model_path("gpt_micro");
  const std::vector<std::vector<std::string>> kCases = {
      {"train", "run.toml", "--log", "-"},
      {"train", "run.toml", "--report", "-"},
      {"train", "run.toml", "--out", "-"},
      {"train", "run.toml", "--checkpoints", "-"},
      {"generate", model, "--tokens", "1", "--profile", "-"},
      {"forward", model, "--tokens", "1", "--out", "-"},
      {"quantize", model, "x.gguf", "q8_0", "--calibrate", "a.txt", "--save-imatrix", "-"},
      {"convert", model, "x.safetensors", "--adapt", "gptrs-to-huggingface", "--write-config", "-"},
      {"extract", model, "--each", "-"},
  };
  for (const auto& arguments : kCases) {
    const ProgramRun run = run_ballast(arguments);
    EXPECT_EQ(run.exit_code, 2) << arguments.front();
    EXPECT_THAT(run.err, AllOf(HasSubstr("not standard output"), HasSubstr("./-"))) << arguments.front();
  }
  const ProgramRun config = run_ballast({"train", "-"});
  EXPECT_EQ(config.exit_code, 2);
  EXPECT_THAT(config.err, HasSubstr("CONFIG must be a file"));
  EXPECT_FALSE(fs::exists("-"));
}

// ---------------------------------------------------------------- edit

// Before there was a lock, whoever was last to finish won, and the others had exit code 0 all the same.
TEST(EditAtTheSameTime, LosesNoChange) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const std::string script =
      fmt::format("for i in 1 2 3 4 5 6 7 8; do '{0}' edit '{1}' -q --set key$i=value --no-sync & done; wait",
                  program_path(), path);
  const ProgramRun run = run_program({"/bin/sh", "-c", script});
  EXPECT_EQ(run.err, "");
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->description().metadata.size(), 10U) << "two that were there and eight that were added";
  EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors"));
}

}  // namespace
}  // namespace ballast::testing
