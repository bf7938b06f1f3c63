#include "ballast/engine/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/engine/forward_past.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

GenerateOptions greedy_tokens(uint64_t count) {
  GenerateOptions options;
  options.max_tokens = count;
  options.sampling.temperature = 0;
  return options;
}

struct Written {
  std::vector<TokenId> tokens;
  StopReason reason = StopReason::kNone;
};

Written write(LoadedModel& model, std::vector<TokenId> prompt, const GenerateOptions& options) {
  Written written;
  auto generator = Generator::start(*model.as_causal_lm(), model.context(), std::move(prompt), options);
  EXPECT_TRUE(generator) << generator.error().message;
  if (!generator) return written;
  for (;;) {
    const auto token = generator->next();
    EXPECT_TRUE(token) << token.error().message;
    if (!token || !*token) break;
    written.tokens.push_back((*token)->id);
  }
  written.reason = generator->stop_reason();
  return written;
}

std::string refusal(LoadedModel& model, std::vector<TokenId> prompt, const GenerateOptions& options) {
  const auto generator = Generator::start(*model.as_causal_lm(), model.context(), std::move(prompt), options);
  EXPECT_FALSE(generator);
  return generator ? "" : generator.error().message;
}

std::unique_ptr<LoadedModel> base() { return load_or_die(recorded_model_path("gpt_base")); }

TEST(Generator, WritesAsManyTokensAsAreAskedFor) {
  const auto model = base();
  const Written written = write(*model, {7}, greedy_tokens(3));
  EXPECT_THAT(written.tokens, ElementsAre(89, 316, 316));
  EXPECT_EQ(written.reason, StopReason::kMaxTokens);
  EXPECT_TRUE(write(*model, {7}, greedy_tokens(0)).tokens.empty());
}

TEST(Generator, EndsAtAStopTokenWhichIsNotPartOfTheText) {
  const auto model = base();
  GenerateOptions options = greedy_tokens(12);
  options.stop_tokens = {118};
  const Written written = write(*model, {7}, options);
  EXPECT_THAT(written.tokens, ElementsAre(89, 316, 316));
  EXPECT_EQ(written.reason, StopReason::kStopToken);
}

TEST(Generator, EndsWhereTheContextIsFull) {
  const auto model = base();
  const Written written = write(*model, std::vector<TokenId>(46, 5), greedy_tokens(100));
  EXPECT_EQ(written.tokens.size(), 3U);  // the last is written from a full context and needs no room in it
  EXPECT_EQ(written.reason, StopReason::kContextFull);
}

TEST(Generator, RefusesAPromptLongerThanTheContextUnlessItMayForget) {
  const auto model = base();
  std::vector<TokenId> prompt;
  for (TokenId id = 0; id < 60; ++id) prompt.push_back(id);
  EXPECT_THAT(refusal(*model, prompt, greedy_tokens(2)),
              AllOf(HasSubstr("60 tokens"), HasSubstr("48"), HasSubstr("forgotten")));
  GenerateOptions options = greedy_tokens(2);
  options.context_shift = true;
  const std::vector<TokenId> seen(prompt.end() - 48, prompt.end());
  EXPECT_EQ(write(*model, prompt, options).tokens, write(*model, seen, options).tokens);
}

TEST(Generator, GoesOnWithALongerPromptAsIfItHadBegunWithIt) {
  const auto model = base();
  auto generator = Generator::start(*model->as_causal_lm(), model->context(), {7, 8, 9}, greedy_tokens(4));
  ASSERT_TRUE(generator);
  while (const auto token = generator->next()) {
    if (!*token) break;
  }
  std::vector<TokenId> prompt(generator->tokens().begin(), generator->tokens().end() - 1);
  prompt.insert(prompt.end(), {40, 41});
  ASSERT_TRUE(generator->restart(prompt));
  EXPECT_EQ(generator->reused(), 6U);  // three of the prompt, and what was written but for the last
  EXPECT_EQ(generator->generated(), 0U);
  std::vector<TokenId> tokens;
  for (;;) {
    const auto token = generator->next();
    ASSERT_TRUE(token);
    if (!*token) break;
    tokens.push_back((*token)->id);
  }
  EXPECT_EQ(tokens, write(*model, prompt, greedy_tokens(4)).tokens);
}

TEST(Generator, AnotherPromptComputesWhatDiffersAndTheLastTokenInAnyCase) {
  const auto model = base();
  auto generator = Generator::start(*model->as_causal_lm(), model->context(), {7, 8, 9}, greedy_tokens(1));
  ASSERT_TRUE(generator);
  ASSERT_TRUE(generator->restart({7, 8, 9}));
  EXPECT_EQ(generator->reused(), 2U);
  EXPECT_EQ((**generator->next()).id, write(*model, {7, 8, 9}, greedy_tokens(1)).tokens[0]);
  ASSERT_TRUE(generator->restart({7, 5}));
  EXPECT_EQ(generator->reused(), 1U);
  EXPECT_EQ((**generator->next()).id, write(*model, {7, 5}, greedy_tokens(1)).tokens[0]);
  EXPECT_FALSE(generator->restart(std::vector<TokenId>(60, 1)));
}

TEST(Generator, ALongPromptCanBeCancelledAndAnotherBegun) {
  const auto model = load_or_die(recorded_model_path("gpt_base"));
  bool cancelled = false;
  GenerateOptions options;
  options.max_tokens = 3;
  options.cancelled = [&] { return cancelled; };
  auto generator = Generator::start(*model->as_causal_lm(), model->context(), {1, 2, 3}, options);
  ASSERT_TRUE(generator) << generator.error().message;
  cancelled = true;
  const Status stopped = generator->restart({1, 2, 4, 5});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  cancelled = false;
  ASSERT_TRUE(generator->restart({1, 2, 4, 5}));
  cancelled = true;  // a token is not a prompt: whoever shows it decides
  EXPECT_TRUE(generator->next());
  EXPECT_TRUE(generator->next());
}

TEST(Generator, RefusesWhatTheModelDoesNotKnow) {
  const auto model = base();
  EXPECT_THAT(refusal(*model, {1, 320}, greedy_tokens(2)), HasSubstr("token 320 at position 1"));
  EXPECT_THAT(refusal(*model, {}, greedy_tokens(2)), HasSubstr("at least one"));
  GenerateOptions options = greedy_tokens(2);
  options.sampling.top_p = 3;
  EXPECT_THAT(refusal(*model, {1}, options), HasSubstr("top-p"));
  EXPECT_THAT(write(*model, {7}, greedy_tokens(1)).tokens, ElementsAre(89));
}

TEST(Generator, RefusesACacheThatTheTextDoesNotFit) {
  const auto model = base();
  GenerateOptions options = greedy_tokens(5);
  options.cache_capacity = 49;
  EXPECT_THAT(refusal(*model, {1, 2}, options), AllOf(HasSubstr("49"), HasSubstr("48")));
  options.cache_capacity = 3;
  EXPECT_THAT(refusal(*model, {1, 2}, options), AllOf(HasSubstr("3"), HasSubstr("6")));
  options.cache_capacity = 6;
  EXPECT_EQ(write(*model, {1, 2}, options).tokens, write(*model, {1, 2}, greedy_tokens(5)).tokens);
}

TEST(Generator, AHalfPrecisionCacheTakesHalfTheMemory) {
  const auto model = base();
  GenerateOptions options = greedy_tokens(4);
  const auto whole = Generator::start(*model->as_causal_lm(), model->context(), {7}, options);
  options.cache_dtype = DType::kF16;
  const auto half = Generator::start(*model->as_causal_lm(), model->context(), {7}, options);
  ASSERT_TRUE(whole && half);
  EXPECT_EQ(half->cache_bytes() * 2, whole->cache_bytes());
  EXPECT_EQ(write(*model, {7}, options).tokens, write(*model, {7}, greedy_tokens(4)).tokens);
}

TEST(Generator, TheSameSeedWritesTheSameTextWhateverTheThreads) {
  GenerateOptions options;
  options.max_tokens = 20;
  options.sampling.seed = 5;
  options.sampling.top_k = 40;
  const auto text = [&](unsigned threads, uint64_t seed) {
    GenerateOptions seeded = options;
    seeded.sampling.seed = seed;
    return write(*load_or_die(recorded_model_path("gpt_base"), {.threads = threads}), {7, 8}, seeded).tokens;
  };
  const auto one = text(1, 5);
  EXPECT_EQ(one.size(), 20U);
  EXPECT_EQ(text(2, 5), one);
  EXPECT_EQ(text(7, 5), one);
  EXPECT_NE(text(1, 6), one);
}

TEST(Generator, PiecesOfALongPromptGiveTheBitsOfTheWhole) {
  // Piece by piece with a past, against the prompt at once.
  const auto model = load_or_die(recorded_model_path("ministral_yarn"));
  const CausalLm& lm = *model->as_causal_lm();
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < 40; ++id) ids.push_back(id * 7 % 320);
  auto past = make_lone_past(lm, model->context(), ids.size());
  ASSERT_TRUE(past);
  Tensor last;
  for (size_t at = 0; at < ids.size(); at += 13) {
    const auto piece = std::span(ids).subspan(at).first(std::min<size_t>(13, 40 - at));
    const auto logits = forward_past(lm, model->context(), *past, piece, ids.size(), LogitRows::kLast);
    ASSERT_TRUE(logits) << logits.error().message;
    last = *logits;
  }
  const auto whole = lm.forward_tokens(model->context(), ids, LogitRows::kLast);
  ASSERT_TRUE(whole);
  const std::vector<float> expected = read_floats(*whole);
  ASSERT_FALSE(expected.empty());
  EXPECT_TRUE(read_floats(last) == expected);
  EXPECT_EQ(past->length(), 40U);
}

}  // namespace
}  // namespace ballast::testing
