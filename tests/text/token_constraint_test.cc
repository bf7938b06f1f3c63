#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "ballast/runtime/text_model.h"
#include "ballast/text/constraint.h"
#include "ballast/text/constraint/schema_document.h"
#include "ballast/text/load_tokenizer.h"
#include "tests/support/random_schema.h"
#include "tests/support/recorded_models.h"
#include "tests/support/schema_validator.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

Tokenizer tokenizer_at(const std::string& path) {
  auto tokenizer = load_tokenizer(path);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}
Tokenizer default_tokenizer() {
  const std::string model = default_model_file();
  return tokenizer_at(model.substr(0, model.rfind('/')) + "/tokenizer.json");
}
std::shared_ptr<const TokenTrees> trees_of(const Tokenizer& tokenizer) {
  auto trees = make_token_trees(tokenizer);
  EXPECT_TRUE(trees) << trees.error().message;
  return *trees;
}

size_t vocabulary_of(const Tokenizer& tokenizer) { return tokenizer.size() + 8; }  // models round up

// What a rule leaves of a vocabulary.
std::vector<TokenId> allowed_by(TokenConstraint::Rule& rule, const std::vector<TokenId>& text, size_t vocabulary) {
  std::vector<float> logits(vocabulary);
  const Status status = rule(logits, text);
  EXPECT_TRUE(status) << status.error().message;
  std::vector<TokenId> allowed;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isfinite(logits[id])) allowed.push_back(static_cast<TokenId>(id));
  }
  return allowed;
}

// ---------------------------------------------------------------- rules of texts

TEST(TokenConstraint, AllowsTheEndExactlyWhereTheTextIsComplete) {
  const Tokenizer tokenizer = default_tokenizer();
  const TokenId end = *tokenizer.find("<|endoftext|>");
  const auto constraint = Constraint::of_regex("ab?");
  const auto made = TokenConstraint::make(*constraint, trees_of(tokenizer));
  ASSERT_TRUE(made);
  auto rule = (*made)(2, std::vector<TokenId>{end});
  const TokenId a = *tokenizer.find("a"), b = *tokenizer.find("b");
  std::vector<TokenId> text = {a, a};  // the prompt
  const auto first = allowed_by(rule, text, vocabulary_of(tokenizer));
  EXPECT_EQ(std::ranges::count(first, end), 0);
  EXPECT_EQ(std::ranges::count(first, a), 1);
  text.push_back(a);
  auto forked = rule;
  EXPECT_THAT(allowed_by(rule, text, vocabulary_of(tokenizer)), ::testing::UnorderedElementsAre(b, end));
  text.push_back(b);
  EXPECT_THAT(allowed_by(rule, text, vocabulary_of(tokenizer)), ::testing::ElementsAre(end));
  EXPECT_THAT(allowed_by(forked, text, vocabulary_of(tokenizer)), ::testing::ElementsAre(end));
  // Another text than the one it has seen, as after a restart.
  text.pop_back();
  EXPECT_THAT(allowed_by(rule, text, vocabulary_of(tokenizer)), ::testing::UnorderedElementsAre(b, end));
  text.pop_back();
  EXPECT_EQ(allowed_by(rule, text, vocabulary_of(tokenizer)), first);
  text.push_back(b);
  std::vector<float> logits(vocabulary_of(tokenizer));
  const Status broken = rule(logits, text);
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("breaks the constraint"));
}

TEST(TokenConstraint, IsAbandonedOnceNobodyHasTheConstraint) {
  const auto trees = trees_of(default_tokenizer());
  auto constraint = std::make_optional(*Constraint::of_regex("ab?"));
  const auto made = TokenConstraint::make(*constraint, trees);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->is_of(*constraint));
  EXPECT_FALSE(made->is_abandoned());
  constraint.reset();
  EXPECT_TRUE(made->is_abandoned());
}

TEST(TokenConstraint, ATextThatCannotEndIsAnError) {
  const Tokenizer tokenizer = default_tokenizer();
  const auto made = TokenConstraint::make(*Constraint::of_regex("a"), trees_of(tokenizer));
  ASSERT_TRUE(made);
  auto rule = (*made)(0, {});
  std::vector<float> logits(tokenizer.size());
  const Status status = rule(logits, {});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("must be able to end"));
}

TEST(TokenConstraint, WhatTheVocabularyCannotSpellIsAnError) {
  const Tokenizer tokenizer = tokenizer_at(test_file_path("tokenizers/wordlevel.json"));
  const auto made = TokenConstraint::make(*Constraint::of_regex("\\x01{7}"), trees_of(tokenizer));
  ASSERT_TRUE(made);
  auto rule = (*made)(0, std::vector<TokenId>{0});
  std::vector<float> logits(tokenizer.size());
  const Status status = rule(logits, {});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("cannot spell"));
}

// ---------------------------------------------------------------- random schemas

// A text of tokens that are drawn from the allowed ones. Endings are preferred, or strings would go on for long.
std::optional<std::string> random_text(const TokenConstraint& constraint, const Tokenizer& tokenizer, unsigned seed) {
  const TokenId end = *tokenizer.find("<|endoftext|>");
  auto rule = constraint(0, std::vector<TokenId>{end});
  std::mt19937 random(seed);
  std::vector<TokenId> text;
  for (int step = 0; step < 1500; ++step) {
    const std::vector<TokenId> allowed = allowed_by(rule, text, vocabulary_of(tokenizer));
    if (allowed.empty()) return std::nullopt;
    std::vector<TokenId> preferred = allowed;
    if (random() % 3 == 0) {
      std::erase_if(preferred, [&](TokenId id) {
        return id != end && tokenizer.bytes_of(id)->find_first_of("\"]}") == std::string_view::npos;
      });
    }
    if (preferred.empty()) preferred = allowed;
    const TokenId chosen = preferred[random() % preferred.size()];
    if (chosen == end) return *tokenizer.decode(text);
    EXPECT_FALSE(tokenizer.is_special(chosen));
    text.push_back(chosen);
  }
  return std::nullopt;
}

// One that is complete is valid, which is what is returned.
bool writes_what_is_valid(const std::string& schema, const Constraint& constraint, const Tokenizer& tokenizer,
                          const std::shared_ptr<const TokenTrees>& trees, unsigned seed) {
  const auto tokens = TokenConstraint::make(constraint, trees);
  EXPECT_TRUE(tokens);
  const auto text = random_text(*tokens, tokenizer, seed);
  if (!text) return false;
  EXPECT_TRUE(constraint.accepts(*text));
  const auto rules = SchemaDocument::parse(schema), value = SchemaDocument::parse(*text);
  EXPECT_TRUE(value) << *text;
  EXPECT_TRUE(value && SchemaValidator(*rules, *value).accepts()) << schema << "\n" << *text;
  return true;
}

TEST(TokenConstraint, EveryTextOfARandomSchemaIsValid) {
  constexpr unsigned kSchemas = 400;
  const Tokenizer tokenizer = default_tokenizer();
  const auto trees = trees_of(tokenizer);
  unsigned complete = 0;
  for (unsigned seed = 0; seed < kSchemas; ++seed) {
    const std::string schema = RandomSchema(seed).make();
    const auto constraint = Constraint::of_schema(schema);
    ASSERT_TRUE(constraint) << schema << ": " << constraint.error().message;
    if (writes_what_is_valid(schema, *constraint, tokenizer, trees, seed)) ++complete;
  }
  EXPECT_GT(complete, kSchemas * 9 / 10);
}

// Some of them contradict themselves, or cannot be enforced, which is said.
TEST(TokenConstraint, EveryTextOfRandomSchemasThatApplyTogetherIsValid) {
  constexpr unsigned kSchemas = 600;
  const Tokenizer tokenizer = default_tokenizer();
  const auto trees = trees_of(tokenizer);
  unsigned complete = 0;
  for (unsigned seed = 0; seed < kSchemas; ++seed) {
    const std::string schema = RandomSchema(seed).make_combined();
    const auto constraint = Constraint::of_schema(schema);
    if (!constraint) {
      EXPECT_THAT(constraint.error().message, HasSubstr("schema: ")) << schema;
      continue;
    }
    if (writes_what_is_valid(schema, *constraint, tokenizer, trees, seed)) ++complete;
  }
  EXPECT_GT(complete, kSchemas / 2);
}

// ---------------------------------------------------------------- models

TEST(TokenConstraint, ARealModelWritesJson) {
  const auto model = TextModel::open(default_model_file());
  ASSERT_TRUE(model) << model.error().message;
  const auto constraint = Constraint::of_schema(
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":0,"maximum":120},)"
      R"("tags":{"type":"array","items":{"enum":["kind","proud"]},"maxItems":3}},"required":["name","age","tags"]})");
  ASSERT_TRUE(constraint) << constraint.error().message;
  const auto tokens = model->constrain(*constraint);
  ASSERT_TRUE(tokens) << tokens.error().message;
  GenerateOptions options = model->generate_options();
  options.constraint = *tokens;
  options.max_tokens = 200;
  options.sampling.temperature = 1;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    options.sampling.seed = seed;
    auto generator = model->start("Emma was", options);
    ASSERT_TRUE(generator) << generator.error().message;
    std::vector<TokenId> written;
    for (;;) {
      const auto token = generator->next();
      ASSERT_TRUE(token) << token.error().message;
      if (!*token) break;
      written.push_back((*token)->id);
    }
    EXPECT_EQ(generator->stop_reason(), StopReason::kStopToken);
    const std::string text = *model->decode(written);
    EXPECT_TRUE(constraint->accepts(text)) << text;
    EXPECT_TRUE(SchemaDocument::parse(text)) << text;
    // Cut off, it is known to be incomplete.
    EXPECT_FALSE(constraint->accepts(text.substr(0, text.size() - 1)));
  }
}

}  // namespace
}  // namespace ballast::testing
