#include "ballast/edit/rename.h"

#include <gmock/gmock.h>

#include "ballast/edit/renumber.h"
#include "tests/edit/plans.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

WritePlan plan_of(const std::vector<std::string>& names) {
  PlanBuilder builder;
  for (const std::string& name : names) builder.add_counting(name, {1});
  return std::move(builder.plan());
}

RenameRule rule(const std::string& text) {
  auto parsed = parse_rename_rule(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : RenameRule{};
}

TEST(RenameRule, SplitsAtTheFirstPlainEqualsSign) {
  EXPECT_EQ(rule("a=b=c").expression, "a");
  EXPECT_EQ(rule("a=b=c").replacement, "b=c");
  EXPECT_EQ(rule(R"(a\=b=c\=d)").expression, "a=b");
  EXPECT_EQ(rule(R"(a\=b=c\=d)").replacement, "c=d");
  EXPECT_EQ(rule(R"(a\\=b)").expression, R"(a\\)");
  EXPECT_EQ(rule(R"(^h\.(\d+)=)").expression, R"(^h\.(\d+))");
  EXPECT_EQ(rule(R"(^h\.(\d+)=)").replacement, "");
}

TEST(RenameRule, WithoutAnEqualsSignOrAnExpressionIsRefused) {
  EXPECT_FALSE(parse_rename_rule("abc"));
  EXPECT_FALSE(parse_rename_rule(R"(a\=b)"));
  EXPECT_FALSE(parse_rename_rule("=b"));
}

TEST(Rename, AppliesEachRuleToTheResultOfTheOneBefore) {
  WritePlan plan = plan_of({"model.h.0.w", "model.h.1.w", "head"});
  const auto notes = edit_or_fail(rename_tensors({rule(R"(^model\.=)"), rule(R"(^h\.(\d+)=blocks.$1.inner)")}), plan);
  EXPECT_THAT(names_of(plan), ElementsAre("blocks.0.inner.w", "blocks.1.inner.w", "head"));
  EXPECT_THAT(notes, ElementsAre("renamed 2 of 3 tensors"));
}

TEST(Rename, ReplacesEveryMatchAndKnowsNumberedAndNamedGroups) {
  WritePlan plan = plan_of({"a-b-c"});
  edit_or_fail(rename_tensors({rule("-=.")}), plan);
  EXPECT_THAT(names_of(plan), ElementsAre("a.b.c"));
  edit_or_fail(rename_tensors({rule(R"((?<first>\w)\.(\w)=${2}_${first}$$)")}), plan);
  EXPECT_THAT(names_of(plan), ElementsAre("b_a$.c"));
}

TEST(Rename, TellsOfRulesThatMatchNothing) {
  WritePlan plan = plan_of({"a"});
  EXPECT_THAT(edit_or_fail(rename_tensors({rule("zzz=b")}), plan),
              ElementsAre("renamed 0 of 1 tensors", "rename rule \"zzz=b\" matched nothing"));
}

TEST(Rename, NamesBothTensorsThatWouldCollideAndChangesNothing) {
  WritePlan plan = plan_of({"a.w", "b.w"});
  const std::string error = edit_error(rename_tensors({rule("^.=c")}), plan);
  EXPECT_THAT(error, HasSubstr("\"a.w\" and \"b.w\""));
  EXPECT_THAT(error, HasSubstr("\"c.w\""));
  EXPECT_THAT(names_of(plan), ElementsAre("a.w", "b.w"));
}

TEST(Rename, SwappedNamesAreNoCollision) {
  WritePlan plan = plan_of({"a", "b"});
  edit_or_fail(rename_tensors({rule("^a$=c"), rule("^b$=a"), rule("^c$=b")}), plan);
  EXPECT_THAT(names_of(plan), ElementsAre("b", "a"));
  EXPECT_EQ(values_of(plan, "b").size(), 1U);
}

TEST(Rename, RefusesEmptyNamesUnknownGroupsAndNamesWithoutEnd) {
  WritePlan plan = plan_of({"abc"});
  EXPECT_THAT(edit_error(rename_tensors({rule(".*=")}), plan), HasSubstr("\"abc\""));
  EXPECT_THAT(edit_error(rename_tensors({rule("a=$7")}), plan), HasSubstr("$7"));
  EXPECT_THAT(edit_error(rename_tensors({rule("(=b")}), plan), HasSubstr("character"));
  std::vector<RenameRule> doubling(40, rule("^(.+)$=$1$1"));
  EXPECT_THAT(edit_error(rename_tensors(doubling), plan), HasSubstr("bytes"));
}

TEST(Rename, LeavesVariantsOfEnumsOut) {
  EXPECT_EQ(without_enum_variants("a.BaseConv.weight"), "a.weight");
  EXPECT_EQ(without_enum_variants("Conv.W"), "W");
  EXPECT_EQ(without_enum_variants("plain"), "plain");
  WritePlan plan = plan_of({"a.Conv.w", "b.w"});
  edit_or_fail(skip_enum_variants(), plan);
  EXPECT_THAT(names_of(plan), ElementsAre("a.w", "b.w"));
  WritePlan both = plan_of({"a.Conv.w", "a.Norm.w"});
  EXPECT_THAT(edit_error(skip_enum_variants(), both), HasSubstr("\"a.w\""));
}

TEST(Renumber, ClosesGapsAtEveryPositionSeparately) {
  WritePlan plan = plan_of({"fc.0.w", "fc.2.w", "fc.4.w", "net.10.sub.7.w", "net.10.sub.3.w", "net.2.w"});
  const auto notes = edit_or_fail(renumber_tensors(), plan);
  EXPECT_THAT(names_of(plan), ElementsAre("fc.0.w", "fc.1.w", "fc.2.w", "net.1.sub.1.w", "net.1.sub.0.w", "net.0.w"));
  EXPECT_THAT(notes, ElementsAre("renumbered 5 of 6 tensors"));
}

TEST(Renumber, KeepsTheNumbersBehindExceptedPaths) {
  WritePlan plan = plan_of({"enc.layers.3.0.w", "enc.layers.3.2.w", "dec.layers.5.w"});
  edit_or_fail(renumber_tensors({{"^enc\\.layers$"}}), plan);
  EXPECT_THAT(names_of(plan), ElementsAre("enc.layers.3.0.w", "enc.layers.3.1.w", "dec.layers.0.w"));
}

TEST(Renumber, TakesOnlyPlainNumbersForNumbers) {
  WritePlan plan = plan_of({"a.07.w", "a.x3.w", "a.99999999999999999999999.w", "5", "7.w"});
  edit_or_fail(renumber_tensors(), plan);
  EXPECT_THAT(names_of(plan), ElementsAre("a.07.w", "a.x3.w", "a.99999999999999999999999.w", "0", "1.w"));
}

TEST(Renumber, DoesNotGoQuadraticOnDeepNames) {
  std::string deep = "1";
  for (int i = 0; i < 100'000; ++i) deep += ".1";
  WritePlan plan = plan_of({deep});
  edit_or_fail(renumber_tensors(), plan);
  EXPECT_EQ(names_of(plan)[0].substr(0, 5), "0.0.0");
}

}  // namespace
}  // namespace ballast::testing
