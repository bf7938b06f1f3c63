#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>

#include "ballast/base/utf8.h"
#include "ballast/runtime/text_model.h"
#include "ballast/text/constraint.h"
#include "ballast/text/constraint/schema_document.h"
#include "ballast/text/load_tokenizer.h"
#include "tests/support/random_schema.h"
#include "tests/support/recorded_models.h"
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

// What a schema accepts, written down without regard to how Ballast enforces it.
class Validator {
 public:
  Validator(const SchemaDocument& schema, const SchemaDocument& value) : schema_(schema), value_(value) {}

  bool accepts(SchemaId schema, SchemaId value) const {
    const auto& found = value_[value];
    if (schema_[schema].type == JsonType::kTrue) return true;
    if (const auto reference = schema_.find(schema, "$ref"))
      return accepts(*schema_.resolve(schema_[*reference].text), value);
    if (const auto any = schema_.find(schema, "anyOf")) {
      return std::ranges::any_of(schema_[*any].elements, [&](SchemaId branch) { return accepts(branch, value); });
    }
    if (const auto single = schema_.find(schema, "const"); single && !same(*single, value)) return false;
    if (const auto list = schema_.find(schema, "enum")) {
      if (std::ranges::none_of(schema_[*list].elements, [&](SchemaId one) { return same(one, value); })) return false;
    }
    if (const auto type = schema_.find(schema, "type")) {
      const auto& named = schema_[*type];
      const bool fits =
          named.elements.empty()
              ? has_type(named.text, value)
              : std::ranges::any_of(named.elements, [&](SchemaId one) { return has_type(schema_[one].text, value); });
      if (!fits) return false;
    }
    switch (found.type) {
      case JsonType::kObject: return object(schema, value);
      case JsonType::kArray: return array(schema, value);
      case JsonType::kString: return string(schema, found.text);
      case JsonType::kNumber: return number(schema, found.number);
      default: return true;
    }
  }

 private:
  bool same(SchemaId a, SchemaId b) const { return schema_.to_json(a) == value_.to_json(b); }
  bool has_type(const std::string& type, SchemaId value) const {
    static const std::map<std::string, std::vector<JsonType>> kTypes = {
        {"object", {JsonType::kObject}},  {"array", {JsonType::kArray}},
        {"string", {JsonType::kString}},  {"number", {JsonType::kNumber}},
        {"integer", {JsonType::kNumber}}, {"boolean", {JsonType::kTrue, JsonType::kFalse}},
        {"null", {JsonType::kNull}}};
    const auto& allowed = kTypes.at(type);
    const bool is_whole = type != "integer" || std::floor(value_[value].number) == value_[value].number;
    return std::ranges::find(allowed, value_[value].type) != allowed.end() && is_whole;
  }
  double limit(SchemaId schema, const char* keyword, double otherwise) const {
    const auto found = schema_.find(schema, keyword);
    return found ? schema_[*found].number : otherwise;
  }
  bool object(SchemaId schema, SchemaId value) const {
    const auto properties = schema_.find(schema, "properties");
    const auto additional = schema_.find(schema, "additionalProperties");
    for (const auto& [name, member] : value_[value].members) {
      const auto known = properties ? schema_.find(*properties, name) : std::nullopt;
      if (known && !accepts(*known, member)) return false;
      if (!known && additional && (schema_[*additional].type == JsonType::kFalse || !accepts(*additional, member)))
        return false;
    }
    const auto required = schema_.find(schema, "required");
    return !required || std::ranges::all_of(schema_[*required].elements, [&](SchemaId name) {
      return value_.find(value, schema_[name].text).has_value();
    });
  }
  bool array(SchemaId schema, SchemaId value) const {
    const auto& elements = value_[value].elements;
    const auto count = static_cast<double>(elements.size());
    if (count < limit(schema, "minItems", 0) || count > limit(schema, "maxItems", 1e9)) return false;
    const auto first = schema_.find(schema, "prefixItems"), items = schema_.find(schema, "items");
    const size_t prefix = first ? schema_[*first].elements.size() : 0;
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i < prefix && !accepts(schema_[*first].elements[i], elements[i])) return false;
      if (i >= prefix && items && !accepts(*items, elements[i])) return false;
    }
    return true;
  }
  bool number(SchemaId schema, double value) const {
    return value >= limit(schema, "minimum", -1e300) && value <= limit(schema, "maximum", 1e300) &&
           value > limit(schema, "exclusiveMinimum", -1e300) && value < limit(schema, "exclusiveMaximum", 1e300);
  }
  // Formats and patterns by what they must consist of.
  bool string(SchemaId schema, const std::string& text) const {
    double length = 0;
    for (const char c : text) length += (static_cast<unsigned char>(c) & 0xC0U) != 0x80 ? 1 : 0;
    if (!is_valid_utf8(text) || length < limit(schema, "minLength", 0) || length > limit(schema, "maxLength", 1e9))
      return false;
    const auto only = [&](std::string_view allowed) { return text.find_first_not_of(allowed) == std::string::npos; };
    const auto found = schema_.find(schema, "format");
    const std::string format = found ? schema_[*found].text : "";
    if (format == "uuid") return text.size() == 36 && text[8] == '-' && only("0123456789abcdefABCDEF-");
    if (format == "ipv4") return std::ranges::count(text, '.') == 3 && only("0123456789.");
    if (format == "email") return std::ranges::count(text, '@') == 1 && text.rfind('.') > text.find('@');
    if (format == "date-time")
      return text.size() >= 20 && text[4] == '-' && text[10] == 'T' && only("0123456789-:TZ.+");
    if (schema_.find(schema, "pattern")) {
      return only("abcdefghijklmnopqrstuvwxyz-0123456789") && text.size() >= 2 &&
             std::islower(static_cast<unsigned char>(text[0])) != 0;
    }
    return true;
  }

  const SchemaDocument& schema_;
  const SchemaDocument& value_;
};

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

TEST(TokenConstraint, EveryTextOfARandomSchemaIsValid) {
  constexpr unsigned kSchemas = 400;
  const Tokenizer tokenizer = default_tokenizer();
  const auto trees = trees_of(tokenizer);
  unsigned complete = 0;
  for (unsigned seed = 0; seed < kSchemas; ++seed) {
    const std::string schema = RandomSchema(seed).make();
    const auto constraint = Constraint::of_schema(schema);
    ASSERT_TRUE(constraint) << schema << ": " << constraint.error().message;
    const auto tokens = TokenConstraint::make(*constraint, trees);
    ASSERT_TRUE(tokens);
    const auto text = random_text(*tokens, tokenizer, seed);
    if (!text) continue;
    ++complete;
    EXPECT_TRUE(constraint->accepts(*text));
    const auto rules = SchemaDocument::parse(schema), value = SchemaDocument::parse(*text);
    ASSERT_TRUE(value) << *text << ": " << value.error().message;
    EXPECT_TRUE(Validator(*rules, *value).accepts(SchemaDocument::kRoot, SchemaDocument::kRoot)) << schema << "\n"
                                                                                                 << *text;
  }
  EXPECT_GT(complete, kSchemas * 9 / 10);
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
