#include "ballast/base/json_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ballast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kText = R"({
  "name": "small", "layers": 4, "scale": 0.5, "tied": true, "nothing": null, "far": Infinity,
  "rope": {"factor": "x", "inner": {"theta": "y"}}, "list": [1, 2], "words": ["a", "b"], "mixed": [1, "b"]})";

JsonObject sample(const JsonRules& rules = kSettingsRules) {
  auto object = JsonObject::parse(kText, "sample.json", rules);
  EXPECT_TRUE(object);
  return *std::move(object);
}

std::string message(const Error& error) { return error.message; }

TEST(JsonObject, GivesMembersByNameAndType) {
  const JsonObject object = sample();
  EXPECT_EQ(*object.text("name"), "small");
  EXPECT_EQ(*object.count("layers"), 4U);
  EXPECT_EQ(*object.number("scale"), 0.5);
  EXPECT_EQ(*object.number("layers"), 4);
  EXPECT_TRUE(*object.truth_or("tied", false));
  EXPECT_EQ(*object.find("rope"), R"({"factor": "x", "inner": {"theta": "y"}})");
  EXPECT_THAT(*object.counts("list"), ElementsAre(1, 2));
  EXPECT_THAT(*object.numbers("list"), ElementsAre(1, 2));
  EXPECT_THAT(*object.texts("words"), ElementsAre("a", "b"));
  EXPECT_THAT(*object.elements("mixed"), ElementsAre("1", "\"b\""));
}

TEST(JsonObject, WhatIsAbsentIsAnErrorADefaultOrNothing) {
  const JsonObject object = sample();
  EXPECT_EQ(message(object.count("width").error()), "sample.json: \"width\" is missing");
  EXPECT_EQ(message(object.object("width").error()), "sample.json: \"width\" is missing");
  EXPECT_EQ(message(object.texts("width").error()), "sample.json: \"width\" is missing");
  EXPECT_EQ(*object.count_or("width", 7), 7U);
  EXPECT_EQ(*object.text_or("width", "w"), "w");
  EXPECT_EQ(*object.number_or("width", 2.5), 2.5);
  EXPECT_TRUE(*object.truth_or("width", true));
  EXPECT_EQ(*object.find_count("width"), std::nullopt);
  EXPECT_EQ(*object.find_text("width"), std::nullopt);
  EXPECT_EQ(*object.find_object("width") == std::nullopt, true);
  EXPECT_TRUE(object.elements("width")->empty());
}

TEST(JsonObject, NullCountsAsAbsentButIsMentioned) {
  const JsonObject object = sample();
  EXPECT_FALSE(object.has("nothing"));
  EXPECT_EQ(*object.count_or("nothing", 3), 3U);
  EXPECT_THAT(message(object.count("nothing").error()), HasSubstr("is missing"));
  EXPECT_TRUE(object.mentions("nothing"));
  EXPECT_FALSE(object.mentions("width"));
}

TEST(JsonObject, OtherTypesAreErrorsThatShowTheValue) {
  const JsonObject object = sample();
  EXPECT_EQ(message(object.count("name").error()), "sample.json: \"name\" is \"small\", not a whole number");
  EXPECT_EQ(message(object.count_or("scale", 1).error()), "sample.json: \"scale\" is 0.5, not a whole number");
  EXPECT_EQ(message(object.find_text("layers").error()), "sample.json: \"layers\" is 4, not a text");
  EXPECT_EQ(message(object.truth_or("layers", true).error()), "sample.json: \"layers\" is 4, not true or false");
  EXPECT_EQ(message(object.object("list").error()), "sample.json: \"list\" is [1, 2], not an object");
  EXPECT_EQ(message(object.counts("mixed").error()),
            "sample.json: \"mixed\" is [1, \"b\"], not a list of whole numbers");
  EXPECT_EQ(message(object.elements("name").error()), "sample.json: \"name\" is \"small\", not a list");
}

TEST(JsonObject, LongValuesAreShownByTheirBeginning) {
  const std::string text = R"({"name": ")" + std::string(100, 'x') + "\"}";
  const auto object = JsonObject::parse(text, "t");
  EXPECT_EQ(message(object->count("name").error()),
            "t: \"name\" is \"" + std::string(39, 'x') + "..., not a whole number");
}

TEST(JsonObject, ErrorsNameThePathOfAMember) {
  const JsonObject object = sample();
  const auto rope = object.object("rope");
  ASSERT_TRUE(rope);
  EXPECT_EQ(message(rope->number("factor").error()), "sample.json: \"rope.factor\" is \"x\", not a number");
  EXPECT_EQ(message(rope->object("inner")->count("theta").error()),
            "sample.json: \"rope.inner.theta\" is \"y\", not a whole number");
  EXPECT_EQ(message(rope->error("factor", "is odd")), "sample.json: \"rope.factor\" is odd");
}

TEST(JsonObject, OnlyFindRealGivesInfinities) {
  const JsonObject object = sample();
  EXPECT_EQ(**object.find_real("far"), HUGE_VAL);
  EXPECT_EQ(message(object.number("far").error()), "sample.json: \"far\" is Infinity, not a finite number");
  EXPECT_THAT(message(JsonObject::parse(R"({"l": [1, NaN]})", "t")->numbers("l").error()),
              HasSubstr("not a list of numbers"));
}

TEST(JsonObject, OfTwoMembersOfOneNameTheLastCounts) {
  const auto object = JsonObject::parse(R"({"a": 1, "a": 2, "b": 1, "b": null})", "t");
  EXPECT_EQ(*object->count("a"), 2U);
  EXPECT_FALSE(object->has("b"));
}

TEST(JsonObject, RulesSayWhatIsTakenAndWhatErrorsAre) {
  constexpr std::string_view kNan = R"({"a": NaN})";
  EXPECT_TRUE(JsonObject::parse(kNan, "t"));
  EXPECT_TRUE(JsonObject::parse(kNan, "t", kConfigRules));
  EXPECT_EQ(JsonObject::parse(kNan, "t", kStrictRules).error().code, ErrorCode::kCorrupt);
  constexpr std::string_view kBroken = R"({"a": 1)";
  EXPECT_EQ(JsonObject::parse(kBroken, "t").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(JsonObject::parse(kBroken, "t", kConfigRules).error().code, ErrorCode::kCorrupt);
  for (const JsonRules& rules : {kSettingsRules, kConfigRules, kStrictRules}) {
    EXPECT_EQ(JsonObject::parse("{}", "t", rules)->count("a").error().code, rules.wrong);
  }
}

TEST(JsonObject, TakesNothingBehindTheObject) {
  EXPECT_THAT(message(JsonObject::parse("{} {}", "t").error()), HasSubstr("something follows"));
  EXPECT_FALSE(JsonObject::parse("[]", "t"));
  EXPECT_FALSE(JsonObject::parse("null", "t"));
}

TEST(JsonObject, NullHasNoMembersWhereItIsAllowed) {
  EXPECT_FALSE(JsonObject::parse_or_null(" null ", "t")->has("a"));
  EXPECT_EQ(*JsonObject::parse_or_null(R"({"a": 1})", "t")->count("a"), 1U);
  EXPECT_FALSE(JsonObject::parse_or_null("null null", "t"));
}

}  // namespace
}  // namespace ballast
