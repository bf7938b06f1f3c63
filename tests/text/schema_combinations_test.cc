// Schemas that apply together: nothing that one of them says is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ballast/text/constraint.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

void expect_schema(std::string_view schema, const std::vector<std::string>& accepted,
                   const std::vector<std::string>& refused) {
  const auto made = Constraint::of_schema(schema);
  ASSERT_TRUE(made) << schema << ": " << made.error().message;
  for (const std::string& text : accepted) EXPECT_TRUE(made->accepts(text)) << schema << "\n" << text;
  for (const std::string& text : refused) EXPECT_FALSE(made->accepts(text)) << schema << "\n" << text;
}

Error error_of(std::string_view schema) {
  const auto made = Constraint::of_schema(schema);
  EXPECT_FALSE(made) << schema;
  return made ? Error{} : made.error();
}

TEST(SchemaCombinations, AllOfKeepsTheKeywordsOfEveryBranch) {
  expect_schema(R"({"allOf":[{"type":"integer"},{"minimum":3,"maximum":9}]})", {"3", "9"}, {"2", "10", "{}", "3.5"});
  expect_schema(R"({"type":"string","allOf":[{"enum":["x","y"]}]})", {"\"x\"", "\"y\""}, {"\"z\"", "{}"});
  expect_schema(R"({"allOf":[{"type":"number"},{"type":["integer","null"]}],"minimum":0})", {"0", "7"},
                {"null", "0.5", "-1"});
  expect_schema(R"({"allOf":[{"minLength":2},{"maxLength":3,"type":"string"}]})", {"\"ab\""},
                {"\"a\"", "\"abcd\"", "1"});
  expect_schema(R"({"allOf":[{"allOf":[{"minimum":1},{"maximum":5}]},{"type":"integer"}]})", {"1", "5"}, {"0", "6"});
}

// As pydantic and others write a field with a description of its own.
TEST(SchemaCombinations, AReferenceMayHaveAnnotationsBesideIt) {
  const std::string defs = R"(,"$defs":{"C":{"enum":["a","b"],"type":"string"}}})";
  for (const char* schema :
       {R"({"allOf":[{"$ref":"#/$defs/C"},{"description":"q"}])", R"({"allOf":[{"$ref":"#/$defs/C"}])",
        R"({"allOf":[{"$ref":"#/$defs/C"},true],"title":"t","default":"a")",
        R"({"$ref":"#/$defs/C","description":"q","type":"string")"}) {
    expect_schema(schema + defs, {"\"a\"", "\"b\""}, {"\"c\"", "{}", "null"});
  }
}

TEST(SchemaCombinations, WhatIsBesideAReferenceCounts) {
  const std::string defs = R"(,"$defs":{"n":{"type":"integer","maximum":5},"e":{"enum":["a","b","long"]}}})";
  expect_schema(R"({"$ref":"#/$defs/n","minimum":2)" + defs, {"2", "5"}, {"1", "6"});
  expect_schema(R"({"$ref":"#/$defs/e","maxLength":1)" + defs, {"\"a\"", "\"b\""}, {"\"long\""});
  expect_schema(R"({"$id":"own","$ref":"#/$defs/e","maxLength":1)" + defs, {"\"a\""}, {"\"long\""});
  expect_schema(R"({"$ref":"#/$defs/e","enum":["b","c"])" + defs, {"\"b\""}, {"\"a\"", "\"c\""});
}

TEST(SchemaCombinations, AlternativesKeepWhatIsBesideThem) {
  expect_schema(R"({"type":"integer","anyOf":[{"maximum":-3},{"minimum":3},{"type":"string"}]})", {"-3", "3"},
                {"0", "\"\"", "3.5"});
  expect_schema(R"({"allOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},)"
                R"({"anyOf":[{"properties":{"b":{"const":2}},"required":["b"]},{"required":["c"]}]}]})",
                {R"({"a":1,"b":2})", R"({"a":1,"c":[]})"}, {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":3})"});
  expect_schema(R"({"anyOf":[{"minimum":3},{"type":"string"}],"oneOf":[{"type":"integer"},{"type":"boolean"}]})",
                {"3", "true"}, {"2", "\"a\""});
  expect_schema(R"({"type":"integer","oneOf":[{"maximum":2},{"minimum":3}]})", {"2", "3"}, {"2.5"});
}

TEST(SchemaCombinations, APropertyOfSeveralSchemasMustSatisfyAll) {
  expect_schema(R"({"allOf":[{"type":"object","properties":{"a":{"minimum":2}}},)"
                R"({"properties":{"a":{"type":"integer","maximum":4}},"required":["a"]}]})",
                {R"({"a":2})", R"({"a":4})"}, {"{}", R"({"a":1})", R"({"a":5})", R"({"a":"x"})"});
  expect_schema(
      R"({"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"properties":{"a":{"type":"null"}}}]})",
      {"{}"}, {R"({"a":""})", R"({"a":null})", R"({"b":1})"});
}

TEST(SchemaCombinations, AdditionalPropertiesHoldForWhatOthersName) {
  const char* const closed =
      R"({"allOf":[{"type":"object","properties":{"a":{"const":1}},"additionalProperties":false},)"
      R"({"properties":{"a":true,"b":{"const":2}}}]})";
  expect_schema(closed, {"{}", R"({"a":1})"}, {R"({"a":1,"b":2})", R"({"b":2})"});
  expect_schema(
      R"({"properties":{"b":{"minimum":2}},"allOf":[{"type":"object","additionalProperties":{"type":"integer"}}]})",
      {R"({"b":2})", "{}"}, {R"({"b":2.5})", R"({"b":1})"});
  expect_schema(
      R"({"allOf":[{"type":"object","additionalProperties":{"minimum":2}},{"additionalProperties":{"type":"integer"}}]})",
      {R"({"x":2})", "{}"}, {R"({"x":1})", R"({"x":2.5})", R"({"x":"a"})"});
  expect_schema(
      R"({"type":"object","additionalProperties":{"const":1},"allOf":[{"additionalProperties":{"const":2}}]})", {"{}"},
      {R"({"x":1})", R"({"x":2})"});
  expect_schema(R"({"type":"object","properties":{"a":false}})", {"{}"}, {R"({"a":1})"});
}

TEST(SchemaCombinations, ElementsMustSatisfyAll) {
  expect_schema(
      R"({"allOf":[{"type":"array","items":{"minimum":2},"minItems":1},{"items":{"type":"integer"},"maxItems":2}]})",
      {"[2]", "[2,3]"}, {"[]", "[1]", "[2,2,2]", "[2.5]"});
  expect_schema(
      R"({"allOf":[{"prefixItems":[{"type":"string"},{"type":"string"}]},{"items":{"maxLength":1},"type":"array"}]})",
      {"[]", R"(["a"])", R"(["a","b"])"}, {R"(["ab"])", "[1]"});
  expect_schema(R"({"type":"array","prefixItems":[{"const":1},false]})", {"[]", "[1]"}, {"[1,1]", "[1,null]"});
}

TEST(SchemaCombinations, ListedValuesAreThoseThatAllAccept) {
  expect_schema(R"({"enum":[1,2,3,"x",2.5],"minimum":2,"type":"number"})", {"2", "3", "2.5"}, {"1", "\"x\""});
  expect_schema(R"({"enum":["a","abc"],"minLength":2})", {"\"abc\""}, {"\"a\""});
  expect_schema(R"({"allOf":[{"enum":["a","b"]},{"enum":["b","c"]}]})", {"\"b\""}, {"\"a\"", "\"c\""});
  expect_schema(R"({"anyOf":[{"const":1},{"const":"x"}],"type":"string"})", {"\"x\""}, {"1"});
}

// As OpenAPI 3.0.3 has it: other keywords still apply to null.
TEST(SchemaCombinations, NullableBelongsToTheTypeBesideIt) {
  expect_schema(R"({"type":"string","nullable":true,"maxLength":1})", {"null", "\"a\""}, {"\"ab\""});
  expect_schema(R"({"type":"string","nullable":true,"enum":["a",null]})", {"null", "\"a\""}, {"\"b\""});
  expect_schema(R"({"type":"string","nullable":true,"enum":["a"]})", {"\"a\""}, {"null"});
  expect_schema(R"({"anyOf":[{"const":1}],"nullable":true})", {"1"}, {"null"});
  expect_schema(R"({"type":"integer","nullable":true,"allOf":[{"minimum":1}]})", {"1", "null"}, {"0"});
}

TEST(SchemaCombinations, ReferencesThatLeadToThemselvesWorkBesideOthers) {
  const char* const tree =
      R"({"$ref":"#/$defs/node","required":["v"],"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},)"
      R"("next":{"allOf":[{"$ref":"#/$defs/node"},{"required":["v"]}]}}}}})";
  expect_schema(tree, {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"},
                {"{}", R"({"v":1,"next":{}})", R"({"v":1,"next":{"v":1,"next":{}}})"});
  EXPECT_THAT(error_of(R"({"allOf":[{"$ref":"#"},{"type":"integer"}]})").message, HasSubstr("leads back to itself"));
}

TEST(SchemaCombinations, WhatCannotBeMergedIsRefusedByNameAndPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"allOf":[{"type":"integer"},{"not":{"const":3}}]})", "/allOf/1/not"},
      {R"({"allOf":[{"type":"object"},{"patternProperties":{"a":{}}}]})", "/allOf/1/patternProperties"},
      {R"({"allOf":[{"type":"integer"},{"multipleOf":2}]})", "/allOf/1/multipleOf"},
      {R"({"allOf":[{"type":"object"},{"if":{},"then":false}]})", "/allOf/1/if"},
      {R"({"allOf":[{"type":"object"},{"dependentRequired":{}}]})", "/allOf/1/dependentRequired"},
      {R"({"allOf":[{"type":"object"},{"propertyNames":{}}]})", "/allOf/1/propertyNames"},
      {R"({"allOf":[{"type":"object"}],"unevaluatedProperties":false})", "/unevaluatedProperties"},
      {R"({"allOf":[{"type":"array"},{"contains":{}}]})", "/allOf/1/contains"},
      {R"({"allOf":[{"type":"array"},{"uniqueItems":true}]})", "/allOf/1/uniqueItems"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", "/allOf/1/pattern"},
      {R"({"allOf":[{"pattern":"a"},{"maxLength":3}]})", "/allOf/1/maxLength"},
      {R"({"allOf":[{"enum":["a"]},{"pattern":"a"}]})", "/allOf/1/pattern"},
      {R"({"enum":[{"a":1}],"properties":{"a":{"const":1}}})", "/properties"},
      {R"({"properties":{"a":{"$id":"b","items":{"$ref":"#/$defs/c"},"$defs":{"c":{}}}}})", "/properties/a/items/$ref"},
      {R"({"$ref":"#/$defs/a","not":{},"$defs":{"a":{}}})", "/not"},
      {R"({"allOf":[{"oneOf":[{"minimum":1},{"maximum":2}]}],"type":"integer"})", "/allOf/0/oneOf"}};
  for (const auto& [schema, place] : cases) {
    const Error error = error_of(schema);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << schema << error.message;
    EXPECT_THAT(error.message, HasSubstr(std::string("schema: ") + place + ":")) << schema;
  }
}

TEST(SchemaCombinations, ContradictionsAreErrors) {
  for (const char* schema :
       {R"({"allOf":[{"type":"integer"},{"type":"string"}]})", R"({"allOf":[{"enum":[1]},{"enum":[2]}]})",
        R"({"type":"string","anyOf":[{"type":"integer"},false]})", R"({"allOf":[true,false]})",
        R"({"allOf":[{"type":"integer","minimum":5},{"maximum":4}]})", R"({"allOf":[]})",
        R"({"allOf":[{"type":"object","properties":{"a":{"const":1}}},)"
        R"({"properties":{"a":{"const":2}},"required":["a"]}]})"}) {
    EXPECT_EQ(error_of(schema).code, ErrorCode::kInvalidArgument) << schema;
  }
}

// Steps are limited: without that, some of these would not end.
TEST(SchemaCombinations, HostileOnesEndInAnErrorOrAGrammar) {
  std::string product = R"({"allOf":[)", wide = R"({"oneOf":[)", properties, junk;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "p" + std::to_string(i);
    product += (i == 0 ? "" : ",") + (R"({"anyOf":[{"properties":{")" + name + R"(":{"const":1}}},{"properties":{")") +
               name + R"(":{"const":2}}}]})";
  }
  for (int i = 0; i < 3000; ++i) junk += ",\"x" + std::to_string(i) + "\":1";
  for (int i = 0; i < 2000; ++i)
    wide += (i == 0 ? "" : ",") + (R"({"type":"object","minLength":)" + std::to_string(i)) + "}";
  for (int i = 0; i < 6000; ++i)
    properties += (i == 0 ? "" : ",") + (R"({"properties":{"a)" + std::to_string(i)) + R"(":{}}})";
  for (const std::string& schema :
       {product + R"(],"type":"object"})", wide + "]}", R"({"allOf":[)" + properties + "]}",
        R"({"additionalProperties":{"type":"null"},"allOf":[)" + properties + "]}",
        R"({"type":"object")" + junk + R"(,"oneOf":[)" + wide.substr(10, 40'000) + R"({}]})",
        std::string(
            R"({"$defs":{"a":{"anyOf":[{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]},{"type":"null"}]},)"
            R"("b":{"anyOf":[{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/a"}]},{"type":"null"}]}},)"
            R"("oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]})")}) {
    const auto made = Constraint::of_schema(schema);
    if (!made) {
      EXPECT_THAT(made.error().message, HasSubstr("schema")) << schema.substr(0, 100);
    }
  }
}

}  // namespace
}  // namespace ballast::testing
