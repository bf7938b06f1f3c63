#include "ballast/text/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "ballast/text/constraint/gbnf.h"
#include "ballast/text/constraint/matcher.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string failure_of(const Result<Constraint>& constraint) {
  EXPECT_FALSE(constraint);
  return constraint ? "" : constraint.error().message;
}
Constraint grammar(std::string_view text) {
  auto made = Constraint::of_grammar(text);
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}
Constraint regex(std::string_view text) {
  auto made = Constraint::of_regex(text);
  EXPECT_TRUE(made) << text << ": " << made.error().message;
  return std::move(*made);
}
Constraint schema_constraint(std::string_view text) {
  auto made = Constraint::of_schema(text);
  EXPECT_TRUE(made) << text << ": " << made.error().message;
  return std::move(*made);
}
void expect_texts(const Constraint& constraint, const std::vector<std::string>& accepted,
                  const std::vector<std::string>& refused) {
  for (const std::string& text : accepted) EXPECT_TRUE(constraint.accepts(text)) << text;
  for (const std::string& text : refused) EXPECT_FALSE(constraint.accepts(text)) << text;
}

// ---------------------------------------------------------------- GBNF

TEST(GbnfGrammar, MatchesTextsSetsGroupsAndRepetitions) {
  const Constraint made = grammar(R"(# a comment
root ::= "a" word? (", " word){1,2} |
  [^a-z\n] .+ # another
word ::= [a-c_\x64]+ | "\"" "\u00e9"*
)");
  expect_texts(made, {"aab, c", "a, b", "a, \"\u00e9\u00e9, d_", "XY", "\u20acx"},
               {"a", "a, b, b, b", "b", "X", "a, e", ""});
}

TEST(GbnfGrammar, RecursionMatchesWhatIsNested) {
  const Constraint made = grammar("root ::= pair\npair ::= \"(\" pair* \")\"\n");
  expect_texts(made, {"()", "(()())", std::string(100, '(') + std::string(100, ')')}, {"(", "())", ")("});
}

TEST(GbnfGrammar, NestingBeyondTheLimitIsRefusedBeforeItIsADeadEnd) {
  auto compiled = compile_gbnf("root ::= \"(\" root? \")\" \"!\"");
  ASSERT_TRUE(compiled);
  Matcher matcher(*compiled);
  size_t opened = 0;
  while (opened < 1000 && matcher.advance(uint8_t{'('})) ++opened;
  EXPECT_GT(opened, 100U);
  EXPECT_LE(opened, 201U);
  for (size_t i = 0; i < opened; ++i) ASSERT_TRUE(matcher.advance(")!"));
  EXPECT_TRUE(matcher.is_complete());
}

TEST(GbnfGrammar, LargeRepetitionsAreCountedNotWrittenOut) {
  const Constraint made = grammar("root ::= [a-z]{3,1000000} \".\"");
  expect_texts(made, {"abc.", std::string(5000, 'x') + "."}, {"ab.", "abc"});
  const Constraint exact = grammar("root ::= (\"ab\" | \"c\"){70}");
  EXPECT_TRUE(exact.accepts(std::string(70, 'c')));
  EXPECT_FALSE(exact.accepts(std::string(71, 'c')));
  EXPECT_FALSE(exact.accepts(std::string(69, 'c')));
  EXPECT_TRUE(grammar("root ::= (\"a\"?){90,95} \"b\"").accepts("aaab"));
  EXPECT_FALSE(grammar("root ::= (\"a\"?){90,95} \"b\"").accepts(std::string(96, 'a') + "b"));
}

TEST(GbnfGrammar, ErrorsNameTheRuleOrTheLine) {
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= a\na ::= b \"x\"\nb ::= \"y\"? a")),
              AllOf(HasSubstr("left-recursive"), HasSubstr("rule \"a\"")));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= root \"x\" | \"y\"")),
              HasSubstr("rule \"root\" is left-recursive"));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= \"x\" root")), HasSubstr("never end"));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= []")), HasSubstr("empty set"));
  EXPECT_THAT(failure_of(Constraint::of_grammar("a ::= \"x\"")), HasSubstr("no rule \"root\""));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= \"x\"\n  b")), AllOf(HasSubstr("line 2"), HasSubstr("::=")));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= b\n")), HasSubstr("\"b\" is used but not defined"));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= \"a\"\nroot ::= \"b\"")), HasSubstr("defined twice"));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= (\"a\"")), HasSubstr(") is missing"));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= \"a")), HasSubstr("not closed"));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= \"a\"{1,99999999999}")), HasSubstr("more than 1000000"));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= <tool>")), HasSubstr("tokens in grammars"));
  EXPECT_THAT(failure_of(Constraint::of_grammar("root ::= \"\\q\"")), HasSubstr("unknown escape"));
}

// Each of these made other programs crash, hang, or take all memory.
TEST(GbnfGrammar, HostileGrammarsEndInAnErrorOrInTime) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(Constraint::of_grammar("root ::= " + std::string(100'000, '(')));
  EXPECT_FALSE(Constraint::of_grammar(std::string(1 << 20, 'a')));
  EXPECT_FALSE(Constraint::of_grammar("root ::= \"a\"" + std::string(1000, '*')));
  std::string nested = "\"a\"?";
  for (int i = 0; i < 20; ++i) nested = "(" + nested + "){0,9}";
  const auto deep = Constraint::of_grammar("root ::= " + nested);
  if (deep) {
    EXPECT_TRUE(deep->accepts("a"));
  }
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 5000; ++i)
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " \"x\" | \"y\"\n";
  chain += "r5000 ::= \"z\"\n";
  const auto long_chain = Constraint::of_grammar(chain);
  if (long_chain) {
    EXPECT_TRUE(long_chain->accepts("y"));
  }
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 40; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    doubling += "r" + std::to_string(i) + " ::= " + next + " \"x\" | " + next + " \"y\"\n";
  }
  const auto ambiguous = Constraint::of_grammar(doubling + "r40 ::= \"z\"");
  ASSERT_TRUE(ambiguous);
  EXPECT_FALSE(ambiguous->accepts("zx"));
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 20);
}

// ---------------------------------------------------------------- regular expressions

TEST(RegexConstraint, MatchesTheWholeText) {
  expect_texts(regex("a(b|c)*d?"), {"a", "abcbd", "acc"}, {"", "xa", "abdx"});
  expect_texts(regex("^\\d{3}-\\w+\\s\\S$"), {"123-ab_9 x"}, {"12-ab x", "123-ab\u00a0x"});
  expect_texts(regex("[^a-c\\]]+"), {"xyz", "d\u00e9"}, {"a", "x]"});
  expect_texts(regex("(?:x{2,}|(?<n>y){1,2}?)\\.\\x41\\u00e9"), {"xx.A\u00e9", "y.A\u00e9"},
               {"x.A\u00e9", "yyy.A\u00e9"});
  expect_texts(regex("a|^b$|[-x]{2}"), {"a", "b", "-x"}, {"ab", "x"});
  expect_texts(regex("."), {"x", "\u20ac", "\U0001F600"}, {"\n", "\u2028", "", "\xff"});
}

TEST(RegexConstraint, RefusesByNameWhatItCannotMatch) {
  const std::pair<const char*, const char*> cases[] = {{"(a)\\1", "reference \\1"},
                                                       {"(?=a)b", "looking ahead"},
                                                       {"(?<!a)b", "looking behind"},
                                                       {"a\\b", "word boundary"},
                                                       {"\\p{L}", "Unicode property"},
                                                       {"(?i)a", "flags"},
                                                       {"a++", "possessive"},
                                                       {"(^a)", "inside an expression"},
                                                       {"[[:alpha:]]", "named class"},
                                                       {"(?>a)", "atomic"},
                                                       {"*a", "nothing to repeat"},
                                                       {"a**", "nothing to repeat"},
                                                       {"a{2}{3}", "nothing to repeat"},
                                                       {"a*{3}", "nothing to repeat"},
                                                       {"{3}", "nothing to repeat"},
                                                       {"(a", ") is missing"},
                                                       {"a)", "not opened"},
                                                       {"[a", "] is missing"},
                                                       {"a{5,2}", "matches nothing"},
                                                       {"a{1,2000000}", "more than 1000000"},
                                                       {"[z-a]", "upside down"},
                                                       {"\\", "backslash"},
                                                       {"\\ud800", "surrogate"}};
  for (const auto& [expression, reason] : cases) {
    EXPECT_THAT(failure_of(Constraint::of_regex(expression)), HasSubstr(reason)) << expression;
  }
  EXPECT_FALSE(Constraint::of_regex(std::string(100'000, 'a')));
  EXPECT_FALSE(Constraint::of_regex(std::string(10'000, '(')));
  EXPECT_FALSE(Constraint::of_regex("\xff"));
}

// ---------------------------------------------------------------- JSON

TEST(JsonConstraint, AnyObjectIsMatchedAndNothingElse) {
  const auto object = Constraint::of_json_object();
  ASSERT_TRUE(object);
  expect_texts(
      *object,
      {"{}", R"({"a": [1, -2.5e3, true, null, {"b": "\n\u00e9\ud83d\ude00é"}], "c":{}})", "{\n  \"a\": 1\n}", " {}"},
      {"[]", "{\"a\":01}", "{\"a\"}", "{\"a\":\"\\ud83d\"}", "{,}", "{\"a\":1,}", "{}}", "{\"a\":\"\n\"}", "{} "});
}

TEST(SchemaConstraint, PropertiesComeInOrderAndOptionalOnesMayBeMissing) {
  const Constraint made = schema_constraint(
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},"required":["b"]})");
  expect_texts(made, {R"({"b":"x"})", R"({"a": 1, "b": ""})", R"({"a":1,"b":"","c":null})"},
               {"{}", R"({"a":1})", R"({"b":"","a":1})",
                R"({"b":""})"
                "x",
                R"({"b":"","d":1})", R"({"a":1.5,"b":""})"});
  expect_texts(schema_constraint(R"({"properties":{"a":true,"b":{}}})"), {"{}", R"({"b":[1]})", R"({"a":1,"b":2})"},
               {R"({"c":1})"});
  expect_texts(schema_constraint(R"({"type":"object","required":["z"]})"), {R"({"z":1})"}, {"{}"});
  expect_texts(schema_constraint(R"({"type":"object","additionalProperties":{"type":"boolean"}})"),
               {"{}", R"({"z":true})"}, {R"({"z":1})"});
}

TEST(SchemaConstraint, ArraysHaveTheItemsThatAreAskedFor) {
  expect_texts(schema_constraint(R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2})"),
               {"[1]", "[1, 2]"}, {"[]", "[1,2,3]", "[true]"});
  expect_texts(schema_constraint(R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"minItems":1})"),
               {"[1]", "[1,2]"}, {"[]", "[2]", "[1,2,3]"});
  expect_texts(schema_constraint(R"({"prefixItems":[{"const":1}],"items":{"const":0},"maxItems":3})"),
               {"[]", "[1]", "[1,0,0]"}, {"[1,0,0,0]", "[0]"});
  expect_texts(schema_constraint(R"({"type":"array","items":false})"), {"[]"}, {"[1]"});
}

TEST(SchemaConstraint, NumbersStayWithinTheirBounds) {
  const Constraint made = schema_constraint(R"({"type":"integer","minimum":-12,"exclusiveMaximum":305})");
  for (int i = -400; i <= 400; ++i) EXPECT_EQ(made.accepts(std::to_string(i)), i >= -12 && i < 305) << i;
  const Constraint real = schema_constraint(R"({"type":"number","exclusiveMinimum":-2,"maximum":10})");
  expect_texts(real, {"-1.9", "0", "10", "10.00", "9.999", "-0.5", "-1", "3"},
               {"-2", "-2.0", "10.01", "11", "1e5", "-0"});
  expect_texts(schema_constraint(R"({"type":"integer","minimum":1.5})"), {"2", "9007199254740991"}, {"1", "0", "-3"});
}

TEST(SchemaConstraint, StringsHaveTheirLengthPatternOrFormat) {
  expect_texts(schema_constraint(R"({"type":"string","minLength":2,"maxLength":3})"),
               {R"("ab")", R"("é\n😀")", R"("\ud83d\ude00x")"}, {R"("a")", R"("abcd")"});
  expect_texts(schema_constraint(R"({"type":"string","pattern":"^\"[a-z\\\\]+$"})"), {R"("\"a\\")"},
               {R"("a")", R"(""a")"});
  expect_texts(schema_constraint(R"({"type":"string","pattern":"b"})"), {R"("abc")", R"("b")", R"("\nb")"},
               {R"("ac")"});
  expect_texts(schema_constraint(R"({"type":"string","format":"date"})"),
               {"\"2024-02-29\"", "\"0001-12-31\"", "\"2000-02-29\""},
               {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"0000-01-01\""});
  expect_texts(schema_constraint(R"({"format":"date-time"})"),
               {"\"2024-02-29T23:59:59Z\"", "\"2024-02-28T00:00:00.123+01:30\""},
               {"\"2024-02-28T24:00:00Z\"", "\"2024-02-28\""});
  expect_texts(schema_constraint(R"({"format":"ipv4"})"), {"\"255.0.10.199\""}, {"\"256.0.0.1\"", "\"01.1.1.1\""});
  expect_texts(schema_constraint(R"({"format":"email"})"), {"\"a.b+c@x-y.org\""}, {"\"a@b\"", "\"a..b@c.de\""});
}

TEST(SchemaConstraint, EnumsCombinationsAndReferencesWork) {
  expect_texts(schema_constraint(R"({"enum":["a",1,{"x": [ null ]},"ab"],"type":["string","object"]})"),
               {"\"a\"", "\"ab\"", R"({"x":[null]})"}, {"1"});
  expect_texts(schema_constraint(R"({"type":["integer","null"]})"), {"null", "7"}, {"\"\""});
  expect_texts(schema_constraint(R"({"type":"boolean","nullable":true})"), {"null", "true"}, {"1"});
  expect_texts(schema_constraint(
                   R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}},"required":["k"]},)"
                   R"({"type":"object","properties":{"k":{"const":2},"v":{"type":"null"}},"required":["k","v"]}]})"),
               {R"({"k":1})", R"({"k":2,"v":null})"}, {R"({"k":2})", R"({"k":1,"v":null})"});
  expect_texts(
      schema_constraint(
          R"({"allOf":[{"$ref":"#/$defs/a"},{"type":"object","properties":{"y":{"const":2}},"required":["y"]}],)"
          R"("$defs":{"a":{"type":"object","properties":{"x":{"const":1}},"required":["x"]}}})"),
      {R"({"x":1,"y":2})"}, {R"({"x":1})", R"({"y":2})"});
  const Constraint tree = schema_constraint(
      R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["next"]}}})");
  expect_texts(tree, {R"({"next":null})", R"({"next":{"next":{"next":null}}})"}, {R"({"next":{}})"});
}

TEST(SchemaConstraint, WhatIsNotSupportedIsRefusedByNameAndPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"object","properties":{"a":{"not":{}}}})", "/properties/a/not"},
      {R"({"type":"array","items":{"type":"integer","multipleOf":2}})", "/items/multipleOf"},
      {R"({"type":"array","uniqueItems":true})", "\"uniqueItems\""},
      {R"({"patternProperties":{}})", "patternProperties"},
      {R"({"if":{}})", "/if"},
      {R"({"type":"string","format":"uri"})", "\"uri\""},
      {R"({"type":"string","pattern":"a","maxLength":3})", "/maxLength"},
      {R"({"type":"string","pattern":"(a)\\1"})", "/pattern"},
      {R"({"type":"number","minimum":0.5})", "/minimum"},
      {R"({"$ref":"other.json"})", "other.json"},
      {R"({"$ref":"#/$defs/x"})", "/$ref"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "/oneOf"},
      {R"({"enum":["a"],"pattern":"a"})", "/pattern"},
      {R"({"type":"text"})", "\"text\" is no type"},
      {R"({"type":"string","minLength":-1})", "/minLength"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "/minItems"},
      {R"({"type":"integer","minimum":3,"maximum":2})", "no integer"},
      {R"({"enum":[]})", "no value"},
      {R"({"type":"object","required":["a"],"additionalProperties":false})", "/required"},
      {R"({"$ref":"#"})", "leads back to itself"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "never end"},
      {"false", "no value is valid"},
      {"[]", "must be an object"},
      {"{", "byte 1"},
      {"3", "must be an object"}};
  for (const auto& [text, reason] : cases)
    EXPECT_THAT(failure_of(Constraint::of_schema(text)), HasSubstr(reason)) << text;
}

TEST(SchemaConstraint, AnnotationsAreIgnored) {
  expect_texts(schema_constraint(
                   R"({"$schema":"x","$id":"y","title":"t","description":"d","default":3,"examples":[1],"type":"null",)"
                   R"("deprecated":true,"x-own":{"not":1}})"),
               {"null"}, {"1"});
}

TEST(SchemaConstraint, HostileSchemasEndInAnErrorOrInTime) {
  const auto start = std::chrono::steady_clock::now();
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += R"({"type":"array","items":)";
  EXPECT_FALSE(Constraint::of_schema(deep + "{}" + std::string(200, '}')));
  EXPECT_FALSE(Constraint::of_schema(std::string(1 << 20, ' ')));
  std::string many = R"({"type":"object","properties":{)";
  for (int i = 0; i < 3000; ++i)
    many += std::string(i == 0 ? "" : ",") + "\"p" + std::to_string(i) + "\"" + R"(:{"type":"integer"})";
  const auto wide = Constraint::of_schema(many + "}}");
  if (wide) {
    EXPECT_FALSE(wide->accepts("{\"q\":1}"));
  }
  std::string bomb = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 40; ++i) {
    const std::string next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + R"("})";
    bomb += "\"d" + std::to_string(i) + R"(":{"oneOf":[)" + next + "," + next + "]},";
  }
  EXPECT_FALSE(Constraint::of_schema(bomb + R"("d40":{"type":"null"}}})"));
  EXPECT_TRUE(Constraint::of_schema(R"({"type":"string","maxLength":1000000000})"));
  EXPECT_TRUE(
      Constraint::of_schema(R"({"type":"array","minItems":1000000,"items":{"type":"array","minItems":1000000}})"));
  EXPECT_FALSE(Constraint::of_schema(
      R"({"type":"string","pattern":"((((((((((a{1,9}){1,9}){1,9}){1,9}){1,9}){1,9}){1,9})*)*)*)*("})"));
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 20);
}

}  // namespace
}  // namespace ballast::testing
