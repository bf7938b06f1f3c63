#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "ballast/formats/format.h"
#include "tests/apps/ballast_program.h"

namespace ballast::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// What bash would offer for the last of these words, in a folder with two files.
std::vector<std::string> bash_offers(const std::vector<std::string>& words) {
  static const TempFolder folder;
  if (folder.names().empty()) {
    folder.write("ballast.bash", run_ballast({"completions", "bash"}).out);
    folder.write("model one.bpk", "");
    folder.write("model two.npz", "");
  }
  std::string line = "cd " + folder.path() + "; source ballast.bash; COMP_WORDS=(ballast";
  for (const std::string& word : words) line += " '" + word + "'";
  line += fmt::format("); COMP_CWORD={}; _ballast; printf '%s\\n' \"${{COMPREPLY[@]}}\"", words.size());
  const ProgramRun run = run_program({"/bin/bash", "--norc", "-c", line});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "") << line;
  std::vector<std::string> offers;
  std::istringstream lines(run.out);
  for (std::string offer; std::getline(lines, offer);) {
    if (!offer.empty()) offers.push_back(offer);
  }
  return offers;
}

TEST(BashCompletion, OffersCommandsAndGlobalFlags) {
  EXPECT_THAT(bash_offers({"ins"}), ElementsAre("inspect"));
  EXPECT_THAT(bash_offers({""}), Contains("completions"));
  EXPECT_THAT(bash_offers({"--v"}), ElementsAre("--version", "--verbose"));
}

TEST(BashCompletion, OffersTheFlagsOfTheCommand) {
  const auto offers = bash_offers({"convert", "--"});
  EXPECT_THAT(offers, Contains("--overwrite"));
  EXPECT_THAT(offers, Contains("--to"));
  EXPECT_THAT(offers, Not(Contains("--sort")));
  EXPECT_THAT(bash_offers({"inspect", "x", "--so"}), ElementsAre("--sort"));
}

TEST(BashCompletion, OffersTheValuesOfAFlag) {
  EXPECT_THAT(bash_offers({"inspect", "--sort", ""}), UnorderedElementsAre("name", "size", "offset"));
  EXPECT_THAT(bash_offers({"inspect", "--sort", "=", "s"}), ElementsAre("size"));
  EXPECT_THAT(bash_offers({"inspect", "--sort", "="}), UnorderedElementsAre("name", "size", "offset"));
  EXPECT_THAT(bash_offers({"convert", "--threads", ""}), ElementsAre());
  EXPECT_THAT(bash_offers({"convert", "--adapt", "hugg"}), ElementsAre("huggingface-to-gptrs"));
  const auto formats = bash_offers({"convert", "a", "b", "--to", ""});
  for (const FormatDriver* format : all_formats()) {
    EXPECT_EQ(std::ranges::count(formats, format->name), format->plan_write != nullptr ? 1 : 0) << format->name;
  }
}

TEST(BashCompletion, OffersFilesWhereFilesAreMeant) {
  EXPECT_THAT(bash_offers({"inspect", "mod"}), UnorderedElementsAre("model one.bpk", "model two.npz"));
  EXPECT_THAT(bash_offers({"convert", "--config", "ball"}), ElementsAre("ballast.bash"));
}

TEST(BashCompletion, OffersShellsAndTopics) {
  EXPECT_THAT(bash_offers({"completions", ""}), UnorderedElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(bash_offers({"help", "pat"}), ElementsAre("patterns"));
  EXPECT_THAT(bash_offers({"help", "conv"}), UnorderedElementsAre("conversion", "convert"));
}

// Where the shell is there, it must accept the script; everywhere, the script must know every command and flag.
class EveryShell : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryShell, AcceptsTheScript) {
  const std::string shell = GetParam();
  if (run_program({"/bin/sh", "-c", "command -v " + shell}).exit_code != 0) GTEST_SKIP() << shell << " is not here";
  const TempFolder folder;
  const std::string script = folder.write("script", run_ballast({"completions", shell}).out);
  const ProgramRun run = run_program({"/bin/sh", "-c", shell + " -n " + script});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST_P(EveryShell, IsToldEveryCommandAndFlag) {
  const std::string script = run_ballast({"completions", GetParam()}).out;
  const bool fish = std::string(GetParam()) == "fish";
  for (const std::string& command : command_names()) {
    EXPECT_THAT(script, HasSubstr(command));
    std::istringstream words(run_ballast({command, "--help"}).out);
    for (std::string word; words >> word;) {
      if (!word.starts_with("--") || word.size() < 4) continue;
      word = word.substr(0, word.find_first_of(",.;:)'`"));
      if (word == "--install") continue;  // of another program
      EXPECT_THAT(script, HasSubstr(fish ? "-l " + word.substr(2) : word)) << command;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shells, EveryShell, ::testing::Values("bash", "zsh", "fish"));

TEST(Completions, OfAnUnknownShellAreAnError) {
  const ProgramRun run = run_ballast({"completions", "tcsh"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("bash"));
  EXPECT_EQ(run_ballast({"completions"}).exit_code, 2);
}

// ---------------------------------------------------------------- the manual page

TEST(ManualPage, HasEveryCommandAndTopic) {
  const ProgramRun run = run_ballast({"man"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* part :
       {".TH BALLAST 1", ".SH NAME", ".SH SYNOPSIS", ".SH COMMANDS", ".SS convert", ".SS inspect", ".SH TOPICS",
        ".SS patterns", ".SH EXIT CODES", ".SH ENVIRONMENT", "\\fB\\-\\-overwrite\\fR"}) {
    EXPECT_THAT(run.out, HasSubstr(part));
  }
}

TEST(ManualPage, LeavesNothingForRoffToMistake) {
  std::istringstream lines(run_ballast({"man"}).out);
  int verbatim = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line == ".nf") ++verbatim;
    if (line == ".fi") --verbatim;
    EXPECT_THAT(verbatim, ::testing::AnyOf(0, 1));
    EXPECT_FALSE(line.starts_with('\'')) << line;
    for (size_t at = line.find('\\'); at != std::string::npos; at = line.find('\\', at + 2)) {
      EXPECT_THAT("e-f&\"", HasSubstr(std::string(1, line[at + 1]))) << line;
    }
  }
  EXPECT_EQ(verbatim, 0);
}

TEST(ManualPage, IsSetByGroffWithoutComplaint) {
  if (run_program({"/bin/sh", "-c", "command -v groff"}).exit_code != 0) GTEST_SKIP() << "groff is not here";
  const TempFolder folder;
  const std::string page = folder.write("ballast.1", run_ballast({"man"}).out);
  const ProgramRun run = run_program({"/bin/sh", "-c", "groff -man -Tutf8 -ww -rLL=100n " + page});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, HasSubstr("ballast convert model.bpk out.safetensors"));
}

}  // namespace
}  // namespace ballast::testing
