#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
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

TEST(Usage, TheOptionParsersOwnWordsNeverAppear) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"inspect"}, "PATH is missing: Files to inspect"},
      {{"diff", "a", "b", "c"}, "\"c\" is one argument too many"},
      {{"show"}, "PATH is missing"},
      {{"apply", "a", "-o", "b"}, "--to is missing"},
      {{"hash", "a", "--write", "--check"}, "--write and --check cannot be combined"},
      {{"inspect", "a", "--sort", "name", "--sort", "size"}, "--sort is given more than once"},
      {{"inspect", "a", "--sort", "nmae"}, "--sort: there is no \"nmae\"; did you mean \"name\"?"},
      {{"inspect", "a", "--sort", "colour"}, "--sort: \"colour\" is not one of name, size, offset"},
      {{"inspect", "a", "--sort"}, "--sort needs a value: --sort KEY"},
      {{"hash", "a", "--threads", "many"}, "--threads: \"many\" is not a whole number"},
      {{"hash", "a", "--threads", "0"}, "--threads: 0 is not between 1 and 1024"},
      {{"hash", "a", "--threads", "-1"}, "--threads: -1 is below 1"},
      {{"diff", "a", "b", "--rtol", "-1"}, "--rtol: -1 is below 0"},
      {{"diff", "a", "b", "--rtol", "x"}, "--rtol: \"x\" is not a number"},
      {{"convert", "a", "b.safetensors", "--shard-size", "2 parsecs"}, "--shard-size: \"2 parsecs\" is not a size"},
      {{"inspect", "a", "--jsno"}, "there is no option --jsno; did you mean --json?"},
      {{"inspect", "a", "-x"}, "there is no option -x"},
      {{"--nonsense"}, "there is no option --nonsense"},
      {{"-q"}, "which command?"},
      {{"--"}, "which command?"},
      {{"show", "a", "b", "--json", "--format", "csv"}, "--format and --json cannot be combined"},
      {{"generate", "--temperature", "-1"}, "--temperature: -1 is below 0"},
      {{"formats", "--json=5"}, "--json takes no value"},
      {{"inspect", "a", "--json=false"}, "--json takes no value"},
      {{"inspect", "a", "--quiet=2"}, "--quiet takes no value"},
      {{"inspect", "a", "--json=true"}, "--json takes no value"},
      {{"--quiet=true", "inspect", "a"}, "--quiet takes no value"},
  };
  for (const auto& [arguments, text] : cases) {
    const ProgramRun run = run_ballast(arguments);
    EXPECT_EQ(run.exit_code, 2) << ::testing::PrintToString(arguments);
    EXPECT_EQ(run.out, "") << ::testing::PrintToString(arguments);
    EXPECT_THAT(run.err, HasSubstr(text)) << ::testing::PrintToString(arguments);
    EXPECT_THAT(run.err, HasSubstr("--help")) << ::testing::PrintToString(arguments);
    for (const char* leaked : {"equired", "xclude", "not in {", "Could not convert", "not expected", "subcommand",
                               "At Most", "received", "not an allowed", "override"}) {
      EXPECT_THAT(run.err, Not(HasSubstr(leaked))) << ::testing::PrintToString(arguments);
    }
  }
}

TEST(Help, TheOptionParsersLabelsDoNotAppear) {
  for (const std::string& command : command_names()) {
    const std::string help = run_ballast({command, "--help"}).out;
    for (const char* leaked : {"Excludes:", "Needs:", "REQUIRED", "Positionals", "SUBCOMMAND"}) {
      EXPECT_THAT(help, Not(HasSubstr(leaked))) << command;
    }
  }
}

}  // namespace
}  // namespace ballast::testing
