// Tensors of block types where archives are looked at: slices, statistics, differences, conversions.
#include "ballast/tensor/blocks.h"

#include <gmock/gmock.h>

#include <cstring>

#include "ballast/archive/convert.h"
#include "ballast/archive/diff.h"
#include "ballast/archive/open.h"
#include "ballast/archive/slice.h"
#include "ballast/archive/stats.h"
#include "tests/support/block_recordings.h"
#include "tests/support/memory_archive.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

const Shape kShape = {2, 512};

MemoryArchive one_block_tensor(DType dtype) {
  MemoryArchive archive;
  archive.add_bytes(make_info("w", dtype, kShape), block_recording(dtype, "bits").blocks);
  return archive;
}

MemoryArchive same_as_f32(DType dtype) {
  return MemoryArchive().add("w", DType::kF32, kShape, block_recording(dtype, "bits").expected);
}

MemoryArchive carried_tensor() {
  return MemoryArchive().add_bytes(make_info("grid", DType::kIQ2XS, kShape), counting_bytes(4 * 74));
}

SliceResult read_block_slice(const Archive& archive, std::string_view text) {
  auto result = read_slice(archive, 0, *parse_slice(text));
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *std::move(result) : SliceResult{};
}

F32 floats_of(const ByteVector& bytes) {
  F32 values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

DiffOptions within(double rtol) {
  DiffOptions options;
  options.rtol = rtol;
  return options;
}

class BlockArchives : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, BlockArchives, ::testing::ValuesIn(recorded_block_types()),
                         [](const ::testing::TestParamInfo<DType>& param) {
                           return std::string(dtype_name(param.param));
                         });

TEST_P(BlockArchives, SlicesOfWholeRowsStayBlocks) {
  const ByteVector blocks = block_recording(GetParam(), "bits").blocks;
  for (const Archive& archive :
       {one_block_tensor(GetParam()).build(), one_block_tensor(GetParam()).build_unviewable()}) {
    const SliceResult row = read_block_slice(archive, "[1]");
    EXPECT_EQ(row.info.dtype, GetParam());
    EXPECT_EQ(row.info.shape, Shape{512});
    EXPECT_EQ(row.payload, ByteVector(blocks.begin() + static_cast<ptrdiff_t>(blocks.size() / 2), blocks.end()));
    EXPECT_EQ(read_block_slice(archive, "[:]").payload, blocks);
  }
}

TEST_P(BlockArchives, SlicesOfWholeBlocksStayBlocks) {
  const SliceResult part = read_block_slice(one_block_tensor(GetParam()).build(), "[:, 256:512]");
  EXPECT_EQ(part.info.dtype, GetParam());
  EXPECT_EQ(part.info.shape, (Shape{2, 256}));
  EXPECT_EQ(part.info.byte_size, *packed_size(part.info.shape, GetParam()));
  F32 values(512);
  dequantize_blocks(GetParam(), part.payload, values);
  EXPECT_EQ(values[256], block_recording(GetParam(), "bits").expected[512 + 256]);
}

// Against the same slice of the same values as f32, which other tests look at.
TEST_P(BlockArchives, SlicesThatCutBlocksAreValues) {
  const Archive floats = same_as_f32(GetParam()).build();
  for (const Archive& archive :
       {one_block_tensor(GetParam()).build(), one_block_tensor(GetParam()).build_unviewable()}) {
    for (const char* text : {"[0, 0]", "[1, 511]", "[:, 5]", "[:, 3:7]", "[1, 250:300]", "[:, ::7]", "[:, ::300]",
                             "[::2, 31::64]", "[:, -1]", "[..., 1:]"}) {
      const SliceResult part = read_block_slice(archive, text);
      const SliceResult expected = read_block_slice(floats, text);
      EXPECT_EQ(part.info.dtype, DType::kF32) << text;
      EXPECT_EQ(part.info.shape, expected.info.shape) << text;
      EXPECT_EQ(floats_of(part.payload), floats_of(expected.payload)) << text;
    }
  }
}

TEST_P(BlockArchives, SummariesShowTheEdgesOfARow) {
  const Archive archive = one_block_tensor(GetParam()).build();
  const auto selection = select(archive.tensors()[0], {});
  for (const uint64_t edge : {1, 3, 40}) {
    MemorySink of_blocks, of_floats;
    ASSERT_TRUE(stream_slice_values(archive, 0, selection->edges(edge), of_blocks));
    ASSERT_TRUE(stream_slice_values(same_as_f32(GetParam()).build(), 0, selection->edges(edge), of_floats));
    EXPECT_EQ(floats_of(of_blocks.take()), floats_of(of_floats.take())) << edge;
  }
}

TEST_P(BlockArchives, AreMeasuredAndComparedByValue) {
  const Archive archive = one_block_tensor(GetParam()).build();
  const Archive floats = same_as_f32(GetParam()).build();
  const std::vector<size_t> all = {0};
  const auto measured = measure_archive(archive, all);
  ASSERT_TRUE(measured);
  EXPECT_TRUE(measured->tensors[0].measured);
  EXPECT_EQ(measured->tensors[0].statistics.mean, measure_archive(floats, all)->tensors[0].statistics.mean);
  EXPECT_TRUE(diff_archives(archive, archive)->equal());
  const auto report = diff_archives(archive, floats, within(1e-9));
  ASSERT_TRUE(report);
  EXPECT_THAT(report->entries[0].note, HasSubstr(" -> f32"));
  EXPECT_TRUE(report->entries[0].change.comparable);
  EXPECT_EQ(report->entries[0].change.differing, 0U);
  EXPECT_EQ(report->entries[0].change.elements, 1024U);
}

TEST(BlockDiff, BlocksOfTwoTypesAreComparedPieceByPiece) {
  constexpr uint64_t kRows = 6000;  // more than one piece
  const auto make = [](DType dtype) {
    const F32 values(256, 0.5F);
    ByteVector row(*packed_size({256}, dtype));
    quantize_blocks(dtype, values, row);
    ByteVector all;
    for (uint64_t i = 0; i < kRows; ++i) all.insert(all.end(), row.begin(), row.end());
    return MemoryArchive().add_bytes(make_info("w", dtype, {kRows, 256}), all);
  };
  const auto report = diff_archives(make(DType::kQ8_0).build(), make(DType::kQ6K).build(), within(0.01));
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->entries[0].change.within_tolerance) << report->entries[0].change.max_rel;
  EXPECT_EQ(report->entries[0].change.elements, kRows * 256);
}

TEST(CarriedBlockTensor, IsTakenByWholeBlocksOnly) {
  const Archive archive = carried_tensor().build();
  EXPECT_EQ(read_block_slice(archive, "[1]").info.dtype, DType::kIQ2XS);
  const auto cut = read_slice(archive, 0, *parse_slice("[0, 1:3]"));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(cut.error().message, HasSubstr("\"grid\" is iq2_xs, a type that can be carried but not computed"));
}

TEST(CarriedBlockTensor, IsNotMeasuredAndComparedAsBytes) {
  const Archive archive = carried_tensor().build();
  EXPECT_FALSE(measure_archive(archive, std::vector<size_t>{0})->tensors[0].measured);
  EXPECT_TRUE(diff_archives(archive, archive)->equal());
  const Archive other =
      MemoryArchive().add_bytes(make_info("grid", DType::kIQ2XS, kShape), counting_bytes(4 * 74, 9)).build();
  const auto report = diff_archives(archive, other);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->entries[0].kind, DiffKind::kChanged);
  EXPECT_FALSE(report->entries[0].change.comparable);
}

// ---------------------------------------------------------------- formats without a word for blocks

class BlockTargets : public ::testing::TestWithParam<std::string> {
 protected:
  const FormatDriver& format() const { return *find_format(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Formats, BlockTargets, ::testing::Values("safetensors", "burnpack", "npz"),
                         [](const ::testing::TestParamInfo<std::string>& param) { return param.param; });

TEST_P(BlockTargets, AreALossThatTellsTheWayOut) {
  const TempFolder folder;
  const auto refused = convert_archive(one_block_tensor(DType::kQ4K).build(), folder.path("out"), format(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLossy);
  EXPECT_THAT(refused.error().message, HasSubstr("dtype q4_k does not exist in " + GetParam()));
  EXPECT_EQ(refused.error().remedies, Remedy::kDequantize);
}

TEST_P(BlockTargets, WithLeaveTheyBecomeF32Exactly) {
  const TempFolder folder;
  ConvertOptions options;
  options.allow_lossy = true;
  const auto report = convert_archive(one_block_tensor(DType::kQ5K).build(), folder.path("out"), format(), options);
  ASSERT_TRUE(report) << report.error().message;
  const auto written = open_archive(folder.path("out"));
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(written->tensors()[0].dtype, DType::kF32);
  const auto payload = written->payload(0);
  EXPECT_EQ(floats_of({payload->bytes().begin(), payload->bytes().end()}),
            block_recording(DType::kQ5K, "bits").expected);
}

TEST_P(BlockTargets, TypesThatAreOnlyCarriedBecomeBytes) {
  const TempFolder folder;
  ConvertOptions options;
  options.allow_lossy = true;
  const auto report = convert_archive(carried_tensor().build(), folder.path("out"), format(), options);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->losses.size(), 1U);
  EXPECT_THAT(report->losses[0].what, HasSubstr("iq2_xs"));
  EXPECT_EQ(open_archive(folder.path("out"))->tensors()[0].dtype, DType::kU8);
}

}  // namespace
}  // namespace ballast::testing
