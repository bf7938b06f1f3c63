// Neither threads nor budgets change a bit, and both keep what they promise.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/backends/backends.h"
#include "ballast/engine/generator.h"
#include "ballast/models/random_image.h"
#include "ballast/params/budget.h"
#include "ballast/params/param_store.h"
#include "tests/support/backends_to_test.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

struct Written {
  std::vector<float> logits;  // of the prompt, then of each step
  std::vector<TokenId> tokens;
  bool operator==(const Written&) const = default;
};

Written run(LoadedModel& model, std::vector<TokenId> prompt, uint64_t count) {
  GenerateOptions options;
  options.max_tokens = count;
  options.sampling.temperature = 0;
  Written run;
  auto generator = Generator::start(*model.as_causal_lm(), model.context(), std::move(prompt), options);
  EXPECT_TRUE(generator) << generator.error().message;
  for (;;) {
    const auto token = generator->next();
    EXPECT_TRUE(token) << token.error().message;
    if (!token || !*token) break;
    const std::vector<float> row = read_floats(generator->logits());
    run.logits.insert(run.logits.end(), row.begin(), row.end());
  }
  run.tokens.assign(generator->tokens().begin(), generator->tokens().end());
  return run;
}

struct Case {
  std::string name;
  std::string path;
  std::vector<TokenId> prompt;
  uint64_t count;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"default", default_model_file(), {41, 84, 365, 259, 257, 82, 321}, 6},
      {"gpt_12layer", recorded_model_path("gpt_12layer"), {3, 9}, 13},
      {"ministral_yarn", recorded_model_path("ministral_yarn"), {9, 8, 7}, 12},
  };
  return all;
}

class SameBits : public ::testing::TestWithParam<std::string> {
 protected:
  Written run_with(const Case& model, LoadOptions options) {
    options.backend = GetParam();
    return run(*load_or_die(model.path, options), model.prompt, model.count);
  }
};

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Backend* backend : backends_to_test()) names.emplace_back(backend->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Every, SameBits, ::testing::ValuesIn(backend_names()),
                         [](const auto& name) { return name.param; });

TEST_P(SameBits, ForAnyNumberOfThreads) {
  for (const Case& model : cases()) {
    const Written one = run_with(model, {.threads = 1});
    ASSERT_EQ(one.tokens.size(), model.prompt.size() + model.count);
    for (const unsigned threads : {2U, 7U}) {
      EXPECT_TRUE(run_with(model, {.threads = threads}) == one) << model.name << " with " << threads << " threads";
    }
  }
}

TEST_P(SameBits, ForAnyBudgetThatHolds) {
  for (const Case& model : cases()) {
    const Written whole = run_with(model, {.threads = 2});
    for (const double fraction : {1.0, 0.25, 0.1}) {
      LoadOptions options{.backend = GetParam(), .threads = 2, .param_budget_fraction = fraction};
      const auto loaded = load_or_die(model.path, options);
      EXPECT_TRUE(run(*loaded, model.prompt, model.count) == whole) << model.name << " in " << fraction;
      const ResidencyStats stats = loaded->residency();
      const auto most = static_cast<uint64_t>(static_cast<double>(loaded->report().param_bytes) * fraction);
      EXPECT_EQ(stats.budget, most) << model.name;
      EXPECT_LE(stats.peak, most) << model.name;
      EXPECT_GT(stats.peak, 0U);
      EXPECT_GT(stats.bytes_read, 0U);
    }
  }
}

TEST_P(SameBits, OfImagesForAnyNumberOfThreadsAndAnyBudget) {
  const TempFolder folder;
  const std::string path = write_rule_checkpoint(folder, "mobilenet_v2", 1);
  const auto logits = [&](LoadOptions options) {
    options.backend = GetParam();
    const auto model = load_or_die(path, options);
    const Dims dims{1, 3, 32, 32};
    const auto pixels = model->workspace().from(seeded_normals(3, dims.count()), dims);
    const auto output = model->forward(ImageInput{*pixels});
    EXPECT_TRUE(output) << output.error().message;
    const ResidencyStats stats = model->residency();
    if (stats.budget != 0) {
      EXPECT_LE(stats.peak, stats.budget);
    }
    return output ? read_floats(*output) : std::vector<float>();
  };
  const auto one = logits({.threads = 1});
  EXPECT_EQ(logits({.threads = 2}), one);
  EXPECT_EQ(logits({.threads = 7}), one);
  EXPECT_EQ(logits({.threads = 2, .param_budget_fraction = 0.5}), one);
}

TEST(Budget, BelowTheSmallestWorkingSetNamesAParameterAndWhatWorks) {
  LoadOptions options;
  options.param_budget = 64;
  EXPECT_THAT(load_failure(recorded_model_path("gpt_12layer"), options),
              HasSubstr("the smallest budget that works is 640 bytes"));
}

TEST(Budget, ReadsOnlyTheRowsOfAnEmbeddingThatAreAskedFor) {
  const auto model = load_or_die(default_model_file(), {.backend = "cpu", .threads = 1, .param_budget_fraction = 1.0});
  ASSERT_TRUE(model->forward(TokenInput{{41}}));
  // The two tables hold one row each that is of use here.
  const uint64_t all = model->report().param_bytes;
  EXPECT_LT(model->residency().bytes_read, all);
  EXPECT_GT(model->residency().bytes_read, all / 2);
}

TEST(Decoding, AllocatesNothingOnceItRuns) {
  for (const Case& model : cases()) {
    const auto loaded = load_or_die(model.path, {.threads = 2});
    GenerateOptions options;
    options.sampling.temperature = 0;
    auto generator = Generator::start(*loaded->as_causal_lm(), loaded->context(), model.prompt, options);
    ASSERT_TRUE(generator);
    ASSERT_TRUE(generator->next());
    ASSERT_TRUE(generator->next());
    const uint64_t before = loaded->workspace().allocations();
    for (uint64_t i = 2; i < model.count; ++i) ASSERT_TRUE(generator->next());
    EXPECT_EQ(loaded->workspace().allocations(), before) << model.name;
  }
}

TEST(Decoding, TheCacheDoesNotGrowTokenByToken) {
  const auto loaded = load_or_die(default_model_file(), {.threads = 2});
  GenerateOptions options;
  options.max_tokens = 40;
  auto generator = Generator::start(*loaded->as_causal_lm(), loaded->context(), {41, 84}, options);
  ASSERT_TRUE(generator);
  const uint64_t bytes = generator->cache_bytes();
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(generator->next());
  EXPECT_EQ(generator->cache_bytes(), bytes);
}

}  // namespace
}  // namespace ballast::testing
