// Commands that take several files, and what -q and -v do.
#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(SeveralFiles, InspectAndHashShowOneAfterTheOther) {
  const TempFolder folder;
  const std::string a = write_sample(folder, "a.safetensors"), b = write_sample(folder, "b.safetensors");
  for (const char* command : {"inspect", "hash"}) {
    const ProgramRun run = run_ballast({command, a, b});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, AllOf(HasSubstr(a), HasSubstr(b))) << command;
    const std::string json = run_ballast({command, a, b, "--json"}).out;
    EXPECT_EQ(json_at(json, "files/0/path"), '"' + a + '"') << command;
    EXPECT_EQ(json_at(json, "files/1/path"), '"' + b + '"') << command;
    EXPECT_EQ(json_at(run_ballast({command, a, "--json"}).out, "path"), '"' + a + '"') << command;
  }
}

TEST(SeveralFiles, OneThatFailsDoesNotKeepTheOthersFromBeingShown) {
  const TempFolder folder;
  const std::string a = write_sample(folder, "a.safetensors"), b = write_sample(folder, "b.safetensors");
  const std::string missing = folder.path("missing.safetensors");
  for (const char* command : {"inspect", "hash"}) {
    const ProgramRun run = run_ballast({command, a, missing, b});
    EXPECT_EQ(run.exit_code, 2) << command;
    EXPECT_THAT(run.out, AllOf(HasSubstr(a), HasSubstr(b))) << command;
    EXPECT_THAT(run.err, HasSubstr(missing)) << command;
    const std::string json = run_ballast({command, a, missing, b, "--json"}).out;
    EXPECT_EQ(json_at(json, "files/1/error/code"), "\"not_found\"") << command;
    EXPECT_EQ(json_at(json, "files/2/path"), '"' + b + '"') << command;
  }
}

TEST(SeveralFiles, TheExitCodeOfHashCheckIsTheHighestOfAll) {
  const TempFolder folder;
  const std::string a = write_sample(folder, "a.safetensors");
  const std::string b = write_tensors(folder, "b.safetensors", {{"w", {1, 2}}});
  ASSERT_EQ(run_ballast({"hash", a, b, "--write"}).exit_code, 0);
  EXPECT_EQ(run_ballast({"hash", a, b, "--check"}).exit_code, 0);
  write_tensors(folder, "b.safetensors", {{"w", {1, 3}}});
  EXPECT_EQ(run_ballast({"hash", b, a, "--check"}).exit_code, 1);
}

TEST(Verbosity, QuietHidesTimingsAndVerboseTellsTimeAndMemory) {
  const std::vector<std::string> forward = {"forward", test_file_path("gptrs/gpt_micro/model.gptrs"), "--tokens",
                                            "1,2"};
  const auto with = [&](const char* flag) {
    std::vector<std::string> arguments = forward;
    arguments.emplace_back(flag);
    return run_ballast(arguments);
  };
  EXPECT_THAT(run_ballast(forward).err, HasSubstr("forward "));
  EXPECT_THAT(with("-q").err, IsEmpty());
  EXPECT_EQ(with("--quiet").out, run_ballast(forward).out);
  EXPECT_THAT(with("-v").err, ContainsRegex("time [0-9.]+ s, peak memory [0-9.]+ MiB"));
  std::vector<std::string> before = forward;
  before.insert(before.begin(), "-v");
  EXPECT_THAT(run_ballast(before).err, HasSubstr("peak memory"));
}

TEST(Verbosity, QuietVerifyNamesOnlyFilesThatAreNotSound) {
  const TempFolder folder;
  const std::string good = write_sample(folder, "good.safetensors");
  const std::string whole = read_text_file(good);
  const std::string bad = folder.write("bad.safetensors", whole.substr(0, whole.size() - 40));
  const ProgramRun run = run_ballast({"verify", good, bad, "-q"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, AllOf(Not(HasSubstr(good)), HasSubstr(bad)));
}

TEST(Verbosity, QuietDiffSaysOnlyTheResult) {
  const TempFolder folder;
  const std::string a = write_tensors(folder, "a", {{"w", {1, 2}}}), b = write_tensors(folder, "b", {{"w", {1, 3}}});
  const ProgramRun run = run_ballast({"diff", a, b, "-q"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, "different: 1 changed\n");
}

TEST(Verbosity, QuietShowsNoProgressOnATerminal) {
  const TempFolder folder;
  ProgramSetting setting;
  setting.terminal = true;
  setting.timeout_seconds = 120;
  const ProgramRun run = run_ballast({"hash", write_sparse_file(folder, "big", 1024), "--threads", "1", "-q"}, setting);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, Not(HasSubstr("hashing")));
}

}  // namespace
}  // namespace ballast::testing
