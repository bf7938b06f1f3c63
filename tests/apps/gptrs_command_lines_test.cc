// What gpt.rs's command does with 47 command lines was recorded; each has its row here, by its meaning and not by its
// wording. Where Ballast does something else, the row says what.
#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

using Arguments = std::vector<std::string>;

struct CommandLine {
  int recorded;  // its number among the recorded ones
  Arguments arguments;
  int exit_code;
  std::string says;  // somewhere in what it prints
};

const std::string kMicro = recorded_model_path("gpt_micro");
const std::string kArchive = test_file_path("gptrs/archives/mixed.gptrsten");
// Bytes that are no character: gpt.rs leaves them out, here they show.
const std::string kHello = "He\xEF\xBF\xBD\xEF\xBF\xBD'llHe\n";

void expect_all(const std::vector<CommandLine>& lines) {
  for (const CommandLine& line : lines) {
    const ProgramRun run = run_ballast(line.arguments);
    EXPECT_EQ(run.exit_code, line.exit_code) << "case " << line.recorded << run.err;
    EXPECT_THAT(run.out + run.err, HasSubstr(line.says)) << "case " << line.recorded;
  }
}

Arguments forward_micro(const Arguments& more) {
  Arguments all = {"forward", kMicro};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// gpt.rs's default prompt is "Hello"; without a prompt Ballast begins a text of its own.
Arguments greedy(const Arguments& more) {
  Arguments all = {
      "generate", recorded_model_path("gpt_base"), "--tokenizer", gptrs_tokenizer_path(), "--greedy", "--prompt",
      "Hello"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(GptRsCommandLines, OfForward) {
  expect_all({
      {1, forward_micro({"--tokens", "1", "--backend", "cpu"}), 0,
       "2.148606"},  // no backend there, the default one here
      {2, forward_micro({"--tokens", "1", "--backend", "ref-cpu"}), 2, "there are: cpu, cuda, opencl, reference"},
      {3, forward_micro({"--tokens", "1", "--backend", " cpu "}), 0, "2.148606"},
      {4, forward_micro({"--tokens", "1,19"}), 2, "token 19 at position 1"},
      {5, forward_micro({"--tokens", "0,1,2,3,4,5,6,7,8,9,10,11,12"}), 2, "context of 12"},
      {6, forward_micro({}), 2, "--tokens"},
      {7, forward_micro({"--tokens", "1", "--text", "x"}), 2, "cannot be combined"},
      {8, forward_micro({"--tokens", "1", "--tokenizer", gptrs_tokenizer_path()}), 2, "--tokenizer needs --text"},
      {9, forward_micro({"--text", "x"}), 2, "--tokenizer"},
      {10, forward_micro({"--text", "", "--tokenizer", gptrs_tokenizer_path()}), 2, "--tokenizer"},
      {11, forward_micro({"--tokens", ""}), 2, "is not a token id"},
      {12, forward_micro({"--tokens", "-1"}), 2, "is not a token id"},
      {13, forward_micro({"--tokens", "1,,2"}), 2, "is not a token id"},
      {14, forward_micro({"--tokens", "1", "--tokens", "2,3"}), 0, "output [3, 19]"},
      {15, forward_micro({"--tokens", "1", "--input", kArchive}), 2, "cannot be combined"},
      {16, forward_micro({"--tokens", "1", "--seed", "5", "--batch", "9"}), 0, "2.148606"},
  });
}

TEST(GptRsCommandLines, OfGenerate) {
  const std::string base = recorded_model_path("gpt_base");
  expect_all({
      {17, greedy({"--max-tokens", "5"}), 0, kHello},
      {18, greedy({"--max-tokens", "0"}), 0, "0 tokens"},
      {19, greedy({"--max-tokens", "5", "--warmup-tokens", "9"}), 0, kHello},
      {20, greedy({"--max-tokens", "5", "--kv-cache"}), 0, kHello},
      {21, greedy({"--max-tokens", "5", "--kv-cache", "false"}), 2, "false"},  // refused there as well
      {22, greedy({"--max-tokens", "5", "--kv-cache-capacity", "49"}), 2, "context of 48"},
      {23, greedy({"--max-tokens", "5", "--kv-cache-capacity", "3"}), 2, "too small"},
      {24, greedy({"--max-tokens", "5", "--kv-cache-capacity", "0"}), 2, "0 is below 1"},
      // An empty prompt is an error only where the tokenizer has no mark to begin a text with; this one has it.
      {25,
       {"generate", base, "--tokenizer", gptrs_tokenizer_path(), "--prompt", "", "--max-tokens", "1"},
       0,
       "prompt 1 token"},
      {26, greedy({"--max-tokens", "5", "--top-k", "0"}), 0, kHello},
      {27, greedy({"--max-tokens", "5", "--top-k", "1", "--temperature", "9"}), 0, kHello},
      // gpt.rs takes a negative temperature for greedy; here it is an error.
      {28, greedy({"--max-tokens", "5", "--temperature", "-1"}), 2, "-1 is below 0"},
      {29, greedy({"--max-tokens", "5", "--temperature=-1"}), 2, "-1 is below 0"},
      {30, greedy({"--max-tokens", "5", "--tokenizer", "nope.json"}), 2, "--tokenizer"},
      {31, {"generate", "nope.bin"}, 2, "nope.bin"},
      {32, {"generate", gptrs_tokenizer_path()}, 2, "not a weight file"},
      {33,
       {"generate", kMicro, "--tokenizer", gptrs_tokenizer_path(), "--prompt", "Hello"},
       2,
       "token 316 at position 0"},
      // It always slides and knows no end of text; both must be asked for here.
      {34,
       {"generate", kMicro, "--tokenizer", gptrs_tokenizer_path(), "--greedy", "--max-tokens", "30", "--prompt", "!",
        "--context-shift", "--ignore-eos"},
       0,
       "30 tokens"},
  });
}

TEST(GptRsCommandLines, OfBenchmark) {
  const std::string base = recorded_model_path("gpt_base");
  const auto with_mode = [&](const std::string& mode) {
    return Arguments{"benchmark", base, "--prompt-tokens", "2", "--max-tokens", "5", "--rounds", "1", "--mode", mode};
  };
  expect_all({
      {35, with_mode("prefill"), 0, "prefill"},
      {36, with_mode("first-token"), 0, "first token"},
      {37, {"benchmark", base, "--max-tokens", "0"}, 2, "0 is not between 1"},  // the token before is not measured here
      {38, with_mode("decode-steady"), 0, "decode"},
      {39, {"benchmark", base, "--mode", "decode"}, 2, "decode-steady"},
  });
}

TEST(GptRsCommandLines, OfTheRest) {
  const TempFolder folder;
  expect_all({
      {0, {"--version"}, 0, "ballast"},
      {40, forward_micro({"--tokens", "1", "--profile", folder.path("profile.json")}), 0, "2.148606"},
      {41, forward_micro({"--tokens", "1", "--profile-timeline"}), 2, "no option"},  // --profile writes one
      {42, {"trace", kMicro, "--tokens", "1"}, 0, "logits"},  // its documents have it, its program not
      {43, {"ops"}, 0, "gelu"},                               // for `patterns`: there is no graph to match
      {44, {"ops", "--json"}, 0, "gpt_rs::ops::functional::activation::gelu"},
      {45, {"patterns", "--target", "x"}, 2, "no command"},
      {46, {"convert", "nope.json", "o.npz"}, 2, "nope.json"},
  });
}

}  // namespace
}  // namespace ballast::testing
