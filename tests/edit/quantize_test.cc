#include "ballast/edit/quantize.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ballast/tensor/blocks.h"
#include "tests/edit/plans.h"
#include "tests/support/block_recordings.h"
#include "tests/support/memory_meter.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Quantized {
  WritePlan plan;
  std::shared_ptr<QuantizationLog> log = std::make_shared<QuantizationLog>();

  TensorQuantization entry(const std::string& name) const {
    for (const TensorQuantization& tensor : log->tensors()) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << "no entry " << name;
    return {};
  }
};

Quantized quantize(PlanBuilder& builder, QuantizeOptions options) {
  Quantized result;
  result.plan = std::move(builder.plan());
  edit_or_fail(quantize_tensors(std::move(options), result.log), result.plan);
  return result;
}

QuantizeOptions to_type(DType type, std::vector<TypeRule> rules = {}) {
  return {.type = type, .rules = std::move(rules), .threads = 2};
}

TEST(Quantize, MatricesBecomeBlocksAndTheLogTellsTheError) {
  const std::vector<float> source = block_source("gaussian_64x1024");
  PlanBuilder builder;
  builder.add("w", {64, 1024}, source);
  const Quantized done = quantize(builder, to_type(DType::kQ4K));
  EXPECT_EQ(info_of(done.plan, "w").dtype, DType::kQ4K);
  EXPECT_FALSE(done.entry("w").error.has_value());  // nothing was drawn yet
  ByteVector expected(*packed_size({64, 1024}, DType::kQ4K));
  quantize_blocks(DType::kQ4K, source, expected);
  EXPECT_EQ(bytes_of(done.plan, "w"), expected);
  const TensorQuantization entry = done.entry("w");
  EXPECT_EQ(entry.from, DType::kF32);
  EXPECT_EQ(entry.to, DType::kQ4K);
  EXPECT_EQ(entry.bytes_before, 64U * 1024 * 4);
  EXPECT_EQ(entry.bytes_after, expected.size());
  ASSERT_TRUE(entry.error.has_value());
  EXPECT_EQ(entry.error->count, source.size());
  EXPECT_LE(entry.error->rmse(), 0.07166661395182432);
  EXPECT_NEAR(entry.error->relative(), entry.error->rmse(), 0.01);  // the source has the deviation 1
  EXPECT_GT(entry.error->max_abs, entry.error->rmse());
}

TEST(Quantize, DrawingAgainGivesTheSame) {
  PlanBuilder builder;
  builder.add("w", {64, 1024}, block_source("gaussian_64x1024"));
  const Quantized done = quantize(builder, to_type(DType::kQ6K));
  const ByteVector once = bytes_of(done.plan, "w");
  EXPECT_EQ(bytes_of(done.plan, "w"), once);
  EXPECT_EQ(done.entry("w").error->count, 64U * 1024);
}

TEST(Quantize, HalvesAreWidenedFirst) {
  PlanBuilder builder;
  builder.add<uint16_t>("w", {2, 32}, std::vector<uint16_t>(64, 0x3F80), DType::kBF16);  // 1.0
  const Quantized done = quantize(builder, to_type(DType::kQ8_0));
  std::vector<float> values(64);
  dequantize_blocks(DType::kQ8_0, bytes_of(done.plan, "w"), values);
  EXPECT_NEAR(values[63], 1.0F, 1e-3F);
  EXPECT_EQ(done.entry("w").from, DType::kBF16);
}

TEST(Quantize, WhatIsNoMatrixOrSensitiveStaysWithTheReason) {
  PlanBuilder builder;
  builder.add_counting("bias", {64}).add_counting("norms.weight", {2, 32}).add_counting("wpe.weight", {2, 32});
  builder.add_counting("blk.0.ffn_gate_inp.weight", {2, 32}).add_counting("odd", {2, 33});
  builder.add<int32_t>("ids", {1, 32}, std::vector<int32_t>(32), DType::kI32);
  builder.add<uint8_t>("packed", {1, 32}, std::vector<uint8_t>(34), DType::kQ8_0);
  const Quantized done = quantize(builder, to_type(DType::kQ4_0));
  const std::pair<const char*, const char*> reasons[] = {
      {"bias", "no matrix"},
      {"norms.weight", "a norm"},
      {"wpe.weight", "position embeddings"},
      {"blk.0.ffn_gate_inp.weight", "chooses among experts"},
      {"odd", "rows of 33 are no whole blocks of 32"},
      {"ids", "no floating type"},
      {"packed", "quantised already"},
  };
  for (const auto& [name, reason] : reasons) {
    const TensorQuantization entry = done.entry(name);
    EXPECT_EQ(entry.note, reason) << name;
    EXPECT_EQ(entry.to, entry.from) << name;
    EXPECT_EQ(entry.bytes_after, entry.bytes_before) << name;
    EXPECT_EQ(info_of(done.plan, name).dtype, entry.from) << name;
  }
}

TEST(Quantize, ShortRowsGetASimplerType) {
  const std::pair<DType, DType> stand_ins[] = {{DType::kQ2K, DType::kQ4_0},
                                               {DType::kQ3K, DType::kQ4_0},
                                               {DType::kQ4K, DType::kQ5_0},
                                               {DType::kQ5K, DType::kQ5_1},
                                               {DType::kQ6K, DType::kQ8_0}};
  for (const auto& [wanted, given] : stand_ins) {
    PlanBuilder builder;
    builder.add_counting("w", {2, 96});
    const Quantized done = quantize(builder, to_type(wanted));
    EXPECT_EQ(info_of(done.plan, "w").dtype, given);
    EXPECT_EQ(done.entry("w").note, "rows of 96 are no whole blocks of 256");
    EXPECT_EQ(bytes_of(done.plan, "w").size(), *packed_size({2, 96}, given));
  }
}

TEST(Quantize, RulesGiveOtherTypesAndTheFirstDecides) {
  PlanBuilder builder;
  builder.add_counting("output.weight", {2, 256}).add_counting("embed.weight", {2, 256});
  builder.add_counting("attn.weight", {2, 256}).add_counting("attn_norm.weight", {2, 256});
  builder.add_counting("bias", {32});
  const Quantized done = quantize(
      builder,
      to_type(DType::kQ4_0,
              {{"output", DType::kQ6K}, {"embed", std::nullopt}, {"embed|bias", DType::kF16}, {"norm", DType::kQ8_0}}));
  EXPECT_EQ(info_of(done.plan, "output.weight").dtype, DType::kQ6K);
  EXPECT_EQ(info_of(done.plan, "embed.weight").dtype, DType::kF32);
  EXPECT_EQ(done.entry("embed.weight").note, "kept as asked");
  EXPECT_EQ(info_of(done.plan, "attn.weight").dtype, DType::kQ4_0);
  EXPECT_EQ(info_of(done.plan, "attn_norm.weight").dtype, DType::kQ8_0);  // asked for by name
  EXPECT_EQ(info_of(done.plan, "bias").dtype, DType::kF16);
  EXPECT_EQ(bytes_of(done.plan, "bias").size(), 64U);
}

TEST(Quantize, ARuleRequantisesWhatIsInBlocks) {
  PlanBuilder builder;
  const ByteVector blocks = block_recording(DType::kQ8_0, "gauss").blocks;
  std::vector<uint8_t> bytes(blocks.size());
  std::memcpy(bytes.data(), blocks.data(), bytes.size());
  builder.add<uint8_t>("w", {3, 256}, bytes, DType::kQ8_0);
  const Quantized done = quantize(builder, to_type(DType::kQ4K, {{"w", DType::kQ4K}}));
  EXPECT_EQ(bytes_of(done.plan, "w").size(), 3U * 144);
  EXPECT_GT(done.entry("w").error->rmse(), 0);
}

std::string draw_error(const std::vector<float>& values, DType type) {
  PlanBuilder builder;
  builder.add("layers.0.weight", {2, values.size() / 2}, values);
  const Quantized done = quantize(builder, to_type(type));
  MemorySink sink;
  const Status status = done.plan.providers[0](sink);
  EXPECT_FALSE(status);
  return status ? "" : status.error().message;
}

TEST(Quantize, ValuesThatAreNotFiniteAreRefusedByPlace) {
  std::vector<float> values(512, 1.0F);
  values[300] = std::numeric_limits<float>::quiet_NaN();
  values[400] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(draw_error(values, DType::kQ4K),
            "tensor \"layers.0.weight\": element 300 is nan, and only finite values can be quantised");
}

TEST(Quantize, ValuesTooLargeForTheScalesAreRefusedByPlace) {
  for (const DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2K,
                           DType::kQ3K, DType::kQ4K, DType::kQ5K, DType::kQ6K}) {
    std::vector<float> values(512, 1.0F);
    values[300] = -3e30F;
    EXPECT_EQ(draw_error(values, type),
              "tensor \"layers.0.weight\": element 300 is -3e+30, too large for the "
              "half-precision scales of " +
                  std::string(dtype_name(type)));
  }
}

TEST(Quantize, MemoryIsAPieceHoweverLargeTheTensor) {
  constexpr uint64_t kRows = 16 << 10;
  WritePlan plan;
  const ByteVector row(4096);
  plan.add_tensor(make_info("w", DType::kF32, {kRows, 1024}), [&row](ByteSink& sink) -> Status {
    for (uint64_t i = 0; i < kRows; ++i) BALLAST_CHECK(sink.write(row));
    return {};
  });
  const auto log = std::make_shared<QuantizationLog>();
  edit_or_fail(quantize_tensors(to_type(DType::kQ8_0), log), plan);
  class Nowhere final : public ByteSink {
   public:
    Status write(ByteSpan bytes) override {
      taken_ += bytes.size();
      return {};
    }
    Status patch(uint64_t, ByteSpan) override { return {}; }
    uint64_t position() const override { return taken_; }

   private:
    uint64_t taken_ = 0;
  } nowhere;
  const MemoryMeter meter;
  ASSERT_TRUE(plan.providers[0](nowhere));
  EXPECT_EQ(nowhere.position(), plan.description.tensors[0].byte_size);
  EXPECT_LT(meter.peak(), uint64_t{16} << 20);  // the tensor: 64 MiB
}

TEST(Quantize, RulesAreParsedFromTheLastEquals) {
  const auto rule = parse_type_rule("^(?<=a)b=q6_k");
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->pattern, "^(?<=a)b");
  EXPECT_EQ(rule->type, DType::kQ6K);
  EXPECT_FALSE(parse_type_rule("norm=same")->type.has_value());
  EXPECT_EQ(parse_type_rule("norm=Q8_0")->type, DType::kQ8_0);
  EXPECT_EQ(parse_type_rule("norm=BF16")->type, DType::kBF16);
  for (const char* text : {"norm", "norm=", "=q4_0", "norm=iq4_nl", "norm=i32", "norm=q4"}) {
    const auto refused = parse_type_rule(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().message, HasSubstr("q4_0")) << text;
  }
}

TEST(Quantize, OnlyTypesThatCanBeMadeAreTaken) {
  PlanBuilder builder;
  builder.add_counting("w", {2, 256});
  const auto log = std::make_shared<QuantizationLog>();
  EXPECT_THAT(edit_error(quantize_tensors(to_type(DType::kIQ4NL), log), builder.plan()),
              HasSubstr("iq4_nl is not among the types that tensors can be quantised to: q4_0"));
}

// ---------------------------------------------------------------- presets, importance

TEST(Quantize, APresetChoosesATypeForEachMatrixAndRulesComeFirst) {
  PlanBuilder builder;
  builder.add_counting("token_embd.weight", {2, 256}).add_counting("output.weight", {2, 256});
  builder.add_counting("blk.0.attn_v.weight", {2, 256}).add_counting("blk.0.ffn_up.weight", {2, 256});
  builder.add_counting("blk.0.attn_norm.weight", {256});
  QuantizeOptions options{.preset = *find_quantization_preset("Q3_K_M"), .rules = {{"ffn_up", DType::kQ8_0}}};
  const Quantized done = quantize(builder, std::move(options));
  EXPECT_EQ(info_of(done.plan, "token_embd.weight").dtype, DType::kQ3K);
  EXPECT_EQ(info_of(done.plan, "output.weight").dtype, DType::kQ6K);
  EXPECT_EQ(info_of(done.plan, "blk.0.attn_v.weight").dtype, DType::kQ5K);
  EXPECT_EQ(info_of(done.plan, "blk.0.ffn_up.weight").dtype, DType::kQ8_0);
  EXPECT_EQ(info_of(done.plan, "blk.0.attn_norm.weight").dtype, DType::kF32);
}

TEST(Quantize, APresetOfAFloatingTypeCastsMatricesAlone) {
  PlanBuilder builder;
  builder.add_counting("w", {2, 33}).add_counting("norm.weight", {2, 32}).add_counting("bias", {2});
  const Quantized done = quantize(builder, {.preset = *find_quantization_preset("f16")});
  EXPECT_EQ(info_of(done.plan, "w").dtype, DType::kF16);
  EXPECT_EQ(info_of(done.plan, "norm.weight").dtype, DType::kF32);
  EXPECT_EQ(info_of(done.plan, "bias").dtype, DType::kF32);
  EXPECT_EQ(bytes_of(done.plan, "w").size(), 2U * 2 * 33);
}

TEST(Quantize, GgufMetadataTellsTheFileType) {
  const auto metadata_of = [](QuantizeOptions options, std::vector<MetaEntry> before) {
    PlanBuilder builder;
    builder.add_counting("w", {2, 256});
    builder.plan().description.metadata = std::move(before);
    return quantize(builder, std::move(options)).plan.description.metadata;
  };
  const MetaEntry architecture{"general.architecture", std::string("llama")};
  const MetaEntry version{"general.quantization_version", uint64_t{2}};
  const QuantizationPreset* const preset = *find_quantization_preset("q4_k_m");
  EXPECT_THAT(metadata_of({.preset = preset}, {architecture, {"general.file_type", uint64_t{1}}}),
              ElementsAre(architecture, MetaEntry{"general.file_type", uint64_t{15}}, version));
  EXPECT_THAT(metadata_of({.type = DType::kQ6K}, {architecture}),
              ElementsAre(architecture, MetaEntry{"general.file_type", uint64_t{18}}, version));
  EXPECT_THAT(metadata_of({.preset = preset}, {{"format", std::string("pt")}}),
              ElementsAre(MetaEntry{"format", std::string("pt")}));
}

TEST(Quantize, AnImportanceMatrixWeighsTheErrorsOfEachExpertsInputs) {
  const std::vector<float> source = block_source("gaussian_64x1024");
  PlanBuilder builder;
  builder.add("experts", {2, 32, 1024}, source).add("other", {64, 1024}, source);
  auto importance = std::make_shared<ImportanceMatrix>();
  WeightImportance& experts = (*importance)["experts"];
  experts.inputs = 1024;
  experts.rows = {3, 0};  // the text never reached the second
  experts.square_sums.resize(2048);
  for (size_t i = 0; i < 1024; ++i) experts.square_sums[i] = static_cast<double>(1 + i % 7 * 100);
  const Quantized done = quantize(builder, {.type = DType::kQ4K, .threads = 2, .importance = importance});
  ByteVector plain(*packed_size({64, 1024}, DType::kQ4K));
  quantize_blocks(DType::kQ4K, source, plain);
  const ByteVector weighed = bytes_of(done.plan, "experts");
  const size_t half = plain.size() / 2;
  EXPECT_EQ(bytes_of(done.plan, "other"), plain);
  EXPECT_NE(ByteVector(weighed.begin(), weighed.begin() + static_cast<ptrdiff_t>(half)),
            ByteVector(plain.begin(), plain.begin() + static_cast<ptrdiff_t>(half)));
  EXPECT_EQ(ByteVector(weighed.begin() + static_cast<ptrdiff_t>(half), weighed.end()),
            ByteVector(plain.begin() + static_cast<ptrdiff_t>(half), plain.end()));
  EXPECT_TRUE(done.entry("experts").is_calibrated);
  EXPECT_FALSE(done.entry("other").is_calibrated);
}

TEST(Quantize, AnImportanceMatrixOfAnotherModelIsRefusedByName) {
  PlanBuilder builder;
  builder.add_counting("w", {2, 256});
  auto importance = std::make_shared<ImportanceMatrix>();
  (*importance)["w"] = {.inputs = 128, .square_sums = std::vector<double>(128, 1.0), .rows = {1}};
  const auto log = std::make_shared<QuantizationLog>();
  EXPECT_THAT(edit_error(quantize_tensors({.type = DType::kQ4_0, .importance = importance}, log), builder.plan()),
              AllOf(HasSubstr("tensor \"w\" [2, 256]"), HasSubstr("made with another model")));
}

// ---------------------------------------------------------------- the way back

TEST(Dequantize, BlocksBecomeTheTypeAskedForAndTheRestStays) {
  const BlockRecording recorded = block_recording(DType::kQ5_1, "gauss");
  std::vector<uint8_t> bytes(recorded.blocks.size());
  std::memcpy(bytes.data(), recorded.blocks.data(), bytes.size());
  PlanBuilder builder;
  builder.add<uint8_t>("w", {3, 256}, bytes, DType::kQ5_1).add_counting("bias", {2});
  const auto casts = std::make_shared<CastLog>();
  const auto notes = edit_or_fail(dequantize_tensors(DType::kF32, casts), builder.plan());
  EXPECT_EQ(notes.at(0), "dequantised to f32: 1 of 2 tensors");
  EXPECT_EQ(values_of(builder.plan(), "w"), recorded.expected);
  EXPECT_TRUE(casts->total().exact);
  EXPECT_EQ(casts->casts().size(), 1U);
}

TEST(Dequantize, ATypeThatIsOnlyCarriedIsRefusedByName) {
  PlanBuilder builder;
  builder.add<uint8_t>("grid", {1, 256}, std::vector<uint8_t>(66), DType::kIQ2XXS);
  EXPECT_EQ(edit_error(dequantize_tensors(DType::kF16), builder.plan()),
            "tensor \"grid\": values of dtype iq2_xxs cannot become f16: the type can be carried, not computed");
}

}  // namespace
}  // namespace ballast::testing
