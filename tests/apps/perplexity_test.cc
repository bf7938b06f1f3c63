#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string held_out() { return test_file_path("text/held_out.txt"); }

std::string measure(const std::string& model, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"perplexity", model, held_out(), "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const ProgramRun run = run_ballast(words);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out;
}

double perplexity_of(const std::string& model) { return std::stod(json_at(measure(model), "perplexity")); }

TEST(PerplexityCommand, TellsHowWellATextIsPredicted) {
  const std::string out = measure(default_model_file());
  EXPECT_THAT(json_keys(out, ""),
              ElementsAre("model", "file", "perplexity", "standard_error", "nats_per_token", "bits_per_byte", "tokens",
                          "scored", "windows", "context", "stride", "seconds", "tokens_per_s"));
  EXPECT_EQ(json_at(out, "context"), "256");
  EXPECT_EQ(json_at(out, "stride"), "128");
  EXPECT_EQ(std::stoull(json_at(out, "scored")) + 1, std::stoull(json_at(out, "tokens")));
  // The model was trained to 2.83 nats per token of text like this; chance is 6.93.
  EXPECT_NEAR(std::stod(json_at(out, "nats_per_token")), 2.8, 0.2);
  const ProgramRun run = run_ballast({"perplexity", default_model_file(), held_out(), "--max-tokens", "300"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("perplexity "), HasSubstr("nats per token"), HasSubstr("bits per byte")));
}

TEST(PerplexityCommand, DoesNotDependOnThreads) {
  const std::string one = measure(default_model_file(), {"--threads", "1", "--max-tokens", "700"});
  const std::string three = measure(default_model_file(), {"--threads", "3", "--max-tokens", "700"});
  EXPECT_EQ(json_at(one, "perplexity"), json_at(three, "perplexity"));
  EXPECT_EQ(json_at(one, "tokens"), "700");
}

TEST(PerplexityCommand, TheProgressBarCountsTokens) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.columns = 100;
  setting.environment = {{"TERM", "xterm"}, {"NO_COLOR", "1"}, {"COLUMNS", ""}};
  const ProgramRun run = run_ballast({"perplexity", default_model_file(), held_out(), "--max-tokens", "1500"}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, AllOf(HasSubstr("predicting"), HasSubstr("of 1,500 tokens"), Not(HasSubstr("KiB"))));
}

TEST(PerplexityCommand, RefusesWhatCannotBeMeasured) {
  EXPECT_THAT(run_ballast({"perplexity", default_model_file(), "/nowhere.txt"}).err, HasSubstr("/nowhere.txt"));
  ProgramSetting typed;
  typed.input = "x";
  EXPECT_THAT(run_ballast({"perplexity", default_model_file(), "-"}, typed).err, HasSubstr("two tokens"));
  EXPECT_THAT(run_ballast({"perplexity", default_model_file(), held_out(), "--context", "300"}).err,
              AllOf(HasSubstr("300"), HasSubstr("256")));
  EXPECT_THAT(run_ballast({"perplexity", default_model_file(), held_out(), "--stride", "257"}).err,
              HasSubstr("a stride of 257"));
}

// ---------------------------------------------------------------- what calibration is worth

class CalibratedModel : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = folder_.path("model.gguf");
    const ProgramRun run = run_ballast({"convert", default_model_file(), model_});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }

  std::string quantize(const std::string& name, std::vector<std::string> more) {
    const std::string path = folder_.path(name);
    std::vector<std::string> words = {"quantize", model_, path, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun run = run_ballast(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    report_ = run.out;
    return path;
  }

  TempFolder folder_;
  std::string model_;
  std::string report_;
  const std::string text_ = test_file_path("text/calibration.txt");
};

TEST_F(CalibratedModel, PredictsHeldOutTextBetterThanOneQuantisedWithout) {
  const double before = perplexity_of(model_);
  EXPECT_NEAR(before, perplexity_of(default_model_file()), before * 1e-4);
  for (const char* type : {"q4_1", "q5_0", "q2_k"}) {
    const std::string name = type;
    const double plain = perplexity_of(quantize(name + "_plain.gguf", {name}));
    const double calibrated = perplexity_of(quantize(name + ".gguf", {name, "--calibrate", text_}));
    EXPECT_GT(plain, before) << name;
    EXPECT_LT(calibrated, plain) << name;
    // Of q4_1 about half of the damage goes away.
    if (name == "q4_1") {
      EXPECT_LT(calibrated - before, 0.7 * (plain - before)) << calibrated << " " << plain;
    }
  }
  EXPECT_EQ(json_at(report_, "calibration/tensors"), "25");
  EXPECT_GT(std::stoull(json_at(report_, "calibration/tokens")), 5000U);
}

TEST_F(CalibratedModel, IsTheSameFromASavedImportanceMatrixAndOnAnyNumberOfThreads) {
  const std::string saved = folder_.path("imatrix.gguf");
  const std::string direct = quantize("a.gguf", {"q4_k_m", "--calibrate", text_, "--save-imatrix", saved});
  const std::string again = quantize("b.gguf", {"q4_k_m", "--calibrate", text_, "--threads", "1"});
  EXPECT_EQ(read_text_file(direct), read_text_file(again));
  quantize("c.gguf", {"q4_k_m", "--imatrix", saved});
  EXPECT_EQ(json_at(report_, "calibration/tensors"), "25");
  const double of_saved = perplexity_of(folder_.path("c.gguf"));
  EXPECT_NEAR(of_saved, perplexity_of(direct), of_saved * 1e-3);
}

TEST_F(CalibratedModel, IsTheSameMadeFromACheckpointOrFromItsGgufFile) {
  const std::string direct = folder_.path("direct.gguf");
  const ProgramRun run = run_ballast({"quantize", default_model_file(), direct, "q4_0", "--calibrate", text_});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(read_text_file(direct), read_text_file(quantize("two_steps.gguf", {"q4_0", "--calibrate", text_})));
  size_t files = 0;  // nothing else stays behind
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) files += entry.exists() ? 1 : 0;
  EXPECT_EQ(files, 3U);
}

TEST_F(CalibratedModel, AnImportanceMatrixOfAnotherModelIsRefused) {
  const std::string out = folder_.path("out.gguf");
  const ProgramRun foreign = run_ballast({"quantize", model_, out, "q4_0", "--imatrix", model_});
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_THAT(foreign.err, HasSubstr("is no importance matrix"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace ballast::testing
