// `ballast generate --prompts`: many prompts, several at a time.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ProgramRun run_generate(std::vector<std::string> arguments, const ProgramSetting& setting = {}) {
  arguments.insert(arguments.begin(), "generate");
  return run_ballast(arguments, setting);
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// What does not depend on the clock.
std::string result_in(const std::string& json) {
  std::string result;
  for (const char* key : {"prompt_tokens", "tokens", "text", "logprobs", "stop", "seed"}) {
    result += json_at(json, key) + '\n';
  }
  return result;
}

struct SeededPrompt {
  std::string text;
  int seed = 0;
  int max_tokens = 0;
};

// Of several lengths, some alike for more than a page, some that end before others.
std::vector<SeededPrompt> seeded_prompts() {
  std::string long_text;
  for (int i = 0; i < 10; ++i) long_text += "It was a fine morning in the village. ";
  std::vector<SeededPrompt> prompts = {
      {"It was", 1, 12}, {"She said", 2, 3}, {long_text + "Emma", 3, 6}, {long_text + "Mr. Knightley", 4, 9},
      {"It was", 5, 12}, {"", 6, 5},         {"My dear", 7, 0}};
  for (int i = 0; i < 12; ++i) prompts.push_back({"The " + std::string(static_cast<size_t>(i), 'a'), i, 2 + i});
  return prompts;
}

std::string as_json_lines(const std::vector<SeededPrompt>& prompts) {
  std::string lines;
  for (const SeededPrompt& prompt : prompts) {
    lines += fmt::format(R"({{"prompt": "{}", "seed": {}, "max_tokens": {}}})", prompt.text, prompt.seed,
                         prompt.max_tokens) +
             "\n";
  }
  return lines;
}

TEST(GeneratePrompts, GetTheTextsThatTheyGetAloneHoweverManyRunAtATime) {
  const TempFolder folder;
  const std::vector<SeededPrompt> prompts = seeded_prompts();
  const std::string file = folder.write("prompts.jsonl", as_json_lines(prompts));
  std::vector<std::string> alone;
  for (const SeededPrompt& prompt : prompts) {
    const ProgramRun run = run_generate({"--prompt", prompt.text, "--seed", std::to_string(prompt.seed), "--max-tokens",
                                         std::to_string(prompt.max_tokens), "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    alone.push_back(result_in(run.out));
  }
  for (const char* parallel : {"1", "4", "16"}) {
    const ProgramRun run = run_generate({"--prompts", file, "--parallel", parallel, "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const std::vector<std::string> lines = lines_in(run.out);
    ASSERT_EQ(lines.size(), prompts.size()) << parallel;
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(result_in(lines[i]), alone[i]) << parallel << " at a time, prompt " << i;
      EXPECT_EQ(json_at(lines[i], "line"), std::to_string(i + 1));
    }
  }
}

TEST(GeneratePrompts, WithoutASeedOfTheirOwnUseThatOfTheFlag) {
  const TempFolder folder;
  const std::string file = folder.write("prompts.txt", "It was\nIt was\n");
  const ProgramRun run = run_generate({"--prompts", file, "--seed", "9", "--max-tokens", "8", "--json"});
  const ProgramRun alone = run_generate({"--prompt", "It was", "--seed", "9", "--max-tokens", "8", "--json"});
  ASSERT_EQ(lines_in(run.out).size(), 2U) << run.err;
  for (const std::string& line : lines_in(run.out)) EXPECT_EQ(result_in(line), result_in(alone.out));
  EXPECT_THAT(run.err, HasSubstr("2 prompts, 16 tokens"));
  EXPECT_THAT(run.err, HasSubstr("seed 9"));
}

TEST(GeneratePrompts, KeepToTheFlagsOfOnePrompt) {
  const TempFolder folder;
  const std::string file = folder.write("prompts.txt", "It was\nShe said\nThe morning\n");
  const std::vector<std::vector<std::string>> kFlags = {{"--no-kv-cache"},
                                                        {"--kv-cache-dtype", "f16"},
                                                        {"--kv-cache-capacity", "40"},
                                                        {"--param-budget", "10%"},
                                                        {"--stop", "e"},
                                                        {"--ignore-eos", "--repetition-penalty", "1.5"},
                                                        {"--threads", "1"}};
  for (const std::vector<std::string>& flags : kFlags) {
    std::vector<std::string> many = {"--prompts", file, "--json", "--max-tokens", "20"};
    many.insert(many.end(), flags.begin(), flags.end());
    const ProgramRun run = run_generate(many);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const std::vector<std::string> lines = lines_in(run.out);
    ASSERT_EQ(lines.size(), 3U) << flags[0];
    std::vector<std::string> one = {"--prompt", "She said", "--json", "--max-tokens", "20"};
    one.insert(one.end(), flags.begin(), flags.end());
    EXPECT_EQ(result_in(lines[1]), result_in(run_generate(one).out)) << flags[0];
  }
}

TEST(GeneratePrompts, AreReadableWithoutJson) {
  const TempFolder folder;
  const std::string file = folder.write("prompts.txt", "It was\r\nShe said");
  const ProgramRun run = run_generate({"--prompts", file, "--greedy", "--max-tokens", "4"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto text_after = [](const std::string& prompt) {
    return run_generate({"--prompt", prompt, "--greedy", "--max-tokens", "4"}).out;
  };
  EXPECT_EQ(run.out, "[1] It was\n" + text_after("It was") + "\n[2] She said\n" + text_after("She said"));
  EXPECT_THAT(run.err, HasSubstr("2 prompts, 8 tokens"));
}

TEST(GeneratePrompts, AreJsonLinesWhereTheFirstLineNamesAPrompt) {
  ProgramSetting setting;
  setting.input =
      "{\"id\": \"a\\\"b\", \"prompt\": \"It was\", \"max_tokens\": 2}\n\n{\"tokens\": [41, 84, 305], \"id\": 7}\n";
  const ProgramRun run = run_generate({"--prompts", "-", "--greedy", "--max-tokens", "4", "--json"}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::vector<std::string> lines = lines_in(run.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(json_at(lines[0], "id"), R"("a\"b")");
  EXPECT_EQ(json_at(lines[0], "prompt_tokens"), "[41,84,305]");
  EXPECT_EQ(json_at(lines[0], "tokens"), "[259,388]");
  EXPECT_EQ(json_at(lines[1], "id"), "7");
  EXPECT_EQ(json_at(lines[1], "line"), "3");
  EXPECT_EQ(json_at(lines[1], "tokens"), "[259,388,565,13]");
  EXPECT_EQ(json_keys(lines[1], ""), (std::vector<std::string>{"model", "line", "id", "prompt_tokens", "tokens", "text",
                                                               "logprobs", "stop", "seed", "timings"}));
  setting.input = "{ braces alone are text }\n";
  EXPECT_EQ(lines_in(run_generate({"--prompts", "-", "--max-tokens", "1", "--json"}, setting).out).size(), 1U);
}

TEST(GeneratePrompts, OfTokensNeedNoTokenizer) {
  const TempFolder folder;
  const std::string model = test_file_path("gptrs/gpt_base/model.gptrs");
  const std::string file = folder.write("ids.jsonl", "{\"tokens\": [7]}\n");
  const ProgramRun run = run_generate({model, "--prompts", file, "--greedy", "--max-tokens", "3"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "[1] 7\n89 316 316 \n");
  const std::string words = folder.write("words.txt", "x\n");
  const ProgramRun without = run_generate({model, "--prompts", words});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("--tokenizer"));
}

// ---------------------------------------------------------------- failures

TEST(GeneratePrompts, OneThatFailsIsReportedAndTheOthersGoOn) {
  const TempFolder folder;
  const std::string file = folder.write("prompts.txt", "It was\n" + std::string(100'000, 'a') + "\nShe said\n");
  const ProgramRun json = run_generate({"--prompts", file, "--greedy", "--max-tokens", "4", "--json"});
  EXPECT_EQ(json.exit_code, 2);
  EXPECT_THAT(json.err, AllOf(HasSubstr("prompts.txt: line 2: the prompt has "), HasSubstr("context 256"),
                              HasSubstr("--context-shift"), HasSubstr("1 failed")));
  const std::vector<std::string> lines = lines_in(json.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(json_at(lines[0], "stop"), "\"max_tokens\"");
  EXPECT_EQ(json_keys(lines[1], ""), (std::vector<std::string>{"model", "line", "error"}));
  EXPECT_EQ(json_at(lines[1], "error/code"), "\"invalid_argument\"");
  EXPECT_EQ(result_in(lines[2]),
            result_in(run_generate({"--prompt", "She said", "--greedy", "--max-tokens", "4", "--json"}).out));
  const ProgramRun text = run_generate({"--prompts", file, "--greedy", "--max-tokens", "4"});
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_THAT(text.out, AllOf(HasSubstr("[1] It was\n"), HasSubstr("[3] She said\n"), Not(HasSubstr("[2]"))));
}

TEST(GeneratePrompts, TooLongForTheCacheThatWasAskedForFailAlone) {
  const TempFolder folder;
  const std::string file = folder.write("prompts.txt", "It was\nIt was a fine morning in the village of Highbury\n");
  const ProgramRun run = run_generate({"--prompts", file, "--max-tokens", "4", "--kv-cache-capacity", "8", "--json"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("line 2: a KV cache of 8 positions is too small"));
  EXPECT_EQ(json_at(lines_in(run.out).front(), "stop"), "\"max_tokens\"");
}

TEST(GeneratePrompts, FilesThatAreWrongAreRefusedBeforeAnythingRuns) {
  const TempFolder folder;
  const std::pair<std::string, std::string> kCases[] = {
      {"", "prompts.txt: no prompts; write one per line"},
      {"\xEF\xBB\xBF", "no prompts"},
      {"It was\n\nShe said\n", "prompts.txt: line 2 is blank; delete it"},
      {"It was\n \t\r\n", "line 2 is blank"},
      {"{\"prompt\": \"a\"}\n{\"prompt\": 5}\n", "prompts.txt: line 2: byte"},
      {"{\"prompt\": \"a\"}\nnot JSON\n", "line 2: byte"},
      {"{\"prompt\": \"a\", \"top_k\": 5}\n",
       "there is no key \"top_k\"; there are: prompt, tokens, id, max_tokens, seed"},
      {"{\"prompt\": \"a\", \"tokens\": [1]}\n", "\"prompt\" or \"tokens\", and not both"},
      {"{\"prompt\": \"a\"}\n{\"id\": 3}\n", "line 2: byte 9: an object needs \"prompt\" or \"tokens\""},
      {"{\"tokens\": []}\n", "\"tokens\" is empty"},
      {"{\"tokens\": [4294967296]}\n", "4294967296 is no token"},
      {"{\"prompt\": \"a\", \"prompt\": \"b\"}\n", "\"prompt\" is given twice"},
      {"{\"prompt\": \"a\", \"id\": [1]}\n", "\"id\" must be a string or a number"},
      {"{\"prompt\": \"a\", \"seed\": -1}\n", "line 1: byte"},
  };
  for (const auto& [contents, cause] : kCases) {
    const ProgramRun run = run_generate({"--prompts", folder.write("prompts.txt", contents)});
    EXPECT_EQ(run.exit_code, 2) << contents;
    EXPECT_EQ(run.out, "") << contents;
    EXPECT_THAT(run.err, HasSubstr(cause)) << contents;
  }
  const ProgramRun missing = run_generate({"--prompts", folder.path("none.txt"), "--json"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("none.txt"));
  EXPECT_EQ(json_at(missing.out, "error/code"), "\"not_found\"");
}

TEST(GeneratePrompts, FlagsThatMakeNoSenseAreNamed) {
  const TempFolder folder;
  const std::string file = folder.write("prompts.txt", "It was\n");
  const std::pair<std::vector<std::string>, std::string> kCases[] = {
      {{"--prompts", file, "--parallel", "0"}, "--parallel: 0 is not between 1 and 1024"},
      {{"--prompts", file, "--prompt", "x"}, "--prompt, --prompts and --tokens cannot be combined"},
      {{"--prompts", file, "--tokens", "1"}, "cannot be combined"},
      {{"--prompt", "x", "--parallel", "4"}, "--parallel needs --prompts"},
  };
  for (const auto& [arguments, cause] : kCases) {
    const ProgramRun run = run_generate(arguments);
    EXPECT_EQ(run.exit_code, 2) << cause;
    EXPECT_EQ(run.out, "") << cause;
    EXPECT_THAT(run.err, HasSubstr(cause));
  }
}

// ---------------------------------------------------------------- ends before the end

// The second prompt never ends by itself.
TEST(GeneratePrompts, CtrlCEndsWithTheTextsThatAreDone) {
  const TempFolder folder;
  const std::string file = folder.write("prompts.jsonl",
                                        "{\"prompt\": \"It was\", \"max_tokens\": 2}\n"
                                        "{\"prompt\": \"The\", \"max_tokens\": 1000000}\n"
                                        "{\"prompt\": \"She said\", \"max_tokens\": 3}\n");
  ProgramSetting setting;
  setting.watch = [sent = false](pid_t process, const std::string& out) mutable {
    if (sent || out.empty()) return;
    // The third is done two passes after the first at the latest.
    ::usleep(300'000);
    ::kill(process, SIGINT);
    sent = true;
  };
  const ProgramRun run = run_generate(
      {"--prompts", file, "--greedy", "--ignore-eos", "--context-shift", "--parallel", "3", "--json"}, setting);
  EXPECT_EQ(run.exit_code, 130) << "signal " << run.signal;
  const std::vector<std::string> lines = lines_in(run.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(json_at(lines[0], "line"), "1");
  EXPECT_EQ(json_at(lines[1], "line"), "3");
  EXPECT_THAT(run.err, HasSubstr("interrupted: 2 of 3 prompts"));
}

TEST(GeneratePrompts, EndWhenNobodyReadsAnyMore) {
  const TempFolder folder;
  const std::string file = folder.write("prompts.jsonl",
                                        "{\"prompt\": \"It was\", \"max_tokens\": 2}\n"
                                        "{\"prompt\": \"The\", \"max_tokens\": 8}\n"
                                        "{\"prompt\": \"She said\", \"max_tokens\": 1000000000}\n");
  const std::string script = fmt::format(
      "'{}' generate --prompts '{}' --parallel 1 --ignore-eos --context-shift | head -c 5", program_path(), file);
  const ProgramRun run = run_program({"/bin/bash", "-c", "set -o pipefail; " + script});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "[1] I");
  EXPECT_THAT(run.err, HasSubstr("reader_gone"));
}

TEST(GeneratePrompts, ShowHowFarTheyAreOnATerminal) {
  const TempFolder folder;
  std::string prompts;
  for (int i = 0; i < 40; ++i) prompts += fmt::format("It was {}\n", i);
  const std::string file = folder.write("prompts.txt", prompts);
  ProgramSetting setting;
  setting.terminal = true;
  setting.columns = 100;
  setting.environment = {{"TERM", "xterm"}, {"NO_COLOR", "1"}, {"COLUMNS", ""}};
  const std::vector<std::string> arguments = {"--prompts",    file, "--parallel", "2",         "--backend", "reference",
                                              "--max-tokens", "8",  "--greedy",   "--threads", "1"};
  const ProgramRun run = run_generate(arguments, setting);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, AllOf(HasSubstr("generating"), HasSubstr(" of 40 prompts")));
  EXPECT_THAT(run.out, HasSubstr("[40] It was 39"));
}

}  // namespace
}  // namespace ballast::testing
