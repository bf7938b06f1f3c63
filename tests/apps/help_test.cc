#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Help, ListsEveryCommandAndTheExitCodes) {
  const ProgramRun run = run_ballast({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  for (const std::string& name : command_names()) EXPECT_THAT(run.out, HasSubstr("\n  " + name + " "));
  EXPECT_THAT(run.out, HasSubstr("Exit codes:"));
  EXPECT_THAT(run.out, HasSubstr("130"));
}

TEST(Help, OfEveryCommandHasUsageAndExamples) {
  for (const std::string& name : command_names()) {
    const ProgramRun run = run_ballast({name, "--help"});
    EXPECT_EQ(run.exit_code, 0) << name;
    EXPECT_THAT(run.out, HasSubstr("Usage: ballast " + name));
    EXPECT_THAT(run.out, HasSubstr("Examples:\n  ballast " + name));
    EXPECT_EQ(run_ballast({"help", name}).out, run.out);
  }
}

TEST(Help, VersionNamesTheBuildAndTheProcessor) {
  const ProgramRun run = run_ballast({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, StartsWith("ballast 0."));
  EXPECT_THAT(run.out, HasSubstr("\nbuild: "));
  EXPECT_THAT(run.out, HasSubstr("\nCPU features: "));
}

TEST(Usage, WithoutACommandIsAnErrorThatShowsTheHelp) {
  const ProgramRun run = run_ballast({});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, StartsWith("ballast: "));
  EXPECT_THAT(run.err, HasSubstr("convert"));
}

TEST(Usage, SuggestsTheCommandThatWasMeant) {
  const ProgramRun run = run_ballast({"inpsect", "x"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err, "ballast: there is no command \"inpsect\"; did you mean \"inspect\"?\n");
}

TEST(Usage, ListsTheCommandsWhenNoneComesNear) {
  const ProgramRun run = run_ballast({"defenestrate"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr(fmt::format("there are: {}", fmt::join(command_names(), ", "))));
}

TEST(Usage, SuggestsTheOptionThatWasMeant) {
  const ProgramRun run = run_ballast({"inspect", "--jsno", "x"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err, "ballast: there is no option --jsno; did you mean --json?\nTry: ballast inspect --help\n");
}

TEST(Usage, AnOptionWithoutItsValueSaysWhatIsMissing) {
  const ProgramRun run = run_ballast({"chat", "--system"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err, "ballast: --system needs a value: --system TEXT\nTry: ballast chat --help\n");
}

TEST(Usage, MissingAndSuperfluousArgumentsAreErrors) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"inspect"},
           {"inspect", "a", "b"},
           {"verify"},
           {"convert", "a"},
           {"apply", "a"},
           {"apply", "a", "--to", "b"},
           {"diff", "a"},
           {"diff", "a", "b", "c"},
           {"hash"},
           {"hash", "a", "--write", "--check"},
           {"inspect", "a", "--sort", "colour"},
           {"verify", "a", "--level", "deepest"},
           {"hash", "a", "--threads", "0"},
           {"hash", "a", "--threads", "many"},
           {"diff", "a", "b", "--rtol", "-1"},
           {"convert", "a", "b.safetensors", "--shard-size", "2 parsecs"},
           {"--nonsense"},
       }) {
    const ProgramRun run = run_ballast(arguments);
    EXPECT_EQ(run.exit_code, 2) << ::testing::PrintToString(arguments);
    EXPECT_EQ(run.out, "") << ::testing::PrintToString(arguments);
    EXPECT_THAT(run.err, StartsWith("ballast: ")) << ::testing::PrintToString(arguments);
    EXPECT_THAT(run.err, HasSubstr("--help")) << ::testing::PrintToString(arguments);
  }
}

TEST(Errors, AFullDiskBehindStandardOutputIsAFailure) {
  ProgramSetting setting;
  setting.stdout_path = "/dev/full";
  const ProgramRun run = run_ballast({"formats"}, setting);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("cannot write to standard output"));
}

}  // namespace
}  // namespace ballast::testing
