#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "tests/apps/ballast_program.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ProgramSetting on_terminal(unsigned short columns = 80) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.columns = columns;
  setting.environment = {{"TERM", "xterm"}, {"NO_COLOR", ""}, {"COLUMNS", ""}};
  return setting;
}

size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  size_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    longest = std::max(longest, line.size());
  }
  return longest;
}

TEST(Terminal, ColoursAppearOnATerminalOnly) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  EXPECT_THAT(run_ballast({"inspect", path}, on_terminal()).out, HasSubstr("\x1b["));
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"inspect", path}, {"inspect", path, "--flat"}, {"hash", path}, {"formats"}, {"inspect", "none"}}) {
    const ProgramRun run = run_ballast(arguments);
    EXPECT_THAT(run.out + run.err, Not(HasSubstr("\x1b"))) << arguments.front();
  }
}

TEST(Terminal, NoColorAndDumbTerminalsGetNoEscapes) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  ProgramSetting setting = on_terminal();
  setting.environment = {{"TERM", "xterm"}, {"NO_COLOR", "1"}};
  EXPECT_THAT(run_ballast({"inspect", path}, setting).out, Not(HasSubstr("\x1b")));
  setting.environment = {{"TERM", "dumb"}, {"NO_COLOR", ""}};
  EXPECT_THAT(run_ballast({"inspect", path}, setting).out, Not(HasSubstr("\x1b")));
}

TEST(Terminal, LongNamesGiveWayToANarrowTerminalButNotToAPipe) {
  const TempFolder folder;
  WritePlan plan;
  const std::string name = "a_name_that_goes_on_and_on_until_nobody_wants_to_read_it_any_more_and_then_some";
  plan.add_tensor(make_info(name, DType::kF32, {0}), ByteSpan());
  const std::string path = write_plan(folder, "x", plan);
  ProgramSetting narrow = on_terminal(200);
  narrow.environment = {{"TERM", "xterm"}, {"NO_COLOR", "1"}, {"COLUMNS", "50"}};
  const std::string shown = run_ballast({"inspect", path, "--flat"}, narrow).out;
  EXPECT_THAT(shown, HasSubstr("  a_name"));
  EXPECT_THAT(shown, HasSubstr("..."));
  EXPECT_LE(longest_line(shown.substr(shown.find("tensors"))), 50u) << shown;
  EXPECT_THAT(run_ballast({"inspect", path}).out, HasSubstr(name));
}

TEST(Terminal, TheWidthOfTheTerminalCountsWhereColumnsIsNotSet) {
  const TempFolder folder;
  WritePlan plan;
  plan.add_tensor(make_info(std::string(90, 'n'), DType::kF32, {0}), ByteSpan());
  const std::string path = write_plan(folder, "x", plan);
  ProgramSetting narrow = on_terminal(40);
  narrow.environment[1].second = "1";
  const std::string shown = run_ballast({"inspect", path, "--flat"}, narrow).out;
  EXPECT_LE(longest_line(shown.substr(shown.find("tensors"))), 45u) << shown;
}

TEST(Terminal, LongWorkShowsRateAndTimeLeftAndTidiesUp) {
  const TempFolder folder;
  ProgramSetting setting = on_terminal(100);
  setting.timeout_seconds = 120;
  const ProgramRun run =
      run_ballast({"hash", write_sparse_file(folder, "big", 4096), "--sha256", "--threads", "1"}, setting);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("hashing ["));
  EXPECT_THAT(run.out, HasSubstr("iB/s"));
  EXPECT_THAT(run.out, HasSubstr(" left"));
  const size_t last_bar = run.out.rfind("iB/s"), last_erase = run.out.rfind("\r\x1b[K");
  EXPECT_GT(last_erase, last_bar);
}

TEST(Terminal, LongWorkIsSilentWhenPiped) {
  const TempFolder folder;
  ProgramSetting setting;
  setting.timeout_seconds = 120;
  const ProgramRun run = run_ballast({"hash", write_sparse_file(folder, "big", 1024), "--threads", "1"}, setting);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
}

// A file with the names of a Llama of twelve layers; the last value of each tensor is `last`.
std::string write_llama(const TempFolder& folder, const std::string& name, float last) {
  std::vector<std::pair<std::string, std::vector<float>>> tensors;
  for (int layer = 0; layer < 12; ++layer) {
    for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj", "post_attention_layernorm"}) {
      tensors.push_back({fmt::format("model.layers.{}.{}.weight", layer, part),
                         {0.123456F * static_cast<float>(layer), -1.5F - static_cast<float>(tensors.size()), last}});
    }
  }
  return write_tensors(folder, name, tensors);
}

// The first words of the lines of a table, from the line below its titles.
std::vector<std::string> first_words(const std::string& text, const std::string& title) {
  std::vector<std::string> words;
  std::istringstream lines(text.substr(text.find(title)));
  std::string line, word;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.starts_with("  ") && std::istringstream(line) >> word) words.push_back(word);
  return words;
}

TEST(Terminal, DifferentTensorsLookDifferentInTablesOf80And100Columns) {
  const TempFolder folder;
  const std::string a = write_llama(folder, "a.safetensors", 1.25F), b = write_llama(folder, "b.safetensors", 1.75F);
  for (const unsigned short columns : {80, 100}) {
    ProgramSetting setting = on_terminal(columns);
    setting.environment[1].second = "1";
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"stats", a}, {"diff", a, b}, {"inspect", a, "--flat"}}) {
      const std::string shown = run_ballast(arguments, setting).out;
      std::vector<std::string> names = first_words(shown, "  name ");
      std::erase_if(names, [](const std::string& name) { return name == "total" || name.starts_with('('); });
      EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 48U) << arguments.front() << '\n' << shown;
      std::istringstream lines(shown);
      for (std::string line; std::getline(lines, line);) {
        if (line.find("weight") != std::string::npos) {
          EXPECT_LE(longest_line(line), columns) << line;
        }
      }
    }
  }
}

TEST(Terminal, ColumnsThatHadNoRoomAreNamed) {
  const TempFolder folder;
  ProgramSetting setting = on_terminal(80);
  setting.environment[1].second = "1";
  const std::string path = write_llama(folder, "a.safetensors", 1.25F);
  EXPECT_THAT(run_ballast({"stats", path}, setting).out, HasSubstr("(no room at this width for: "));
  EXPECT_THAT(run_ballast({"stats", path}).out, AllOf(HasSubstr("histogram"), Not(HasSubstr("no room"))));
}

}  // namespace
}  // namespace ballast::testing
