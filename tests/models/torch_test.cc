// GPT-2 small, ResNet34 and MobileNetV2 against what PyTorch computed with the same seeded weights, and GPT-2 small
// within budgets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ballast/engine/generator.h"
#include "ballast/params/param_store.h"
#include "tests/support/memory_meter.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_models.h"
#include "tests/support/torch_recordings.h"

namespace ballast::testing {
namespace {

// Largest distance of any logit from f32 PyTorch. Logits reach 20.
constexpr double kTolerance = 1e-4;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kProcessIsPlain = false;  // its memory is not only what the program takes
#else
constexpr bool kProcessIsPlain = true;
#endif

double distance(double a, float b) { return std::abs(a - static_cast<double>(b)); }

// ---------------------------------------------------------------- images

class TorchImageModel : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Every, TorchImageModel, ::testing::Values("resnet34", "mobilenet_v2"),
                         [](const auto& name) { return name.param; });

TEST_P(TorchImageModel, ImportedComputesWhatPyTorchComputes) {
  const TorchRecording recording = torch_recording(GetParam());
  const TempFolder folder;
  const auto model = load_or_die(write_imported(folder, GetParam(), recording));
  ASSERT_EQ(recording.runs.size(), 2U);
  for (const TorchImages& run : recording.runs) {
    const auto pixels = model->workspace().from(seeded_images(run.dims), Dims(run.dims));
    ASSERT_TRUE(pixels);
    const auto logits = model->forward(ImageInput{*pixels});
    ASSERT_TRUE(logits) << logits.error().message;
    const std::vector<float> values = read_floats(*logits);
    ASSERT_EQ(values.size(), run.logits.size());
    double largest = 0;
    for (size_t i = 0; i < run.logits.size(); ++i) largest = std::max(largest, distance(run.logits[i], values[i]));
    EXPECT_LE(largest, kTolerance) << run.dims[0] << " images of " << run.dims[2] << " x " << run.dims[3];
  }
}

// ---------------------------------------------------------------- GPT-2 small

// The checkpoint (652 MB) is written once for all tests of the suite.
class Gpt2Small : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    recording_ = torch_recording("gpt2_small");
    path_ = write_imported(*folder_, "gpt2_small", recording_);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::vector<TokenId> write(LoadedModel& model) {
    GenerateOptions options;
    options.max_tokens = recording_.written.size();
    options.sampling.temperature = 0;
    auto generator = Generator::start(*model.as_causal_lm(), model.context(), recording_.tokens, options);
    EXPECT_TRUE(generator) << generator.error().message;
    for (;;) {
      const auto token = generator->next();
      EXPECT_TRUE(token) << token.error().message;
      if (!token || !*token) break;
    }
    const auto all = generator->tokens().subspan(recording_.tokens.size());
    return {all.begin(), all.end()};
  }

  static std::unique_ptr<TempFolder> folder_;
  static TorchRecording recording_;
  static std::string path_;
};
std::unique_ptr<TempFolder> Gpt2Small::folder_;
TorchRecording Gpt2Small::recording_;
std::string Gpt2Small::path_;

double log_sum_exp(std::span<const float> row) {
  const double most = *std::ranges::max_element(row);
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value) - most);
  return most + std::log(sum);
}

TEST_F(Gpt2Small, ImportedComputesWhatPyTorchComputes) {
  const auto model = load_or_die(path_);
  EXPECT_EQ(model->report().param_bytes, 652'148'736U);
  const auto logits = model->forward(TokenInput{recording_.tokens});
  ASSERT_TRUE(logits) << logits.error().message;
  const uint64_t width = logits->dims().back();
  const std::vector<float> all = read_floats(*logits);
  ASSERT_EQ(all.size(), recording_.tokens.size() * width);
  const auto row_of = [&](uint64_t row) { return std::span(all).subspan(row * width, width); };
  for (uint64_t row = 0; row < recording_.tokens.size(); ++row) {
    const auto values = row_of(row);
    EXPECT_EQ(std::ranges::max_element(values) - values.begin(), recording_.argmax[row]) << "row " << row;
    EXPECT_NEAR(log_sum_exp(values), recording_.log_sum_exp[row], kTolerance) << "row " << row;
  }
  size_t next = 0;
  double largest = 0;
  for (const uint64_t row : recording_.rows) {
    for (uint64_t i = 0; i < width; i += recording_.stride)
      largest = std::max(largest, distance(recording_.logits.at(next++), row_of(row)[i]));
  }
  EXPECT_EQ(next, recording_.logits.size());
  EXPECT_LE(largest, kTolerance);
}

struct Budget {
  double fraction;  // of 652,148,736 bytes
  uint64_t bytes;
};

TEST_F(Gpt2Small, WritesWhatPyTorchWrites) {
  EXPECT_EQ(write(*load_or_die(path_, {.threads = 2})), recording_.written);
}

TEST_F(Gpt2Small, WritesTheSameWithin163MBAndWithin65MB) {
  for (const auto& [fraction, bytes] : {Budget{0.25, 163'037'184}, Budget{0.1, 65'214'873}}) {
    take_process_peak();
    const uint64_t before = take_process_peak();
    const auto model = load_or_die(path_, {.backend = "cpu", .threads = 2, .param_budget_fraction = fraction});
    EXPECT_EQ(write(*model), recording_.written) << fraction;
    const uint64_t after = take_process_peak();
    const ResidencyStats stats = model->residency();
    EXPECT_EQ(stats.budget, bytes);
    EXPECT_LE(stats.peak, bytes);
    EXPECT_GT(stats.peak, bytes / 2);
    RecordProperty(fmt::format("peak_of_{}", bytes), static_cast<int64_t>(stats.peak));
    if (!kProcessIsPlain || before == 0) continue;
    // Beside the parameters: keys and values, activations, logits of the prompt, the index.
    RecordProperty(fmt::format("process_growth_of_{}", bytes), static_cast<int64_t>(after - before));
    EXPECT_LE(after, before + bytes + (32 << 20)) << "the process grew by " << after - before << " bytes";
  }
}

}  // namespace
}  // namespace ballast::testing
