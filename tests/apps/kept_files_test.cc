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

}  // namespace
}  // namespace ballast::testing
