#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string model(const std::string& name) { return test_file_path("gptrs/" + name + "/model.gptrs"); }

ProgramRun generate(std::vector<std::string> arguments, const ProgramSetting& setting = {}) {
  arguments.insert(arguments.begin(), "generate");
  return run_ballast(arguments, setting);
}

ProgramRun greedy_base(std::vector<std::string> more) {
  std::vector<std::string> arguments = {model("gpt_base"), "--tokenizer", gptrs_tokenizer_path(), "--greedy"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return generate(arguments);
}

TEST(Generate, WritesEnglishWithoutAModelNamed) {
  const ProgramRun run = generate({"--prompt", "It is a truth", "--max-tokens", "30", "--seed", "1"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, EndsWith("\n"));
  EXPECT_GT(run.out.size(), 40U);
  EXPECT_THAT(run.err, AllOf(HasSubstr("prompt"), HasSubstr("tokens/s"), HasSubstr("max_tokens")));
  EXPECT_EQ(generate({"--prompt", "It is a truth", "--max-tokens", "30", "--seed", "1", "--threads", "1"}).out,
            run.out);
  EXPECT_NE(generate({"--prompt", "It is a truth", "--max-tokens", "30", "--seed", "2"}).out, run.out);
}

TEST(Generate, BeginsATextOfItsOwnWithoutAPrompt) {
  const ProgramRun run = generate({"--max-tokens", "5", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "prompt_tokens/1"), "");  // the mark that begins a text, and nothing else
}

TEST(Generate, JsonTellsTokensTextAndTimes) {
  const ProgramRun run = generate({model("gpt_base"), "--tokens", "7", "--greedy", "--max-tokens", "3", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "prompt_tokens"), "[7]");
  EXPECT_EQ(json_at(run.out, "tokens"), "[89,316,316]");
  EXPECT_EQ(json_at(run.out, "stop"), "\"max_tokens\"");
  EXPECT_EQ(json_keys(run.out, ""), (std::vector<std::string>{"model", "prompt_tokens", "tokens", "text", "logprobs",
                                                              "stop", "seed", "timings"}));
  EXPECT_EQ(json_keys(run.out, "timings"), (std::vector<std::string>{"load_ms", "prefill_ms", "decode_ms",
                                                                     "prefill_tokens_per_s", "decode_tokens_per_s"}));
  EXPECT_THAT(json_at(run.out, "logprobs/2"), StartsWith("-"));
}

TEST(Generate, TheSpeedLeavesWarmupTokensOut) {
  const auto timing = [](const std::string& warmup, const std::string& field) {
    const ProgramRun run = generate(
        {model("gpt_base"), "--tokens", "7", "--greedy", "--max-tokens", "3", "--warmup-tokens", warmup, "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(json_at(run.out, "tokens"), "[89,316,316]");
    return std::stod(json_at(run.out, "timings/" + field));
  };
  EXPECT_GT(timing("2", "decode_ms"), 0);
  EXPECT_GT(timing("2", "decode_tokens_per_s"), 0);
  EXPECT_EQ(timing("3", "decode_ms"), 0) << "all of them";
  EXPECT_EQ(timing("9", "decode_tokens_per_s"), 0);
}

TEST(Generate, TheCacheIsAskedForOrSwitchedOff) {
  const std::vector<std::string> common = {model("gpt_base"), "--tokens", "7", "--greedy", "--max-tokens", "3"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return generate(more);
  };
  EXPECT_EQ(with({"--kv-cache"}).out, with({}).out);
  EXPECT_EQ(with({"--kv-cache", "--no-kv-cache"}).exit_code, 2);
}

TEST(Generate, PrintsNumbersWhereThereIsNoTokenizer) {
  const ProgramRun run = generate({model("gpt_base"), "--tokens", "7", "--greedy", "--max-tokens", "3"});
  EXPECT_EQ(run.out, "89 316 316 \n");
}

TEST(Generate, TheSameTokensWithoutACacheAndInATenthOfTheMemory) {
  const std::vector<std::string> plain = {model("gpt_wide"), "--tokens", "10,20,30,40", "--greedy",
                                          "--max-tokens",    "24",       "--json"};
  const std::string tokens = json_at(generate(plain).out, "tokens");
  EXPECT_THAT(tokens, StartsWith("[312,244,103,60,35"));
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{"--no-kv-cache"},
                                                                                    {"--kv-cache-capacity", "64"},
                                                                                    {"--param-budget", "10%"},
                                                                                    {"--param-budget", "0.25"},
                                                                                    {"--param-budget", "100KiB"},
                                                                                    {"--backend", "reference"},
                                                                                    {"--threads", "7"}}) {
    std::vector<std::string> arguments = plain;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramRun run = generate(arguments);
    EXPECT_EQ(json_at(run.out, "tokens"), tokens) << more[0] << run.err;
  }
}

TEST(Generate, StatsTellThePeakAndThatItIsWithinTheBudget) {
  const ProgramRun run = generate(
      {model("gpt_wide"), "--tokens", "1", "--greedy", "--max-tokens", "4", "--param-budget", "100KiB", "--stats"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("budget of 100 KiB"), HasSubstr("evictions"), HasSubstr("waits")));
  EXPECT_THAT(generate({model("gpt_wide"), "--tokens", "1", "--max-tokens", "2", "--stats"}).err,
              HasSubstr("no budget"));
}

// A GPT of 139 MiB, all zeros.
std::string write_large_model(const TempFolder& folder) {
  constexpr uint64_t kVocabulary = 20'000, kWidth = 512, kContext = 64;
  WritePlan plan;
  plan.description.config = ModelConfig{
      "gptrs", fmt::format(R"({{"kind":"gpt","config":{{"vocab_size":{},"context_length":{},"embed_dim":{},)"
                           R"("num_layers":5,"num_heads":8,"mlp_ratio":4,"dropout":0.0}}}})",
                           kVocabulary, kContext, kWidth)};
  const auto add = [&](std::string name, Shape shape) {
    TensorInfo info = make_info(std::move(name), DType::kF32, std::move(shape));
    const uint64_t size = info.byte_size;
    plan.add_tensor(std::move(info), [size](ByteSink& sink) { return sink.write_zeros(size); });
  };
  add("tok_embeddings.weight", {kVocabulary, kWidth});
  add("pos_embeddings", {kContext, kWidth});
  add("lm_head", {kWidth, kVocabulary});
  for (const char* name : {"final_ln.gamma", "final_ln.beta"}) add(name, {kWidth});
  for (int i = 0; i < 5; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    add(block + "attention.w_qkv", {kWidth, 3 * kWidth});
    add(block + "attention.b_qkv", {3 * kWidth});
    add(block + "attention.w_out", {kWidth, kWidth});
    add(block + "feed_forward.w_in", {kWidth, 4 * kWidth});
    add(block + "feed_forward.b_in", {4 * kWidth});
    add(block + "feed_forward.w_out", {4 * kWidth, kWidth});
    for (const char* name :
         {"attention.b_out", "feed_forward.b_out", "ln_1.gamma", "ln_1.beta", "ln_2.gamma", "ln_2.beta"})
      add(block + name, {kWidth});
  }
  const std::string path = folder.path("large.gptrs");
  WriteSettings settings;
  settings.commit.sync = false;
  const auto report = write_archive(path, *find_format("gptrs-checkpoint"), plan, settings);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return path;
}

// The most memory that the process held so far.
uint64_t peak_kib(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6));
  }
  return 0;
}

#ifdef __linux__
TEST(Generate, TheWholeProcessStaysNearTheBudget) {
  const TempFolder folder;
  const std::string model_path = write_large_model(folder);
  uint64_t peak = 0;
  ProgramSetting setting;
  setting.watch = [&peak](pid_t process, const std::string&) { peak = std::max(peak, peak_kib(process)); };
  const ProgramRun run = generate(
      {model_path, "--tokens", "1,2", "--greedy", "--max-tokens", "4", "--param-budget", "16MiB", "--stats"}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "0 0 0 0 \n");
  EXPECT_THAT(run.err, HasSubstr("of a budget of 16 MiB"));
  EXPECT_GT(peak, 0U);
  // The program, its libraries and activations beside the budget; the model would be 139 MiB.
  EXPECT_LT(peak, (16 + 32) * 1024U);
}
#endif

TEST(Generate, ABudgetThatIsTooSmallNamesWhatWouldDo) {
  const ProgramRun run = generate({model("gpt_wide"), "--tokens", "1", "--param-budget", "100"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("the smallest budget that works is 3584 bytes"));
  EXPECT_THAT(generate({model("gpt_wide"), "--tokens", "1", "--param-budget", "much"}).err, HasSubstr("64MiB"));
}

TEST(Generate, BudgetsMayBeSpelledAsOtherSizesAre) {
  for (const char* budget : {"100KiB", "100kib", "0.1MiB", "102400", "100kB"}) {
    EXPECT_EQ(generate({model("gpt_wide"), "--tokens", "1", "--max-tokens", "1", "--param-budget", budget}).exit_code,
              0)
        << budget;
  }
  for (const char* budget : {"1e30GiB", "-5", "nan", "110%", "5miles", "64x"}) {
    const ProgramRun run = generate({model("gpt_wide"), "--tokens", "1", "--param-budget", budget});
    EXPECT_EQ(run.exit_code, 2) << budget;
    EXPECT_THAT(run.err, HasSubstr("a size such as 64MiB"));
  }
}

TEST(Generate, RefusesNumbersThatAreNone) {
  const std::pair<const char*, const char*> kCases[] = {
      {"--max-tokens=-1", "-1 is below 0"},
      {"--seed=-1", "-1 is below 0"},
      {"--top-k=1.5", "\"1.5\" is not a whole number"},
      {"--threads=0", "0 is not between 1 and 1024"},
      {"--kv-cache-capacity=0", "0 is below 1"},
      {"--temperature=nan", "\"nan\" is not a number"},
      {"--temperature=-1", "-1 is below 0"},
      {"--seed=dice", "\"dice\" is not a whole number"},
      {"--top-p=2", "above 0 and at most 1"},
      {"--min-p=-0.5", "-0.5 is below 0"},
      {"--repetition-penalty=0", "repetition penalty is 0: it must be"},
      {"--kv-cache-dtype=f61", "f16"},
      {"--tokens=1,", "\"\" is not a token id"},
      {"--tokens=4294967296", "is not a token id"},
  };
  for (const auto& [flag, cause] : kCases) {
    const ProgramRun run = generate({model("gpt_micro"), "--tokens", "1", flag});
    EXPECT_EQ(run.exit_code, 2) << flag;
    EXPECT_EQ(run.out, "") << flag;
    EXPECT_THAT(run.err, HasSubstr(cause)) << flag;
  }
}

TEST(Generate, TakesTokensAsPeopleWriteThem) {
  EXPECT_EQ(json_at(generate({model("gpt_micro"), "--tokens", "1, 2 ,3", "--json"}).out, "prompt_tokens"), "[1,2,3]");
}

TEST(Generate, EndsWhenNobodyReadsAnyMore) {
  // Without an end of its own it would run into the test's time limit.
  const std::string script =
      fmt::format("'{}' generate --max-tokens 1000000000 --ignore-eos --context-shift | head -c 20", program_path());
  const ProgramRun run = run_program({"/bin/bash", "-c", "set -o pipefail; " + script});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out.size(), 20U);
  EXPECT_THAT(run.err, HasSubstr("reader_gone"));
}

TEST(Generate, NamesTensorsOfTheFileThatTheModelDoesNotUse) {
  const ProgramRun run =
      generate({test_file_path("gptrs/variants/extra_i32.gptrs"), "--tokens", "1", "--max-tokens", "1"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.err, HasSubstr("3 tensors of the file are not used by the gpt model: "));
  EXPECT_THAT(generate({model("gpt_micro"), "--tokens", "1", "--max-tokens", "1"}).err, Not(HasSubstr("no part")));
}

TEST(Generate, WithAHalfPrecisionCacheWritesToo) {
  const ProgramRun run = generate({model("gpt_wide"), "--tokens", "10,20,30,40", "--greedy", "--max-tokens", "4",
                                   "--kv-cache-dtype", "f16", "--json"});
  EXPECT_EQ(json_at(run.out, "tokens"), "[312,244,103,60]") << run.err;
}

TEST(Generate, EndsAtAStopString) {
  const ProgramRun whole = greedy_base({"--prompt", " the mill", "--max-tokens", "12"});
  EXPECT_THAT(whole.out, StartsWith("HeHe mo mo mo"));
  const ProgramRun run = greedy_base({"--prompt", " the mill", "--max-tokens", "12", "--stop", "He mo m", "--json"});
  EXPECT_EQ(json_at(run.out, "text"), "\"He\"");
  EXPECT_EQ(json_at(run.out, "stop"), "\"stop_text\"");
}

TEST(Generate, ReadsThePromptFromStandardInput) {
  const std::string script =
      fmt::format("printf ' the mill' | '{}' generate '{}' --tokenizer '{}' --greedy --max-tokens 4 --prompt -",
                  program_path(), model("gpt_base"), gptrs_tokenizer_path());
  const ProgramRun run = run_program({"/bin/sh", "-c", script});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "HeHe mo mo\n");
}

TEST(Generate, CtrlCEndsWithWhatWasSaidSoFar) {
  ProgramSetting setting;
  setting.watch = [sent = false](pid_t process, const std::string& out) mutable {
    if (sent || out.size() < 20) return;
    ::kill(process, SIGINT);
    sent = true;
  };
  const ProgramRun run = generate(
      {"--prompt", "The", "--max-tokens", "1000000", "--context-shift", "--ignore-eos", "--backend", "reference"},
      setting);
  EXPECT_EQ(run.exit_code, 130) << "signal " << run.signal;
  EXPECT_GE(run.out.size(), 20U);
  EXPECT_THAT(run.out, EndsWith("\n"));
  EXPECT_THAT(run.err, HasSubstr("interrupted"));
}

TEST(Generate, NoModelRedrawsTheTerminal) {
  // Token 0, which this model always writes, is the escape character here.
  const TempFolder folder;
  const std::string tokenizer =
      folder.write("tokenizer.json", R"({"vocab":{"\u011b":0,"!":1},"merges":[],"unk_token":"!"})");
  const std::vector<std::string> arguments = {model("gpt_micro"), "--tokens",     "1", "--tokenizer", tokenizer,
                                              "--greedy",         "--max-tokens", "2"};
  EXPECT_EQ(generate(arguments).out, "\x1b\x1b\n");  // a pipe gets what was said
  ProgramSetting terminal;
  terminal.terminal = true;
  terminal.environment = {{"NO_COLOR", "1"}};
  EXPECT_THAT(generate(arguments, terminal).out, AllOf(HasSubstr("\\x1b\\x1b"), Not(HasSubstr("\x1b"))));
}

// Token 55 stands more than 64 tokens back in this prompt, and is the likeliest one where that is out of sight.
TEST(Generate, APenaltyOfTheModelSeesTheWholeContextAndThatOfTheFlagTheLast64Tokens) {
  const TempFolder folder;
  std::filesystem::copy(test_file_path("hf/llama_plain"), folder.path("model"));
  std::string prompt;
  for (int id = 0; id < 60; ++id) prompt += fmt::format("{},", id);
  for (int i = 0; i < 65; ++i) prompt += i == 0 ? "7" : ",7";
  const auto chosen = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {folder.path("model"), "--tokens", prompt, "--max-tokens", "1", "--json"});
    return json_at(generate(more).out, "tokens/0");
  };
  EXPECT_EQ(chosen({"--greedy", "--repetition-penalty", "1000"}), "55");
  folder.write("model/generation_config.json", R"({"do_sample": false, "repetition_penalty": 1000.0})");
  EXPECT_NE(chosen({}), "55");
  EXPECT_EQ(chosen({"--repetition-penalty", "1000"}), "55");
}

TEST(Generate, SaysHowToGiveATokenizerWhereThereIsNone) {
  const ProgramRun run = generate({model("gpt_micro"), "--prompt", "x"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("--tokenizer"), HasSubstr("--tokens")));
}

TEST(Generate, WritesATimelineThatChromeReads) {
  const TempFolder folder;
  const std::string path = folder.path("profile.json");
  const ProgramRun run =
      generate({model("gpt_micro"), "--tokens", "1,2", "--greedy", "--max-tokens", "2", "--profile", path});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string profile = read_text_file(path);
  EXPECT_EQ(json_at(profile, "traceEvents/0/ph"), "\"X\"");
  EXPECT_EQ(json_at(profile, "traceEvents/0/name"), "\"tok_embeddings\"");
  EXPECT_EQ(json_at(profile, "traceEvents/0/args/implementation"), "\"embedding_lookup_weight_indices\"");
  const ProgramRun nowhere =
      generate({model("gpt_micro"), "--tokens", "1", "--profile", folder.path("none/profile.json")});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_EQ(nowhere.out, "");  // told before anything runs
}

TEST(Generate, OverridesAreCheckedBeforeAnythingRuns) {
  const ProgramRun run = generate({model("gpt_micro"), "--tokens", "1", "--override", "gellu=benchmark"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("did you mean \"gelu\""));
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(generate({model("gpt_micro"), "--tokens", "1", "--override", "gelu=force=fast"}).err,
              HasSubstr("no implementation \"fast\""));
  const ProgramRun chosen = generate({model("gpt_micro"), "--tokens", "1", "--greedy", "--max-tokens", "2",
                                      "--override", "gelu=benchmark", "--stats"});
  EXPECT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_THAT(chosen.err, HasSubstr("gelu_x"));
}

// ---------------------------------------------------------------- what gpt.rs's program did, by its meaning

// Two of its tokens are bytes that no character begins with: gpt.rs leaves them out, here they show as U+FFFD.
constexpr const char* kAfterHello = "He\xEF\xBF\xBD\xEF\xBF\xBD'llHe\n";

TEST(GenerateLikeGptRs, WritesTheSameText) {
  EXPECT_EQ(greedy_base({"--prompt", "Hello", "--max-tokens", "5"}).out, kAfterHello);
  EXPECT_EQ(greedy_base({"--prompt", "Hello", "--max-tokens", "1"}).out, "He\n");
  EXPECT_EQ(greedy_base({"--prompt", "Hello", "--max-tokens", "0"}).out, "\n");
  EXPECT_EQ(greedy_base({"--prompt", "Hello", "--max-tokens", "5", "--top-k", "0"}).out, kAfterHello);
  EXPECT_EQ(greedy_base({"--prompt", "Hello", "--max-tokens", "5", "--top-k", "1"}).out, kAfterHello);
}

TEST(GenerateLikeGptRs, RefusesCachesThatDoNotFit) {
  for (const char* capacity : {"49", "3", "0"}) {
    const ProgramRun run = greedy_base({"--prompt", "Hello", "--max-tokens", "5", "--kv-cache-capacity", capacity});
    EXPECT_EQ(run.exit_code, 2) << capacity;
    EXPECT_THAT(run.err, HasSubstr(capacity));
    EXPECT_EQ(run.out, "");
  }
}

TEST(GenerateLikeGptRs, RefusesFilesAndTokensThatAreWrong) {
  EXPECT_EQ(generate({"nope.bin", "--tokens", "1"}).exit_code, 2);
  EXPECT_EQ(generate({gptrs_tokenizer_path(), "--tokens", "1"}).exit_code, 2);
  EXPECT_EQ(greedy_base({"--tokenizer", "nope.json"}).exit_code, 2);  // twice
  EXPECT_EQ(generate({model("gpt_base"), "--tokenizer", "nope.json", "--prompt", "x"}).exit_code, 2);
  const ProgramRun outside = generate({model("gpt_micro"), "--tokenizer", gptrs_tokenizer_path(), "--greedy",
                                       "--max-tokens", "3", "--prompt", "Hello"});
  EXPECT_EQ(outside.exit_code, 2);
  EXPECT_THAT(outside.err, AllOf(HasSubstr("token 316 at position 0"), HasSubstr("19")));
}

TEST(GenerateLikeGptRs, GoesPastTheContextWhereItMay) {
  const std::vector<std::string> arguments = {
      model("gpt_micro"), "--tokenizer", gptrs_tokenizer_path(), "--greedy", "--max-tokens", "30", "--prompt", "!"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return generate(more);
  };
  std::string expected;
  for (int i = 0; i < 30; ++i) expected += "<|endoftext|>";
  EXPECT_EQ(with({"--ignore-eos", "--context-shift"}).out, expected + "\n");
  const ProgramRun full = with({"--ignore-eos"});
  EXPECT_EQ(full.exit_code, 0);
  EXPECT_THAT(full.err, HasSubstr("context_full"));
  EXPECT_EQ(with({}).out, "\n");  // the first token ends the text
}

TEST(Generate, OneNewlineAtTheEndOfAPipedPromptIsNoPartOfIt) {
  const auto prompt_of = [](const std::string& input) {
    ProgramSetting setting;
    setting.input = input;
    const ProgramRun run =
        run_ballast({"generate", "--prompt", "-", "--max-tokens", "1", "--greedy", "--json"}, setting);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return json_at(run.out, "prompt_tokens");
  };
  const std::string plain = prompt_of("It was");
  EXPECT_EQ(prompt_of("It was\n"), plain);
  EXPECT_EQ(prompt_of("It was\r\n"), plain);
  EXPECT_NE(prompt_of("It was\n\n"), plain);
}

TEST(Generate, ARandomSeedIsToldAndGivesTheSameTextAgain) {
  const std::vector<std::string> common = {"--prompt", "It was", "--max-tokens", "12", "--json", "--seed"};
  const auto with_seed = [&](const std::string& seed) {
    std::vector<std::string> arguments = common;
    arguments.push_back(seed);
    return generate(arguments);
  };
  const ProgramRun first = with_seed("random"), second = with_seed("random");
  const std::string seed = json_at(first.out, "seed");
  EXPECT_NE(seed, json_at(second.out, "seed"));
  EXPECT_EQ(json_at(with_seed(seed).out, "tokens"), json_at(first.out, "tokens"));
  const ProgramRun shown = generate({"--prompt", "It was", "--max-tokens", "2", "--seed", seed});
  EXPECT_THAT(shown.err, HasSubstr("seed " + seed));
  EXPECT_EQ(json_at(generate({"--prompt", "It was", "--max-tokens", "2", "--greedy", "--json"}).out, "seed"), "null");
}

TEST(Generate, ALongPromptShowsHowFarItIs) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.columns = 100;
  setting.environment = {{"TERM", "xterm"}, {"NO_COLOR", "1"}, {"COLUMNS", ""}};
  std::string prompt;
  for (int i = 0; i < 100; ++i) prompt += "It was a fine morning. ";
  const std::vector<std::string> arguments = {"generate", "--prompt", prompt, "--max-tokens", "1", "--context-shift"};
  const ProgramRun run = run_ballast(arguments, setting);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("reading the prompt"));
  EXPECT_THAT(run.out, HasSubstr(" tokens"));
  std::vector<std::string> quiet = arguments;
  quiet.emplace_back("-q");
  EXPECT_EQ(run_ballast(quiet, setting).out.find("reading the prompt"), std::string::npos);
}

}  // namespace
}  // namespace ballast::testing
