#include "ballast/edit/apply.h"

#include <gmock/gmock.h>

#include "ballast/edit/rename.h"
#include "ballast/edit/similarity.h"
#include "tests/edit/plans.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ApplyResult apply_or_fail(WritePlan& target, const WritePlan& source, const ApplyOptions& options = {}) {
  auto result = apply_to_plan(target, source, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *result : ApplyResult{};
}

TEST(PathFilter, IsAnOrOverNamesPatternsAndPredicates) {
  PathFilter filter;
  const TensorInfo a = make_info("a.weight", DType::kF32, {1});
  EXPECT_FALSE(*filter.matches(a));
  EXPECT_TRUE(*PathFilter::all().matches(a));
  filter.add_path("a.weight");
  ASSERT_TRUE(filter.add_pattern("^b"));
  filter.add_predicate([](const TensorInfo& tensor) { return tensor.dtype == DType::kI32; });
  EXPECT_TRUE(*filter.matches(a));
  EXPECT_TRUE(*filter.matches(make_info("b", DType::kF32, {1})));
  EXPECT_TRUE(*filter.matches(make_info("c", DType::kI32, {1})));
  EXPECT_FALSE(*filter.matches(make_info("a.weight.x", DType::kF32, {1})));
  EXPECT_FALSE(filter.add_pattern("("));
  PathFilter merged;
  merged.merge(filter);
  EXPECT_TRUE(*merged.matches(a));
}

TEST(PathFilter, KeepsWhatItMatchesWhenWriting) {
  PlanBuilder builder;
  builder.add_counting("a", {1}).add_counting("b", {2});
  edit_or_fail(keep_matching(PathFilter().add_path("b")), builder.plan());
  EXPECT_THAT(names_of(builder.plan()), ElementsAre("b"));
  EXPECT_EQ(values_of(builder.plan(), "b"), (std::vector<float>{1, 2}));
}

TEST(Jaro, HasTheKnownValues) {
  EXPECT_NEAR(jaro_similarity("MARTHA", "MARHTA"), 0.944444, 1e-6);
  EXPECT_NEAR(jaro_similarity("DIXON", "DICKSONX"), 0.766667, 1e-6);
  EXPECT_NEAR(jaro_similarity("CRATE", "TRACE"), 0.733333, 1e-6);
  EXPECT_EQ(jaro_similarity("", "a"), 0);
  EXPECT_EQ(jaro_similarity("abc", "abc"), 1);
  EXPECT_EQ(jaro_similarity("abc", "xyz"), 0);
}

TEST(Apply, SetsValuesAndTellsWhatBecameOfEverything) {
  PlanBuilder model, weights;
  model.add("a", {2}, {0, 0}).add("b", {1}, {0}).add("enc.weight", {1}, {0});
  weights.add("a", {2}, {5, 6}).add("b", {1}, {7}).add("enc.wieght", {1}, {8}).add("zz", {1}, {9});
  ApplyOptions options;
  options.allow_partial = true;
  ASSERT_TRUE(options.exclude.add_pattern("^b$"));
  const ApplyResult result = apply_or_fail(model.plan(), weights.plan(), options);
  EXPECT_FALSE(result.refused);
  EXPECT_THAT(result.applied, ElementsAre("a"));
  EXPECT_THAT(result.skipped, ElementsAre("b"));
  EXPECT_THAT(result.missing, ElementsAre("enc.weight"));
  EXPECT_THAT(result.unused, ElementsAre("enc.wieght", "zz"));
  ASSERT_EQ(result.near_misses.size(), 1U);
  EXPECT_EQ(result.near_misses[0].candidate, "enc.wieght");
  EXPECT_EQ(values_of(model.plan(), "a"), (std::vector<float>{5, 6}));
  EXPECT_EQ(values_of(model.plan(), "b"), (std::vector<float>{0}));
}

TEST(Apply, MissingTensorsAreRefusedWithoutAllowPartial) {
  PlanBuilder model, weights;
  model.add("a", {1}, {0}).add("enc.weight", {1}, {0});
  weights.add("a", {1}, {5}).add("enc.wieght", {1}, {8});
  const ApplyResult result = apply_or_fail(model.plan(), weights.plan());
  ASSERT_TRUE(result.refused);
  EXPECT_THAT(result.refused->message, HasSubstr("\"enc.weight\"; did you mean \"enc.wieght\"?"));
  EXPECT_EQ(values_of(model.plan(), "a"), (std::vector<float>{0}));
}

TEST(Apply, WhatIsFilteredOutIsNeverMissing) {
  PlanBuilder model, weights;
  model.add("a", {1}, {0}).add("b", {1}, {0});
  weights.add("a", {1}, {5});
  ApplyOptions options;
  options.filter = PathFilter().add_path("a");
  const ApplyResult result = apply_or_fail(model.plan(), weights.plan(), options);
  EXPECT_FALSE(result.refused);
  EXPECT_THAT(result.missing, IsEmpty());
  EXPECT_THAT(result.skipped, ElementsAre("b"));
}

TEST(Apply, WrongShapesAndKindsAreRefusedOrReported) {
  PlanBuilder model, weights;
  model.add_counting("w", {2, 3}).add_counting("k", {1});
  weights.add_counting("w", {3, 2}).add<int32_t>("k", {1}, {1}, DType::kI32);
  ApplyOptions options;
  WritePlan untouched = model.plan();
  const ApplyResult refused = apply_or_fail(untouched, weights.plan(), options);
  ASSERT_TRUE(refused.refused);
  EXPECT_THAT(refused.refused->message, HasSubstr("transposed"));
  options.validate = false;
  const ApplyResult reported = apply_or_fail(model.plan(), weights.plan(), options);
  EXPECT_FALSE(reported.refused);
  ASSERT_EQ(reported.errors.size(), 2U);
  EXPECT_THAT(reported.errors[1].message, HasSubstr("dtype i32, the model f32"));
  EXPECT_THAT(reported.applied, IsEmpty());
  EXPECT_EQ(info_of(model.plan(), "k").dtype, DType::kF32);
}

TEST(Apply, KeepsTheWidthOfTheFileUnlessToldToCast) {
  PlanBuilder model, weights;
  model.add("w", {2}, {0, 0}).add<uint32_t>("mask", {2}, {0, 0}, DType::kBool32);
  weights.add<uint16_t>("w", {2}, {0x3C00, 0x4000}, DType::kF16).add<uint8_t>("mask", {2}, {1, 0}, DType::kBool);
  WritePlan kept = model.plan();
  apply_or_fail(kept, weights.plan());
  EXPECT_EQ(info_of(kept, "w").dtype, DType::kF16);
  EXPECT_EQ(bytes_of(kept, "w").size(), 4U);
  EXPECT_EQ(values_of<uint32_t>(kept, "mask"), (std::vector<uint32_t>{1, 0}));
  ApplyOptions options;
  options.cast_to_target = true;
  apply_or_fail(model.plan(), weights.plan(), options);
  EXPECT_EQ(values_of(model.plan(), "w"), (std::vector<float>{1, 2}));
}

TEST(Apply, RestoresIdsOfTheFileAndKeepsTheModelsWhereItHasNone) {
  PlanBuilder model, weights;
  model.add("a", {1}, {0}).last().param_id = 1;
  model.add("b", {1}, {0}).last().param_id = 2;
  weights.add("a", {1}, {0}).last().param_id = 11;
  weights.add("b", {1}, {0});
  WritePlan kept = model.plan();
  apply_or_fail(model.plan(), weights.plan());
  EXPECT_EQ(info_of(model.plan(), "a").param_id, 11U);
  EXPECT_EQ(info_of(model.plan(), "b").param_id, 2U);
  ApplyOptions options;
  options.restore_ids = false;
  apply_or_fail(kept, weights.plan(), options);
  EXPECT_EQ(info_of(kept, "a").param_id, 1U);
}

TEST(Apply, FindsTensorsThroughRenamingAdapterAndEnumVariants) {
  PlanBuilder model, weights;
  model.add("ln.gamma", {2}, {0, 0})
      .add("fc.weight", {3, 2}, {0, 0, 0, 0, 0, 0})
      .add("c.BaseConv.weight", {1, 1, 1}, {0});
  model.add("odd.weight", {3, 1}, {0, 0, 0});
  weights.add("net.ln.weight", {2}, {1, 2}).add("net.ln.bias", {2}, {0, 0}).add_counting("net.fc.weight", {2, 3});
  weights.add("net.c.weight", {1, 1, 1}, {4}).add("net.odd.weight", {1, 3}, {7, 8, 9});  // its name tells nothing
  ApplyOptions options;
  options.edits = {rename_tensors({{"^net\\.", ""}})};
  options.adapter = find_adapter("pytorch-to-burn");
  options.skip_enum_variants = true;
  const ApplyResult result = apply_or_fail(model.plan(), weights.plan(), options);
  ASSERT_FALSE(result.refused) << result.refused->message;
  EXPECT_EQ(result.applied.size(), 4U);
  EXPECT_THAT(result.unused, ElementsAre("ln.bias"));
  EXPECT_EQ(values_of(model.plan(), "ln.gamma"), (std::vector<float>{1, 2}));
  EXPECT_EQ(values_of(model.plan(), "fc.weight"), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(values_of(model.plan(), "c.BaseConv.weight"), (std::vector<float>{4}));
  EXPECT_EQ(values_of(model.plan(), "odd.weight"), (std::vector<float>{7, 8, 9}));
}

TEST(Apply, FillsMemoryOfTheCaller) {
  std::vector<float> a(2, 0), b(1, 9);
  std::vector<TensorSlot> slots = {
      {make_info("a", DType::kF32, {2}), std::as_writable_bytes(std::span(a))},
      {make_info("b", DType::kF32, {1}), std::as_writable_bytes(std::span(b))},
  };
  PlanBuilder weights;
  weights.add<uint16_t>("a", {2}, {0x3C00, 0x4000}, DType::kF16).last().param_id = 5;
  ApplyOptions options;
  options.allow_partial = true;
  const auto result = apply_to_memory(slots, weights.plan(), options);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(result->applied, ElementsAre("a"));
  EXPECT_THAT(result->missing, ElementsAre("b"));
  EXPECT_EQ(a, (std::vector<float>{1, 2}));
  EXPECT_EQ(b, (std::vector<float>{9}));
  EXPECT_EQ(slots[0].info.param_id, 5U);
}

TEST(Apply, RefusesMemoryOfTheWrongSizeAndTypesThatCannotBeCast) {
  std::vector<float> a(2, 0);
  std::vector<TensorSlot> slots = {{make_info("a", DType::kF32, {3}), std::as_writable_bytes(std::span(a))}};
  PlanBuilder weights;
  weights.add_counting("a", {3});
  EXPECT_FALSE(apply_to_memory(slots, weights.plan()));
  slots[0].info = make_info("a", DType::kF32, {2});
  PlanBuilder packed;
  packed.add<uint8_t>("a", {8}, std::vector<uint8_t>(8), DType::kU8);
  packed.last().dtype = DType::kQFloat;
  packed.last().shape = Shape{2};
  const auto result = apply_to_memory(slots, packed.plan());
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->refused);
}

TEST(Apply, StaysQuickWithAHundredThousandStrangers) {
  WritePlan model, weights;
  const auto nothing = [](ByteSink& sink) { return sink.write_zeros(4); };
  for (int i = 0; i < 100'000; ++i) {
    model.add_tensor(make_info("m" + std::to_string(i), DType::kF32, {1}), nothing);
    weights.add_tensor(make_info("w" + std::to_string(i), DType::kF32, {1}), nothing);
  }
  ApplyOptions options;
  options.allow_partial = true;
  const ApplyResult result = apply_or_fail(model, weights, options);
  EXPECT_EQ(result.missing.size(), 100'000U);
  EXPECT_LE(result.near_misses.size(), 50U);
}

}  // namespace
}  // namespace ballast::testing
