#include "ballast/serve/prompt_scores.h"

#include <gtest/gtest.h>

#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

TEST(PromptScores, EndWhereNobodyWantsThemAnyMore) {
  const auto model = TextModel::open(default_model_file(), {.load = {.threads = 1}});
  ASSERT_TRUE(model) << model.error().message;
  const auto tokenizer = model->tokenizer();
  ASSERT_TRUE(tokenizer);
  const std::vector<TokenId> tokens(200, 40);
  int asked = 0;
  const auto left = serve::score_prompt(*model, **tokenizer, tokens, 1, [&] { return ++asked < 3; });
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(asked, 3);
  const auto whole = serve::score_prompt(*model, **tokenizer, tokens, 1, [] { return true; });
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->size(), tokens.size());
}

}  // namespace
}  // namespace ballast::testing
