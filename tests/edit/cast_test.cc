#include "ballast/edit/cast.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ballast/tensor/cast_sink.h"
#include "tests/edit/plans.h"
#include "tests/support/memory_meter.h"

namespace ballast::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CastSink, GivesTheSameForAnySizeOfPieces) {
  std::vector<float> values(10'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 7.0F;
  const auto bytes = std::as_bytes(std::span(values));
  ByteVector whole(values.size() * 2);
  ASSERT_TRUE(cast_elements(DType::kF32, bytes, DType::kBF16, whole));
  for (const size_t piece : {1, 3, 17, 4096, 40'000}) {
    MemorySink out;
    CastSink cast(DType::kF32, DType::kBF16, out);
    for (size_t at = 0; at < bytes.size(); at += piece) {
      ASSERT_TRUE(cast.write(bytes.subspan(at, std::min<size_t>(piece, bytes.size() - at))));
    }
    ASSERT_TRUE(cast.finish());
    EXPECT_EQ(out.take(), whole) << piece;
    EXPECT_EQ(cast.position(), bytes.size());
  }
}

TEST(CastSink, HandlesTypesThatShareBytes) {
  const ByteVector packed = counting_bytes(9, 1);  // twelve values of six bits
  ByteVector whole(12 * 4);
  ASSERT_TRUE(cast_elements(DType::kF6E2M3, packed, DType::kF32, whole));
  MemorySink out;
  CastSink cast(DType::kF6E2M3, DType::kF32, out);
  for (const std::byte& byte : packed) ASSERT_TRUE(cast.write({&byte, 1}));
  ASSERT_TRUE(cast.finish());
  EXPECT_EQ(out.take(), whole);
}

TEST(CastSink, RefusesHalfAnElement) {
  MemorySink out;
  CastSink cast(DType::kF32, DType::kF16, out);
  ASSERT_TRUE(cast.write(counting_bytes(6)));
  EXPECT_FALSE(cast.finish());
}

TEST(FloatCast, ChangesFloatsOnlyAndKeepsWhatItIsTold) {
  PlanBuilder builder;
  builder.add("w", {2}, {1.0F, 2.5F}).add("norm.w", {1}, {3.0F}).add<int32_t>("step", {1}, {7}, DType::kI32);
  builder.add<uint8_t>("f8", {2}, {1, 2}, DType::kF8E4M3);
  WritePlan& plan = builder.plan();
  plan.description.tensors[0].set_stored_form("odd");
  plan.description.tensors[0].param_id = 9;
  const auto log = std::make_shared<CastLog>();
  const auto notes = edit_or_fail(cast_floats({DType::kF16, {"norm"}}, log), plan);
  EXPECT_EQ(info_of(plan, "w").dtype, DType::kF16);
  EXPECT_EQ(info_of(plan, "w").byte_size, 4U);
  EXPECT_EQ(info_of(plan, "w").stored_form(), "");
  EXPECT_EQ(info_of(plan, "w").param_id, 9U);
  EXPECT_EQ(values_of<uint16_t>(plan, "w"), (std::vector<uint16_t>{0x3C00, 0x4100}));
  EXPECT_EQ(info_of(plan, "norm.w").dtype, DType::kF32);
  EXPECT_EQ(info_of(plan, "step").dtype, DType::kI32);
  EXPECT_EQ(info_of(plan, "f8").dtype, DType::kF8E4M3);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("1 of 4 tensors; 0 had that type, 1 kept by name, 2 are no floats")));
}

TEST(FloatCast, MeasuresTheErrorOfEachTensorAndOfAll) {
  PlanBuilder builder;
  builder.add("exact", {1}, {0.5F}).add("round", {2}, {1.0F, 1.0F + 0x1p-12F}).add("over", {3}, {1e6F, -1e6F, 1});
  const auto log = std::make_shared<CastLog>();
  edit_or_fail(cast_floats({DType::kF16, {}}, log), builder.plan());
  EXPECT_FALSE(log->casts()[0].report);
  for (const char* name : {"exact", "round", "over"}) bytes_of(builder.plan(), name);
  const auto casts = log->casts();
  EXPECT_EQ(casts[0].report->max_abs_error, 0);
  EXPECT_EQ(casts[1].report->max_abs_error, 0x1p-12);
  EXPECT_EQ(casts[2].report->overflowed, 2U);
  EXPECT_TRUE(std::isinf(log->total().max_abs_error));
  EXPECT_EQ(log->total().overflowed, 2U);
}

TEST(FloatCast, DrawnTwiceCountsOnce) {
  PlanBuilder builder;
  builder.add("over", {1}, {1e6F});
  const auto log = std::make_shared<CastLog>();
  edit_or_fail(cast_floats({DType::kF16, {}}, log), builder.plan());
  bytes_of(builder.plan(), "over");
  bytes_of(builder.plan(), "over");
  EXPECT_EQ(log->total().overflowed, 1U);
}

TEST(FloatCast, HoldsPiecesOfATensorOnly) {
  constexpr uint64_t kElements = uint64_t{8} << 20;
  WritePlan plan;
  plan.add_tensor(make_info("w", DType::kF32, {kElements}),
                  [](ByteSink& sink) { return sink.write_zeros(kElements * 4); });
  edit_or_fail(cast_floats({DType::kBF16, {}}), plan);
  class Nowhere final : public ByteSink {
   public:
    Status write(ByteSpan bytes) override { return taken += bytes.size(), Status(); }
    Status patch(uint64_t, ByteSpan) override { return {}; }
    uint64_t position() const override { return taken; }
    uint64_t taken = 0;
  } nowhere;
  const MemoryMeter meter;
  ASSERT_TRUE(plan.providers[0](nowhere));
  EXPECT_EQ(nowhere.taken, kElements * 2);
  EXPECT_LT(meter.peak(), uint64_t{2} << 20);
}

TEST(FloatCast, RefusesTypesThatAreNoFloats) {
  PlanBuilder builder;
  builder.add_counting("w", {1});
  EXPECT_THAT(edit_error(cast_floats({DType::kI32, {}}), builder.plan()), HasSubstr("i32"));
}

// ---------------------------------------------------------------- half precision

WritePlan network() {
  PlanBuilder builder;
  builder.add_counting("fc.weight", {2, 3}).add_counting("fc.bias", {2});
  builder.add_counting("bn.weight", {3}).add_counting("bn.bias", {3}).add_counting("bn.running_mean", {3});
  builder.add_counting("ln.gamma", {3}).add_counting("ln.beta", {3});
  builder.add_counting("scale", {1});
  return std::move(builder.plan());
}

TEST(HalfPrecision, LeavesBatchNormAndUnknownModulesAlone) {
  WritePlan plan = network();
  const auto notes = edit_or_fail(cast_half({}), plan);
  for (const char* name : {"fc.weight", "fc.bias", "ln.gamma", "ln.beta"}) {
    EXPECT_EQ(info_of(plan, name).dtype, DType::kF16) << name;
  }
  for (const char* name : {"bn.weight", "bn.bias", "bn.running_mean", "scale"}) {
    EXPECT_EQ(info_of(plan, name).dtype, DType::kF32) << name;
  }
  EXPECT_THAT(notes, Contains(HasSubstr("f32 -> f16, tensors of 2 Linear, 2 LayerNorm")));
  EXPECT_THAT(notes, Contains(HasSubstr("left as they are: tensors of 3 BatchNorm, 1 Other (\"bn.weight\" first)")));
}

TEST(HalfPrecision, TakesModuleListsAndTheWayBack) {
  WritePlan plan = network();
  HalfOptions options;
  options.direction = HalfDirection::kToHalf;
  options.with = {ModuleKind::kBatchNorm, ModuleKind::kOther};
  options.without = {ModuleKind::kLinear};
  edit_or_fail(cast_half(options), plan);
  EXPECT_EQ(info_of(plan, "bn.weight").dtype, DType::kF16);
  EXPECT_EQ(info_of(plan, "scale").dtype, DType::kF16);
  EXPECT_EQ(info_of(plan, "fc.weight").dtype, DType::kF32);
  options.direction = HalfDirection::kToFull;
  edit_or_fail(cast_half(options), plan);
  EXPECT_EQ(info_of(plan, "bn.weight").dtype, DType::kF32);
  EXPECT_EQ(values_of(plan, "bn.weight"), (std::vector<float>{1, 2, 3}));
}

TEST(HalfPrecision, GoesByTheSourceTypeAsBurnDoes) {
  PlanBuilder builder;
  builder.add_counting("a_proj.weight", {2, 2}).add<uint16_t>("b_proj.weight", {1, 2}, {0x3C00, 0x4000}, DType::kF16);
  edit_or_fail(cast_half({}), builder.plan());
  EXPECT_EQ(info_of(builder.plan(), "a_proj.weight").dtype, DType::kF16);
  EXPECT_EQ(values_of(builder.plan(), "b_proj.weight"), (std::vector<float>{1, 2}));
}

TEST(HalfPrecision, AsksOnlyWhereTheKindOfModuleMatters) {
  PlanBuilder builder;
  builder.add_counting("mystery.weight", {2, 3});
  WritePlan plan = builder.plan();
  edit_or_fail(cast_half({}), plan);  // Linear or Embedding: both are converted
  EXPECT_EQ(info_of(plan, "mystery.weight").dtype, DType::kF16);
  HalfOptions options;
  options.without = {ModuleKind::kEmbedding};
  EXPECT_THAT(edit_error(cast_half(options), builder.plan()), HasSubstr("\"mystery.weight\": Linear or Embedding"));
  options.hints.linear = {"mystery"};
  edit_or_fail(cast_half(options), builder.plan());
  EXPECT_EQ(info_of(builder.plan(), "mystery.weight").dtype, DType::kF16);
}

}  // namespace
}  // namespace ballast::testing
