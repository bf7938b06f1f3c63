// Values and combinations of flags that mean nothing are refused, and not taken for something else.
#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

struct Refused {
  std::vector<std::string> arguments;
  std::string cause;
};

void expect_refused(const std::vector<Refused>& cases) {
  for (const auto& [arguments, cause] : cases) {
    const ProgramRun run = run_ballast(arguments);
    EXPECT_EQ(run.exit_code, 2) << ::testing::PrintToString(arguments);
    EXPECT_EQ(run.out, "") << ::testing::PrintToString(arguments);
    EXPECT_THAT(run.err, HasSubstr(cause)) << ::testing::PrintToString(arguments);
  }
}

const std::string kModel = recorded_model_path("gpt_micro");

TEST(FlagValues, AnEmptyOneIsNotADefault) {
  const std::vector<std::string> generate{"generate", kModel, "--tokens", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), generate.begin(), generate.end());
    return more;
  };
  expect_refused({{with({"--param-budget", ""}), "--param-budget: the value is empty"},
                  {with({"--backend", ""}), "--backend: the value is empty"},
                  {with({"--profile", ""}), "--profile: the path is empty"},
                  {with({"--tokenizer="}), "--tokenizer"},
                  {{"inspect", ""}, "PATH: the path is empty"},
                  {{"generate", ""}, "MODEL: the path is empty"},
                  {{"convert", kModel, ""}, "DST: the path is empty"},
                  {{"convert", kModel, "x.npz", "--to", ""}, "--to: the value is empty"}});
}

TEST(FlagValues, SizesAreOneByteOrMoreAndWhole) {
  const auto shards = [](const std::string& size) {
    return std::vector<std::string>{"convert", kModel, "x.safetensors", "--shard-size", size};
  };
  for (const char* size : {"0", "0MB", "1.5", "1.5B", "0.0001KiB", ""})
    expect_refused({{shards(size), "is not a size of one byte or more"}});
  const auto budget = [](const std::string& size) {
    return std::vector<std::string>{"generate", kModel, "--tokens", "1", "--param-budget", size};
  };
  for (const char* size : {"0", "0%", "0.0", "2.5"}) expect_refused({{budget(size), "not a size such as 64MiB"}});
}

TEST(FlagValues, CountsOutOfRangeAreNotCalledNoNumbers) {
  const auto threads = [](const std::string& count) {
    return std::vector<std::string>{"hash", kModel, "--threads", count};
  };
  const std::string huge = "99999999999999999999999";
  expect_refused({{threads(huge), huge + " is not between 1 and 1024"},
                  {{"hash", kModel, "--threads=-1"}, "-1 is below 1"},
                  {threads("two"), "\"two\" is not a whole number"},
                  {{"generate", kModel, "--tokens", "1", "--max-tokens", huge}, huge + " is too large"},
                  {{"generate", kModel, "--tokens", "1", "--max-tokens=-1"}, "-1 is below 0"}});
}

TEST(FlagCombinations, ThatWouldBeIgnoredAreRefused) {
  expect_refused({{{"forward", kModel, "--text", "a", "--batch", "1"}, "cannot be combined"},
                  {{"forward", kModel, "--text", "a", "--image-size", "32"}, "cannot be combined"},
                  {{"forward", kModel, "--text", "a", "--seed", "1"}, "cannot be combined"},
                  {{"forward", kModel, "--image", "a.png", "--batch", "2"}, "cannot be combined"},
                  {{"forward", kModel, "--batch", "0"}, "0 is not between 1"},
                  {{"forward", kModel, "--tokens", "1", "--input-key", "x"}, "--input-key needs --input"},
                  {{"generate", kModel, "--prompt", "a", "--parallel", "4"}, "--parallel needs --prompts"}});
}

TEST(OutFormats, OfHelpAndErrorsAndBehaviourAgree) {
  const TempFolder folder;
  for (const char* extension : {".gten", ".npz", ".npy", ".safetensors"}) {
    const std::string path = folder.path(std::string("logits") + extension);
    EXPECT_EQ(run_ballast({"forward", kModel, "--tokens", "1", "--out", path}).exit_code, 0) << extension;
    EXPECT_THAT(run_ballast({"forward", "--help"}).out, HasSubstr(extension));
    const ProgramRun refused = run_ballast({"forward", kModel, "--tokens", "1", "--out", folder.path("x.pdf")});
    EXPECT_THAT(refused.err, HasSubstr(extension));
  }
  // These hold models; a trace has no one array.
  expect_refused({{{"forward", kModel, "--tokens", "1", "--out", folder.path("x.gguf")}, ".npz, .npy or .safetensors"},
                  {{"trace", kModel, "--tokens", "1", "--out", folder.path("x.npy")}, ".gten, .npz or .safetensors"}});
}

}  // namespace
}  // namespace ballast::testing
