#include "ballast/engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

SamplerOptions greedy_options() {
  SamplerOptions options;
  options.temperature = 0;
  return options;
}

TokenId next(Sampler& sampler, const std::vector<float>& logits, const std::vector<TokenId>& past = {}) {
  const auto token = sampler.next(logits, past);
  EXPECT_TRUE(token) << token.error().message;
  return token ? token->id : 0;
}

// How often each token comes in `draws` draws.
std::map<TokenId, int> counts(const SamplerOptions& options, const std::vector<float>& logits, int draws = 4000,
                              const std::vector<TokenId>& past = {}) {
  Sampler sampler(options);
  std::map<TokenId, int> found;
  for (int i = 0; i < draws; ++i) ++found[next(sampler, logits, past)];
  return found;
}

TEST(Sampler, GreedyTakesTheLikeliestAndOfEqualsTheLowerId) {
  Sampler sampler(greedy_options());
  EXPECT_EQ(next(sampler, {1, 5, 2}), 1U);
  EXPECT_EQ(next(sampler, {1, 5, 5, 5}), 1U);
  EXPECT_EQ(next(sampler, {-kInfinity, -3, -kInfinity}), 1U);
}

TEST(Sampler, GivesTheLogProbabilityUnderTheModelWhateverTheOptions) {
  SamplerOptions options;
  options.temperature = 0.3;
  options.top_k = 1;
  options.repetition_penalty = 2;
  Sampler sampler(options);
  const auto token = sampler.next(std::vector<float>{0, 0, 0, 0}, std::vector<TokenId>{0});
  ASSERT_TRUE(token);
  EXPECT_NEAR(token->log_probability, std::log(0.25), 1e-12);
}

TEST(Sampler, LeavesLogProbabilitiesOutWhereNobodyAsks) {
  const std::vector<float> logits = {0, 2, 1, 2};
  for (const double penalty : {1.0, 1.5}) {
    SamplerOptions options{.temperature = 0, .repetition_penalty = penalty};
    const auto with = Sampler(options).next(logits, {});
    options.log_probabilities = false;
    const auto without = Sampler(options).next(logits, {});
    ASSERT_TRUE(with && without);
    EXPECT_EQ(with->id, 1U);
    EXPECT_EQ(without->id, 1U);
    EXPECT_LT(with->log_probability, 0);
    EXPECT_EQ(without->log_probability, 0);
  }
}

TEST(Sampler, DrawsInProportionToTheProbabilities) {
  SamplerOptions options;
  const auto found = counts(options, {std::log(0.7F), std::log(0.2F), std::log(0.1F)});
  EXPECT_NEAR(found.at(0), 2800, 150);
  EXPECT_NEAR(found.at(1), 800, 120);
  EXPECT_NEAR(found.at(2), 400, 100);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  SamplerOptions options;
  options.temperature = 0.5;  // squares the odds
  const auto sharp = counts(options, {std::log(2.0F), 0});
  EXPECT_NEAR(sharp.at(0), 3200, 150);
  options.temperature = 1000;
  const auto flat = counts(options, {std::log(2.0F), 0});
  EXPECT_NEAR(flat.at(0), 2000, 150);
}

TEST(Sampler, TheSameSeedGivesTheSameDrawsAndAnotherSeedOthers) {
  const std::vector<float> logits(50, 0.0F);
  const auto draws = [&](uint64_t seed) {
    SamplerOptions options;
    options.seed = seed;
    Sampler sampler(options);
    std::vector<TokenId> ids;
    for (int i = 0; i < 40; ++i) ids.push_back(next(sampler, logits));
    return ids;
  };
  EXPECT_EQ(draws(7), draws(7));
  EXPECT_NE(draws(7), draws(8));
}

TEST(Sampler, ADrawDependsOnItsNumberAndNotOnEarlierLogits) {
  SamplerOptions options;
  options.seed = 3;
  Sampler a(options), b(options);
  const std::vector<float> flat(100, 0.0F);
  next(a, {1, 2, 3});
  next(b, {9, 0});
  EXPECT_EQ(next(a, flat), next(b, flat));
}

TEST(Sampler, TopKKeepsThatManyAndTiesGoToLowerIds) {
  SamplerOptions options;
  options.top_k = 2;
  const auto found = counts(options, {1, 3, 1, 1});
  EXPECT_EQ(found.size(), 2U);
  EXPECT_TRUE(found.contains(1));
  EXPECT_TRUE(found.contains(0));
  options.top_k = 99;
  EXPECT_EQ(counts(options, {1, 3, 1, 1}).size(), 4U);
}

TEST(Sampler, TopPKeepsTheLikeliestThatMakeUpTheShare) {
  SamplerOptions options;
  options.top_p = 0.75;
  const std::vector<float> logits = {std::log(0.1F), std::log(0.6F), std::log(0.25F), std::log(0.05F)};
  const auto found = counts(options, logits);
  EXPECT_EQ(found.size(), 2U);
  EXPECT_TRUE(found.contains(1) && found.contains(2));
  options.top_p = 1e-9;  // never fewer than one
  EXPECT_EQ(counts(options, logits, 100).size(), 1U);
}

TEST(Sampler, MinPLeavesOutWhatIsFarBelowTheLikeliest) {
  SamplerOptions options;
  options.min_p = 0.3;
  const auto found = counts(options, {std::log(0.6F), std::log(0.25F), std::log(0.15F)});
  EXPECT_EQ(found.size(), 2U);
  EXPECT_FALSE(found.contains(2));
}

TEST(Sampler, ARepetitionPenaltyMakesWhatStandsThereLessLikely) {
  SamplerOptions options = greedy_options();
  options.repetition_penalty = 2;
  Sampler sampler(options);
  EXPECT_EQ(next(sampler, {4, 3, 1}, {0}), 1U);          // 4 / 2
  EXPECT_EQ(next(sampler, {-1, -1.5, -5}, {0, 0}), 1U);  // -1 * 2, once
  EXPECT_EQ(next(sampler, {4, 3, 1}, {7}), 0U);          // not of this vocabulary
  options.repetition_window = 2;
  Sampler forgetful(options);
  EXPECT_EQ(next(forgetful, {4, 3, 1}, {0, 2, 2}), 0U);
}

TEST(Sampler, RefusesLogitsThatAreNoNumbers) {
  Sampler sampler(greedy_options());
  const auto nan = sampler.next(std::vector<float>{0, std::nanf("")}, {});
  ASSERT_FALSE(nan);
  EXPECT_THAT(nan.error().message, HasSubstr("token 1 is nan"));
  EXPECT_FALSE(sampler.next(std::vector<float>{kInfinity, 0}, {}));
  EXPECT_FALSE(sampler.next(std::vector<float>{-kInfinity, -kInfinity}, {}));
  EXPECT_FALSE(sampler.next({}, {}));
}

TEST(Sampler, RefusesOptionsOutsideTheirRange) {
  const auto refused = [](auto change) {
    SamplerOptions options;
    change(options);
    const Status status = check_sampler_options(options);
    return status ? std::string() : status.error().message;
  };
  EXPECT_THAT(refused([](SamplerOptions& o) { o.temperature = -1; }), HasSubstr("temperature is -1"));
  EXPECT_THAT(refused([](SamplerOptions& o) { o.temperature = std::nan(""); }), HasSubstr("temperature"));
  EXPECT_THAT(refused([](SamplerOptions& o) { o.top_p = 0; }), HasSubstr("top-p"));
  EXPECT_THAT(refused([](SamplerOptions& o) { o.top_p = 1.5; }), HasSubstr("top-p"));
  EXPECT_THAT(refused([](SamplerOptions& o) { o.min_p = 2; }), HasSubstr("min-p"));
  EXPECT_THAT(refused([](SamplerOptions& o) { o.repetition_penalty = 0; }), HasSubstr("repetition penalty"));
  EXPECT_EQ(refused([](SamplerOptions&) {}), "");
}

TEST(Sampler, ListsWhatIsNoNumberInFrontByItsId) {
  const float nan = std::nanf("");
  const std::vector<float> logits = {1, nan, 3, nan, 2};
  const auto found = Sampler::likeliest(logits, 3);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].id, 1U);
  EXPECT_EQ(found[1].id, 3U);
  EXPECT_EQ(found[2].id, 2U);
  EXPECT_TRUE(std::isnan(found[0].log_probability));
}

TEST(Sampler, ListsTheLikeliestFirst) {
  const auto best = Sampler::likeliest(std::vector<float>{1, 3, 2, 3}, 3);
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0].id, 1U);
  EXPECT_EQ(best[1].id, 3U);
  EXPECT_EQ(best[2].id, 2U);
  EXPECT_NEAR(std::exp(best[0].log_probability), std::exp(3) / (std::exp(1) + 2 * std::exp(3) + std::exp(2)), 1e-9);
  EXPECT_EQ(Sampler::likeliest(std::vector<float>{1}, 5).size(), 1U);
  EXPECT_TRUE(Sampler::likeliest({}, 5).empty());
}

TEST(Sampler, StaysFiniteUnderAnyPenaltyThatIsAllowed) {
  for (const double penalty : {1e-6, 1e6}) {
    SamplerOptions options{.temperature = 1, .repetition_penalty = penalty, .seed = 3};
    ASSERT_TRUE(check_sampler_options(options));
    Sampler sampler(options);
    const std::vector<float> logits = {3e38F, -3e38F, 0, 1};
    const std::vector<TokenId> past = {0, 1, 2};
    const auto token = sampler.next(logits, past);
    ASSERT_TRUE(token);
    EXPECT_EQ(token->id, 0U);
  }
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(check_sampler_options({.temperature = infinite}));
  EXPECT_FALSE(check_sampler_options({.repetition_penalty = infinite}));
}

}  // namespace
}  // namespace ballast::testing
