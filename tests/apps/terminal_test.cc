#include <gmock/gmock.h>

#include <iterator>
#include <set>
#include <sstream>

#include "tests/apps/ballast_program.h"
#include "tests/support/recorded_models.h"

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

// Columns that a terminal shows; the lines of the help's examples are there to be copied and stay whole.
size_t widest_shown(const std::string& text) {
  std::istringstream lines(text);
  size_t widest = 0;
  bool in_examples = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    in_examples = line == "Examples:" || (in_examples && line.starts_with(' '));
    size_t columns = 0;
    for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // characters, not bytes
    if (!in_examples) widest = std::max(widest, columns);
  }
  return widest;
}

ProgramSetting plain_terminal(unsigned short columns) {
  ProgramSetting setting = on_terminal(columns);
  setting.environment[1].second = "1";
  return setting;
}

TEST(Terminal, TablesFitIt) {
  const TempFolder folder;
  const std::string model = recorded_model_path("gpt_micro"), target = folder.path("q.gguf");
  const std::vector<std::vector<std::string>> kCommands = {
      {"ops"},
      {"backends"},
      {"formats"},
      {"models"},
      {"help"},
      {"stats", model},
      {"inspect", model},
      {"inspect", model, "--flat"},
      {"verify", model, "--level", "content"},
      {"trace", model, "--tokens", "1"},
      {"quantize", model, target, "q8_0", "--container-only", "--overwrite", "-q"},
  };
  for (const unsigned short columns : {120, 80, 60}) {
    for (const auto& arguments : kCommands) {
      const ProgramRun run = run_ballast(arguments, plain_terminal(columns));
      EXPECT_EQ(run.exit_code, 0) << arguments.front() << run.out;
      std::istringstream lines(run.out);
      for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("  ")) continue;  // a line of text, which the terminal wraps
        EXPECT_LE(widest_shown(line), columns) << arguments.front() << '\n' << run.out;
      }
    }
  }
}

TEST(Terminal, HelpFitsItAndLosesNoWord) {
  const auto words = [](const std::string& text) {
    std::istringstream stream(text);
    return std::vector<std::string>{std::istream_iterator<std::string>(stream), {}};
  };
  for (const unsigned short columns : {80, 40}) {
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"--help"}, {"convert", "--help"}, {"help", "generate"}}) {
      const std::string shown = run_ballast(arguments, plain_terminal(columns)).out;
      EXPECT_LE(widest_shown(shown), columns) << shown;
      EXPECT_EQ(words(shown), words(run_ballast(arguments).out)) << arguments.front();
    }
  }
}

}  // namespace
}  // namespace ballast::testing
