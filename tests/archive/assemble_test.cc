#include "ballast/archive/assemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/archive/convert.h"
#include "ballast/archive/open.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Spec {
  std::string name;
  size_t bytes;
  unsigned first;
};

WritePlan make(const std::vector<Spec>& specs, std::vector<MetaEntry> metadata = {}) {
  WritePlan plan;
  plan.description.format = "safetensors";
  plan.description.metadata = std::move(metadata);
  for (const Spec& spec : specs) {
    plan.add_tensor(make_info(spec.name, DType::kU8, {spec.bytes}),
                    [spec](ByteSink& sink) { return sink.write(counting_bytes(spec.bytes, spec.first)); });
  }
  return plan;
}

std::vector<std::string> names_of(const WritePlan& plan) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : plan.description.tensors) names.push_back(tensor.name);
  return names;
}

ByteVector payload_of(const WritePlan& plan, const std::string& name) {
  for (size_t i = 0; i < plan.providers.size(); ++i) {
    if (plan.description.tensors[i].name != name) continue;
    MemorySink sink;
    EXPECT_TRUE(plan.providers[i](sink));
    return sink.take();
  }
  ADD_FAILURE() << name << " is not there";
  return {};
}

std::vector<MergeInput> inputs(WritePlan a, WritePlan b) {
  std::vector<MergeInput> both;
  both.push_back({"a.npz", std::move(a)});
  both.push_back({"b.npz", std::move(b)});
  return both;
}

TEST(Merge, IsTheUnionInTheOrderOfTheFiles) {
  MergeReport report;
  const auto merged = merge_plans(inputs(make({{"z", 4, 1}}), make({{"a", 4, 2}})), {}, report);
  ASSERT_TRUE(merged);
  EXPECT_THAT(names_of(*merged), ElementsAre("z", "a"));
  EXPECT_EQ(payload_of(*merged, "a"), counting_bytes(4, 2));
}

TEST(Merge, EqualTensorsOfOneNameAreNoConflict) {
  MergeReport report;
  const auto merged = merge_plans(inputs(make({{"x", 4, 1}}), make({{"x", 4, 1}, {"y", 4, 2}})), {}, report);
  ASSERT_TRUE(merged);
  EXPECT_THAT(names_of(*merged), ElementsAre("x", "y"));
  EXPECT_EQ(report.equal, 1U);
}

TEST(Merge, DifferentTensorsOfOneNameAreAnErrorThatNamesBothFiles) {
  MergeReport report;
  const auto merged = merge_plans(inputs(make({{"x", 4, 1}}), make({{"x", 4, 9}})), {}, report);
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().code, ErrorCode::kInvalidArgument);
  for (const char* part : {"\"x\"", "a.npz", "b.npz"}) EXPECT_THAT(merged.error().message, HasSubstr(part));
  EXPECT_EQ(merged.error().remedies, Remedy::kPreferOne);
}

TEST(Merge, PreferChoosesBetweenThem) {
  for (const auto& [prefer, first] : {std::pair(Prefer::kFirst, 1U), std::pair(Prefer::kLast, 9U)}) {
    MergeReport report;
    const auto merged = merge_plans(
        inputs(make({{"x", 4, 1}}, {{"k", std::string("one")}}), make({{"x", 4, 9}}, {{"k", std::string("two")}})),
        {.prefer = prefer, .config_from = std::nullopt, .threads = 0, .progress = {}}, report);
    ASSERT_TRUE(merged);
    EXPECT_EQ(payload_of(*merged, "x"), counting_bytes(4, first));
    EXPECT_EQ(merged->description.metadata[0].value, MetaValue(std::string(first == 1 ? "one" : "two")));
    EXPECT_EQ(report.preferred, 1U);
  }
}

TEST(Merge, DifferentMetadataOfOneKeyIsAConflictToo) {
  MergeReport report;
  const auto merged =
      merge_plans(inputs(make({}, {{"k", std::string("one")}}), make({}, {{"k", std::string("two")}})), {}, report);
  ASSERT_FALSE(merged);
  EXPECT_THAT(merged.error().message, HasSubstr("metadata \"k\" is \"one\" in a.npz and \"two\" in b.npz"));
}

TEST(Merge, PrefixesKeepNamesakesApart) {
  auto both = inputs(make({{"x", 4, 1}}), make({{"x", 4, 9}}));
  both[0].prefix = "left.";
  both[1].prefix = "right.";
  MergeReport report;
  const auto merged = merge_plans(std::move(both), {}, report);
  ASSERT_TRUE(merged);
  EXPECT_THAT(names_of(*merged), ElementsAre("left.x", "right.x"));
}

TEST(Merge, OfSeveralConfigsOneMustBeChosen) {
  WritePlan a = make({{"x", 4, 1}});
  WritePlan b = make({{"y", 4, 1}});
  a.description.config = ModelConfig{"gptrs", "{\"a\":1}"};
  b.description.config = ModelConfig{"gptrs", "{\"b\":1}"};
  MergeReport report;
  const auto refused = merge_plans(inputs(a, b), {}, report);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().remedies, Remedy::kChooseConfig);
  MergeOptions options;
  options.config_from = 1;
  const auto merged = merge_plans(inputs(a, b), options, report);
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->description.config, b.description.config);
  b.description.config.reset();
  const auto only = merge_plans(inputs(a, b), {}, report);
  ASSERT_TRUE(only);
  EXPECT_EQ(only->description.config, a.description.config);
}

// ---------------------------------------------------------------- splitting

std::vector<std::vector<std::string>> names_of(const Result<std::vector<PlanPart>>& parts) {
  std::vector<std::vector<std::string>> names;
  EXPECT_TRUE(parts) << (parts ? "" : parts.error().message);
  if (!parts) return names;
  for (const PlanPart& part : *parts) names.push_back(names_of(part.plan));
  return names;
}

TEST(Split, BySizeStartsANewPartBeforeTheLimitIsExceeded) {
  const WritePlan plan = make({{"a", 6, 0}, {"b", 4, 0}, {"c", 1, 0}, {"huge", 100, 0}, {"d", 1, 0}});
  const auto parts = split_by_size(plan, 10);
  EXPECT_THAT(names_of(parts),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c"), ElementsAre("huge"), ElementsAre("d")));
  EXPECT_EQ((*parts)[0].label, "00001-of-00004");
}

TEST(Split, ByCountIsAsEvenAsWholeTensorsAllow) {
  const WritePlan plan = make({{"a", 10, 0}, {"b", 10, 0}, {"c", 10, 0}, {"d", 10, 0}, {"e", 10, 0}, {"f", 10, 0}});
  EXPECT_THAT(names_of(split_by_count(plan, 3)),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d"), ElementsAre("e", "f")));
  EXPECT_THAT(names_of(split_by_count(make({{"a", 100, 0}, {"b", 1, 0}, {"c", 1, 0}}), 3)),
              ElementsAre(ElementsAre("a"), ElementsAre("b"), ElementsAre("c")));
  EXPECT_THAT(names_of(split_by_count(make({{"a", 1, 0}, {"b", 1, 0}, {"c", 100, 0}}), 2)),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c")));
}

TEST(Split, RefusesMorePartsThanTensors) {
  const auto parts = split_by_count(make({{"a", 1, 0}}), 2);
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::kInvalidArgument);
}

TEST(Split, ByPatternMakesOnePartPerValueOfTheFirstGroupAndOneForTheRest) {
  const auto pattern = Pattern::compile(R"(^([^.]+)\.)");
  ASSERT_TRUE(pattern);
  const auto parts =
      split_by_pattern(make({{"enc.a", 1, 0}, {"head", 1, 0}, {"dec.a", 1, 0}, {"enc.b", 1, 0}}), *pattern);
  EXPECT_THAT(names_of(parts), ElementsAre(ElementsAre("enc.a", "enc.b"), ElementsAre("head"), ElementsAre("dec.a")));
  EXPECT_EQ((*parts)[0].label, "enc");
  EXPECT_EQ((*parts)[1].label, "rest");
}

TEST(Split, PartsKeepMetadataAndConfig) {
  WritePlan plan = make({{"a", 1, 0}, {"b", 1, 0}}, {{"k", std::string("v")}});
  plan.description.config = ModelConfig{"gptrs", "{}"};
  const auto parts = split_by_count(plan, 2);
  ASSERT_TRUE(parts);
  for (const PlanPart& part : *parts) {
    EXPECT_EQ(part.plan.description.metadata, plan.description.metadata);
    EXPECT_EQ(part.plan.description.config, plan.description.config);
  }
}

TEST(Split, SeveralArchivesJoinOneSetThatAppearsTogether) {
  const TempFolder folder;
  const WritePlan plan = make({{"a", 10, 1}});
  AtomicFiles set({});
  WriteSettings settings;
  settings.set = &set;
  ASSERT_TRUE(write_archive(folder.path("a.npz"), *find_format("npz"), plan, settings));
  ASSERT_TRUE(write_archive(folder.path("b.npz"), *find_format("npz"), plan, settings));
  EXPECT_FALSE(open_archive(folder.path("a.npz")));
  ASSERT_TRUE(set.commit());
  EXPECT_TRUE(open_archive(folder.path("a.npz")));
  EXPECT_TRUE(open_archive(folder.path("b.npz")));
}

TEST(FirstGroup, IsTheGroupOrElseTheMatch) {
  const auto group = [](const char* expression, const char* text) {
    const auto pattern = Pattern::compile(expression);
    EXPECT_TRUE(pattern);
    const auto found = pattern->first_group(text);
    EXPECT_TRUE(found);
    return *found;
  };
  EXPECT_EQ(group("^(a+)b", "aab"), "aa");
  EXPECT_EQ(group("a+", "baac"), "aa");
  EXPECT_EQ(group("(x)?b", "b"), "");
  EXPECT_EQ(group("^c", "b"), std::nullopt);
}

}  // namespace
}  // namespace ballast::testing
