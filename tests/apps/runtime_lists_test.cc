#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(Models, AreListed) {
  EXPECT_THAT(run_ballast({"models"}).out,
              AllOf(HasSubstr("gpt"), HasSubstr("ministral"), HasSubstr("resnet34"), HasSubstr("mobilenet_v2")));
  EXPECT_EQ(json_at(run_ballast({"models", "--json"}).out, "models/3/kind"), "\"mobilenet_v2\"");
}

TEST(Ops, AreListedWithTheKeysAndNamesOfGptRs) {
  EXPECT_THAT(run_ballast({"ops"}).out, AllOf(HasSubstr("matmul_a_b"), HasSubstr("gelu_x")));
  const std::string json = run_ballast({"ops", "--json"}).out;
  for (const char* text :
       {R"("key":"gpt_rs::ops::functional::activation::relu")", R"("key":"gpt_rs::ops::functional::conv::conv2d")",
        "attention_decode_cache_config_qkv_cache_update_starts_query_start", "layer_norm_x_gamma_beta_eps"}) {
    EXPECT_THAT(json, HasSubstr(text));
  }
}

TEST(Backends, AreListedWithWhatDevicesTheyFind) {
  EXPECT_THAT(run_ballast({"backends"}).out, AllOf(HasSubstr("cpu"), HasSubstr("reference"),
                                                   AnyOf(HasSubstr("\nCUDA: "), HasSubstr("Devices of cuda:"))));
  const std::string json = run_ballast({"backends", "--json"}).out;
  EXPECT_EQ(json_at(json, "backends/0/name"), "\"cpu\"");
  const bool has_device = json_at(json, "backends/1/level") != "\"none\"";
  EXPECT_EQ(json_at(json, "backends/0/default"), has_device ? "false" : "true");
  EXPECT_EQ(json_at(json, "backends/1/name"), "\"cuda\"");
  EXPECT_EQ(json_at(json, "backends/1/default"), has_device ? "true" : "false");
  EXPECT_EQ(json_at(json, "backends/2/name"), "\"opencl\"");
  EXPECT_EQ(json_at(json, "backends/2/default"), "false") << "only where it is asked for";
  EXPECT_EQ(json_at(json, "backends/3/default"), "false");
  EXPECT_EQ(json_at(json, "backends/0/blocks/0/exact"), "\"f32\"");
  EXPECT_EQ(json_at(json, "backends/1/blocks/0/fast"), "\"f32\"");
}

TEST(Benchmark, MeasuresTextModels) {
  const ProgramRun run = run_ballast({"benchmark", recorded_model_path("gpt_base"), "--prompt-tokens", "8",
                                      "--max-tokens", "4", "--rounds", "1", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::vector<std::string> names = {"\"load\"", "\"first token\"", "\"prefill\"", "\"decode\""};
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(json_at(run.out, fmt::format("measures/{}/name", i)), names[i]);
    EXPECT_GT(std::stod(json_at(run.out, fmt::format("measures/{}/seconds", i))), 0);
  }
  // Two layers of 32 x (96 + 32 + 2 * 128) and a head of 32 x 320, read once a token and used for 8 tokens at once.
  const uint64_t weights = 2 * 32 * (96 + 32 + 256) + 32 * 320;
  EXPECT_EQ(json_at(run.out, "measures/3/weight_bytes"), std::to_string(4 * 4 * weights));
  EXPECT_EQ(std::stod(json_at(run.out, "measures/3/flop")), 2.0 * 4 * static_cast<double>(weights));
  EXPECT_EQ(json_at(run.out, "measures/2/items"), "8");
  EXPECT_GT(std::stod(json_at(run.out, "machine/flops")), 1e8);
  EXPECT_GT(std::stod(json_at(run.out, "machine/read_bytes_per_s")), 1e8);
}

TEST(Benchmark, MeasuresOnePartOfATextModel) {
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"prefill", "\"prefill\""}, {"first-token", "\"first token\""}, {"decode-steady", "\"decode\""}};
  for (const auto& [mode, name] : parts) {
    const ProgramRun run = run_ballast({"benchmark", recorded_model_path("gpt_base"), "--mode", mode, "--prompt-tokens",
                                        "8", "--max-tokens", "4", "--warmup-tokens", "2", "--rounds", "1", "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(json_at(run.out, "measures/1/name"), name);
    EXPECT_EQ(json_at(run.out, "measures/1/items"), mode == "prefill" ? "8" : mode == "first-token" ? "1" : "4");
    EXPECT_EQ(json_at(run.out, "measures/2"), "") << mode;
  }
}

TEST(Benchmark, MeasuresImageModels) {
  const TempFolder folder;
  const std::string model = write_rule_checkpoint(folder, "mobilenet_v2", 1);
  const ProgramRun run = run_ballast({"benchmark", model, "--image-size", "32", "--rounds", "1", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "measures/2/name"), "\"images\"");
  EXPECT_EQ(json_at(run.out, "measures/2/unit"), "\"images/s\"");
  EXPECT_GT(std::stod(json_at(run.out, "measures/2/flop")), 1e6);
  EXPECT_THAT(run_ballast({"benchmark", model, "--image-size", "32", "--rounds", "1"}).out, HasSubstr("images/s"));
}

TEST(Benchmark, MeasuresManySequencesInEachPass) {
  const std::vector<std::string> arguments = {"benchmark",       recorded_model_path("gpt_base"),
                                              "--sequences",     "1,3,8",
                                              "--prompt-tokens", "8",
                                              "--max-tokens",    "4",
                                              "--warmup-tokens", "2",
                                              "--rounds",        "2"};
  std::vector<std::string> with_json = arguments;
  with_json.emplace_back("--json");
  const ProgramRun run = run_ballast(with_json);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "measures/1"), "") << "nothing else is measured";
  const std::vector<std::string> counts = {"1", "3", "8"};
  const double flop = 2.0 * (2 * 32 * (96 + 32 + 256) + 32 * 320);  // of one token: see MeasuresTextModels
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto at = [&](const std::string& key) { return json_at(run.out, fmt::format("sequences/{}/{}", i, key)); };
    EXPECT_EQ(at("sequences"), counts[i]);
    EXPECT_EQ(at("steps"), "4");
    const double best = std::stod(at("step_seconds")), median = std::stod(at("median_step_seconds"));
    EXPECT_GT(best, 0);
    EXPECT_LE(best, median);
    EXPECT_NEAR(std::stod(at("rate")), std::stod(counts[i]) / best, 1e-6 * std::stod(at("rate")));
    EXPECT_NEAR(std::stod(at("median_rate")), std::stod(counts[i]) / median, 1e-6 * std::stod(at("rate")));
    EXPECT_EQ(std::stod(at("flop")), std::stod(counts[i]) * flop);
    EXPECT_GT(std::stod(at("flops_share")), 0);
  }
  EXPECT_EQ(json_at(run.out, "sequences/3"), "");
  const ProgramRun table = run_ballast(arguments);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("sequences  ms/step"), HasSubstr("x1.00"), HasSubstr("compute used")));
}

TEST(Benchmark, MeasuresSequencesWithACacheOfEitherType) {
  const auto bytes = [](const char* dtype) {
    const ProgramRun run = run_ballast({"benchmark", "--sequences", "2", "--prompt-tokens", "8", "--max-tokens", "4",
                                        "--rounds", "1", "--kv-cache-dtype", dtype, "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return std::stoull(json_at(run.out, "sequences/0/cache_bytes"));
  };
  EXPECT_GT(bytes("f16"), 0U);
  EXPECT_EQ(bytes("f32"), 2 * bytes("f16"));
}

// Windows and lengths at which a model computes its text again are where going back to the prompt is hard.
TEST(Benchmark, MeasuresSequencesOfModelsWithWindows) {
  for (const char* name : {"gemma2", "gemma3", "mistral_swa"}) {
    const ProgramRun run = run_ballast({"benchmark", test_file_path(fmt::format("hf/{}", name)), "--sequences", "2,4",
                                        "--prompt-tokens", "40", "--max-tokens", "8", "--rounds", "3", "--json"});
    EXPECT_EQ(run.exit_code, 0) << name << run.err;
    EXPECT_EQ(json_at(run.out, "sequences/1/steps"), "8") << name;
  }
}

TEST(Benchmark, MeasuresWhatASharedPrefixSaves) {
  const ProgramRun run = run_ballast({"benchmark", "--shared-prefix", "200", "--rounds", "2", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "shared_prefix/tokens"), "200");
  EXPECT_EQ(json_at(run.out, "shared_prefix/reused_tokens"), "200") << "all of it, not whole pages only";
  const auto at = [&](const std::string& key) { return std::stod(json_at(run.out, "shared_prefix/" + key)); };
  EXPECT_LT(at("second_seconds"), at("first_seconds"));
  EXPECT_LE(at("second_seconds"), at("median_second_seconds"));
  EXPECT_LE(at("first_seconds"), at("median_first_seconds"));
  EXPECT_THAT(run_ballast({"benchmark", "--shared-prefix", "64", "--rounds", "1"}).out,
              AllOf(HasSubstr("shared prefix of 64 tokens"), HasSubstr("faster")));
}

TEST(Benchmark, RefusesSequencesAndPrefixesThatMakeNoSense) {
  const std::string model = recorded_model_path("gpt_base");
  const std::pair<std::vector<std::string>, std::string> kCases[] = {
      {{"--sequences", "1,x"}, "--sequences: \"x\" is not a number from 1 to 1024"},
      {{"--sequences", "0"}, "\"0\" is not a number from 1 to 1024"},
      {{"--sequences", "1,"}, "\"\" is not a number"},
      {{"--sequences", "2000"}, "1,2,4,8"},
      {{"--sequences", "2", "--mode", "prefill"}, "cannot be combined"},
      {{"--shared-prefix", "32"}, "32 is not between 64 and"},
      {{"--shared-prefix", "64"}, "exceeds the model's context of 48"},
  };
  for (const auto& [flags, cause] : kCases) {
    std::vector<std::string> arguments = {"benchmark", model};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const ProgramRun run = run_ballast(arguments);
    EXPECT_EQ(run.exit_code, 2) << cause;
    EXPECT_EQ(run.out, "") << cause;
    EXPECT_THAT(run.err, HasSubstr(cause));
  }
}

TEST(Benchmark, NeedsATokenToMeasure) {
  EXPECT_EQ(run_ballast({"benchmark", recorded_model_path("gpt_base"), "--max-tokens", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace ballast::testing
