#include "ballast/edit/adapt.h"

#include <gmock/gmock.h>

#include "ballast/archive/open.h"
#include "ballast/edit/transpose.h"
#include "ballast/formats/drivers.h"
#include "tests/edit/plans.h"
#include "tests/support/memory_meter.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlanEdit adapter(const char* name, AdaptOptions options = {}) {
  const Adapter* found = find_adapter(name);
  EXPECT_NE(found, nullptr) << name;
  return adapt_with(*found, std::move(options));
}

WritePlan torch_network() {
  PlanBuilder builder;
  builder.add_counting("embed.weight", {5, 3});
  builder.add_counting("fc.weight", {2, 3}).add_counting("fc.bias", {2});
  builder.add_counting("bn.weight", {2}).add_counting("bn.bias", {2});
  builder.add_counting("bn.running_mean", {2}).add_counting("bn.running_var", {2});
  builder.add<int64_t>("bn.num_batches_tracked", {}, {4}, DType::kI64);
  builder.add_counting("conv.weight", {2, 1, 3, 3});
  return std::move(builder.plan());
}

TEST(Adapt, PyTorchToBurnTransposesLinearAndNamesNorms) {
  WritePlan plan = torch_network();
  const auto notes = edit_or_fail(adapter("pytorch-to-burn"), plan);
  EXPECT_THAT(names_of(plan),
              ElementsAre("embed.weight", "fc.weight", "fc.bias", "bn.gamma", "bn.beta", "bn.running_mean",
                          "bn.running_var", "bn.num_batches_tracked", "conv.weight"));
  EXPECT_EQ(info_of(plan, "fc.weight").shape, (Shape{3, 2}));
  EXPECT_EQ(values_of(plan, "fc.weight"), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(info_of(plan, "embed.weight").shape, (Shape{5, 3}));
  EXPECT_THAT(notes, Contains("pytorch-to-burn: 1 of 9 tensors transposed, 2 renamed as parameters of norms"));
  EXPECT_THAT(notes, Contains(HasSubstr("num_batches_tracked")));
}

TEST(Adapt, ThereAndBackGivesTheSameTensors) {
  const WritePlan before = torch_network();
  WritePlan plan = torch_network();
  edit_or_fail(adapter("pytorch-to-burn"), plan);
  edit_or_fail(adapter("burn-to-pytorch"), plan);
  ASSERT_EQ(names_of(plan), names_of(before));
  for (const std::string& name : names_of(before)) {
    EXPECT_EQ(info_of(plan, name).shape, info_of(before, name).shape) << name;
    EXPECT_EQ(bytes_of(plan, name), bytes_of(before, name)) << name;
  }
}

TEST(Adapt, ListsAmbiguousTensorsAndSaysWhatDecides) {
  PlanBuilder builder;
  builder.add_counting("0.weight", {2, 3}).add_counting("1.weight", {3});
  WritePlan plan = builder.plan();
  const Error error = edit_refusal(adapter("pytorch-to-burn"), plan);
  EXPECT_THAT(error.message, HasSubstr("\"0.weight\" [2, 3]: no bias beside it"));
  EXPECT_THAT(error.message, HasSubstr("\"1.weight\" [3]"));
  EXPECT_EQ(error.remedies, Remedy::kClassifyModules);
  EXPECT_EQ(names_of(plan), names_of(builder.plan()));
}

TEST(Adapt, AmbiguousTensorsAreKeptOrTakenForLinearWhenAsked) {
  PlanBuilder builder;
  builder.add_counting("0.weight", {2, 3}).add_counting("1.weight", {3});
  AdaptOptions options;
  options.ambiguous = Ambiguous::kKeep;
  WritePlan kept = builder.plan();
  edit_or_fail(adapter("pytorch-to-burn", options), kept);
  EXPECT_EQ(info_of(kept, "0.weight").shape, (Shape{2, 3}));
  options.ambiguous = Ambiguous::kLinear;
  WritePlan turned = builder.plan();
  edit_or_fail(adapter("pytorch-to-burn", options), turned);
  EXPECT_EQ(info_of(turned, "0.weight").shape, (Shape{3, 2}));
  EXPECT_EQ(info_of(turned, "1.weight").shape, (Shape{3}));
  options.hints.norm = {"^1"};
  edit_or_fail(adapter("pytorch-to-burn", options), builder.plan());
  EXPECT_THAT(names_of(builder.plan()), ElementsAre("0.weight", "1.gamma"));
}

TEST(Adapt, QuantisedLinearWeightsAreLeftAlone) {
  PlanBuilder builder;
  builder.add<uint8_t>("fc.weight", {8}, std::vector<uint8_t>(8, 1), DType::kU8);
  builder.last().dtype = DType::kQFloat;
  builder.last().shape = Shape{2, 2};
  builder.last().set_scheme("any");
  const auto notes = edit_or_fail(adapter("burn-to-pytorch"), builder.plan());
  EXPECT_EQ(bytes_of(builder.plan(), "fc.weight").size(), 8U);
  EXPECT_THAT(notes, Contains(HasSubstr("1 packed Linear weights were left as they lie")));
}

TEST(Adapt, ANameThatIsTakenIsAnError) {
  PlanBuilder builder;
  builder.add_counting("ln.weight", {3}).add_counting("ln.gamma", {3});
  EXPECT_THAT(edit_error(adapter("pytorch-to-burn"), builder.plan()), HasSubstr("\"ln.gamma\""));
}

// The genuine file, through PyTorch's layout in safetensors and back.
TEST(Adapt, ANetclModelComesBackAsTheSameBytes) {
  const TempFolder folder;
  for (const char* name : {"netcl/mlp_basic.netcl", "netcl/cnn_all_layers.netcl"}) {
    const std::string path = test_file_path(name);
    const auto netcl = open_archive(path);
    ASSERT_TRUE(netcl) << netcl.error().message;
    ConvertOptions options;
    options.write.commit.overwrite = true;
    options.edits = {adapter("netcl-to-pytorch")};
    const auto there = convert_archive(*netcl, folder.path("t.safetensors"), kSafetensorsDriver, options);
    ASSERT_TRUE(there) << there.error().message;
    const auto torch = open_archive(folder.path("t.safetensors"));
    ASSERT_TRUE(torch);
    for (const TensorInfo& tensor : torch->tensors())
      EXPECT_EQ(tensor.name.find(':'), std::string::npos) << tensor.name;
    options.edits = {adapter("pytorch-to-netcl")};
    const auto back = convert_archive(*torch, folder.path("b.netcl"), *find_format("netcl"), options);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(read_text_file(folder.path("b.netcl")), read_text_file(path)) << name;
  }
}

TEST(Transpose, IsRightForShapesThatFillNoTile) {
  for (const auto& [rows, columns] : std::vector<std::pair<uint64_t, uint64_t>>{{1, 7}, {7, 1}, {33, 65}, {100, 3}}) {
    PlanBuilder builder;
    builder.add_counting("w", {rows, columns});
    transpose_tensor(builder.plan(), 0, std::make_shared<MemoryGate>());
    const auto values = values_of(builder.plan(), "w");
    for (uint64_t row = 0; row < rows; ++row) {
      for (uint64_t column = 0; column < columns; ++column) {
        ASSERT_EQ(values[column * rows + row], static_cast<float>(row * columns + column + 1));
      }
    }
  }
}

TEST(Transpose, HoldsTheTensorOnceAndAChunk) {
  constexpr uint64_t kSide = 2048;
  WritePlan plan;
  plan.add_tensor(make_info("w", DType::kF32, {kSide, kSide}),
                  [](ByteSink& sink) { return sink.write_zeros(kSide * kSide * 4); });
  transpose_tensor(plan, 0, std::make_shared<MemoryGate>());
  ByteVector out(kSide * kSide * 4);
  SpanSink sink(out);
  const MemoryMeter meter;
  ASSERT_TRUE(plan.providers[0](sink));
  EXPECT_LT(meter.peak(), kSide * kSide * 4 + (uint64_t{3} << 20));
}

TEST(Transpose, NeedsWholeBytes) {
  EXPECT_FALSE(can_transpose(make_info("w", DType::kF4, {2, 2})));
  EXPECT_FALSE(can_transpose(make_info("w", DType::kF32, {2, 2, 2})));
  EXPECT_TRUE(can_transpose(make_info("w", DType::kBF16, {2, 2})));
}

TEST(Adapters, HaveDifferentNamesAndSummaries) {
  for (const Adapter& a : all_adapters()) {
    EXPECT_FALSE(a.summary.empty());
    EXPECT_EQ(find_adapter(a.name), &a);
  }
  EXPECT_EQ(find_adapter("nonsense"), nullptr);
}

}  // namespace
}  // namespace ballast::testing
