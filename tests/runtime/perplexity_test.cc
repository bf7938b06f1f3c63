#include "ballast/text/perplexity.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ballast/models/model.h"
#include "ballast/runtime/load_model.h"
#include "tests/support/json_path.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<LoadedModel> load(const std::string& name, unsigned threads = 2) {
  auto model = load_model(test_file_path("hf/" + name), {.threads = threads});
  EXPECT_TRUE(model) << model.error().message;
  return model ? *std::move(model) : nullptr;
}

// The same as in tests/data/hf/perplexity.py.
std::vector<TokenId> sequence(size_t count, uint64_t vocabulary) {
  std::vector<TokenId> ids;
  uint64_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = (state * 1103515245 + 12345) % (uint64_t{1} << 31);
    ids.push_back(static_cast<TokenId>((state >> 16) % vocabulary));
  }
  return ids;
}

Result<Perplexity> measure(LoadedModel& model, const PerplexityOptions& options, size_t tokens = 301) {
  const CausalLm& causal = *model.as_causal_lm();
  return measure_perplexity(causal, model.context(), sequence(tokens, causal.vocab_size()), options);
}

TEST(PerplexityOfText, IsWhatTransformersComputesForTheSameWindows) {
  const std::string recorded = read_text_file(test_file_path("hf/perplexity.json"));
  const size_t tokens = std::stoull(json_at(recorded, "tokens"));
  size_t cases = 0;
  for (;; ++cases) {
    const std::string at = "cases/" + std::to_string(cases) + "/";
    const std::string name = json_string(json_at(recorded, at + "model"));
    if (name.empty()) break;
    SCOPED_TRACE(name);
    const PerplexityOptions options{.context = std::stoull(json_at(recorded, at + "context")),
                                    .stride = std::stoull(json_at(recorded, at + "stride"))};
    const auto model = load(name);
    ASSERT_NE(model, nullptr);
    const auto found = measure(*model, options, tokens);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->scored, std::stoull(json_at(recorded, at + "scored")));
    const double expected = std::stod(json_at(recorded, at + "nats_per_token"));
    EXPECT_NEAR(found->mean(), expected, 1e-4);
    EXPECT_NEAR(found->value() / std::exp(expected), 1, 1e-4);
  }
  EXPECT_EQ(cases, 8U);
}

TEST(PerplexityOfText, HasTheSameBitsForAnyNumberOfThreads) {
  std::vector<double> totals;
  for (const unsigned threads : {1U, 2U, 5U}) {
    const auto model = load("llama_plain", threads);
    totals.push_back(measure(*model, {.context = 64, .stride = 24})->total);
  }
  EXPECT_EQ(totals[0], totals[1]);
  EXPECT_EQ(totals[0], totals[2]);
}

TEST(PerplexityOfText, TakesTheModelsContextAndHalfOfItUnlessToldOtherwise) {
  const auto model = load("llama_plain");
  const auto found = measure(*model, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->context, 128U);
  EXPECT_EQ(found->stride, 64U);
  EXPECT_EQ(found->tokens, 301U);
  EXPECT_EQ(found->scored, 300U);
  EXPECT_EQ(found->windows, 4U);
  EXPECT_GT(found->standard_error(), 0);
  EXPECT_EQ(measure(*model, {.context = 128, .stride = 64})->total, found->total);
}

TEST(PerplexityOfText, AShortTextIsOneWindow) {
  const auto model = load("llama_plain");
  const auto found = measure(*model, {}, 2);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->scored, 1U);
  EXPECT_EQ(found->windows, 1U);
  EXPECT_EQ(found->standard_error(), 0);
}

TEST(PerplexityOfText, ImpossibleWindowsAndTextsAreRefusedWithTheNumbers) {
  const auto model = load("llama_plain");
  const auto error_of = [&](const PerplexityOptions& options, size_t tokens) {
    const auto found = measure(*model, options, tokens);
    return found ? "" : found.error().message;
  };
  EXPECT_THAT(error_of({}, 1), HasSubstr("one token"));
  EXPECT_THAT(error_of({}, 0), HasSubstr("no tokens"));
  EXPECT_THAT(error_of({.context = 129}, 300), AllOf(HasSubstr("129"), HasSubstr("128")));
  EXPECT_THAT(error_of({.context = 32, .stride = 33}, 300), AllOf(HasSubstr("33"), HasSubstr("32")));
  const std::vector<TokenId> foreign = {1, 2, 128};
  const auto refused = measure_perplexity(*model->as_causal_lm(), model->context(), foreign);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("token 2 of the text is 128"));
}

TEST(PerplexityOfText, TellsItsProgressAndStopsWhenToldTo) {
  const auto model = load("llama_plain");
  std::vector<uint64_t> seen;
  const auto cancelled = measure(*model, {.context = 64, .stride = 64, .progress = [&](const ProgressUpdate& update) {
                                            seen.push_back(update.done);
                                            return seen.size() < 3;
                                          }});
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(seen, ::testing::ElementsAre(64U, 128U, 192U));
}

}  // namespace
}  // namespace ballast::testing
