// What the functions over elements do with blocks: they see f32 values.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ballast/tensor/blocks.h"
#include "ballast/tensor/cast.h"
#include "ballast/tensor/cast_sink.h"
#include "ballast/tensor/compare.h"
#include "ballast/tensor/elements.h"
#include "ballast/tensor/statistics.h"
#include "tests/support/block_recordings.h"
#include "tests/support/bytes_of.h"

namespace ballast {
namespace {

using testing::block_recording;
using testing::BlockRecording;
using testing::recorded_block_types;

class BlockElements : public ::testing::TestWithParam<DType> {
 protected:
  BlockRecording recorded_ = block_recording(GetParam(), "bits");
};

INSTANTIATE_TEST_SUITE_P(All, BlockElements, ::testing::ValuesIn(recorded_block_types()),
                         [](const ::testing::TestParamInfo<DType>& param) {
                           return std::string(dtype_name(param.param));
                         });

TEST_P(BlockElements, NumbersCanBeTakenFromAnywhere) {
  EXPECT_EQ(elements_in(GetParam(), recorded_.blocks.size()), recorded_.expected.size());
  for (const auto& [first, count] : {std::pair<size_t, size_t>{0, 1024}, {1, 1000}, {31, 2}, {255, 300}, {1023, 1}}) {
    std::vector<double> numbers(count);
    to_doubles(GetParam(), recorded_.blocks, first, numbers);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(numbers[i], static_cast<double>(recorded_.expected[first + i])) << first << " + " << i;
    }
  }
}

TEST_P(BlockElements, CastingToF32IsExact) {
  ByteVector out(recorded_.expected.size() * sizeof(float));
  const auto report = cast_elements(GetParam(), recorded_.blocks, DType::kF32, out);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->exact);
  const ElementDifference difference =
      compare_elements(DType::kF32, out, DType::kF32, bytes_of(recorded_.expected), {0, 1e-45});
  EXPECT_EQ(difference.max_abs, 0);
}

TEST_P(BlockElements, ASinkTakesPiecesOfAnyLength) {
  ByteVector whole(recorded_.expected.size() * 2);
  ASSERT_TRUE(cast_elements(GetParam(), recorded_.blocks, DType::kBF16, whole));
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100}, recorded_.blocks.size()}) {
    MemorySink out;
    CastSink cast(GetParam(), DType::kBF16, out);
    for (size_t at = 0; at < recorded_.blocks.size(); at += piece) {
      const size_t size = std::min(piece, recorded_.blocks.size() - at);
      ASSERT_TRUE(cast.write(ByteSpan(recorded_.blocks).subspan(at, size)));
    }
    ASSERT_TRUE(cast.finish());
    EXPECT_EQ(out.take(), whole) << piece;
  }
}

TEST_P(BlockElements, HalfABlockIsRefused) {
  ByteVector out(4);
  EXPECT_FALSE(cast_elements(GetParam(), ByteSpan(recorded_.blocks).first(5), DType::kF32, out));
}

TEST_P(BlockElements, ComparesByValueWithItselfAndWithFloats) {
  const ElementDifference same =
      compare_elements(GetParam(), recorded_.blocks, DType::kF32, bytes_of(recorded_.expected), {});
  EXPECT_EQ(same.elements, recorded_.expected.size());
  EXPECT_EQ(same.differing, 0U);
  std::vector<float> moved = recorded_.expected;
  moved[700] += 1;
  const ElementDifference one = compare_elements(GetParam(), recorded_.blocks, DType::kF32, bytes_of(moved), {});
  EXPECT_EQ(one.differing, 1U);
  EXPECT_GT(one.max_abs, 0.5);
  EXPECT_EQ(compare_elements(GetParam(), recorded_.blocks, GetParam(), recorded_.blocks, {}).differing, 0U);
}

TEST_P(BlockElements, StatisticsAreThoseOfTheValues) {
  const Statistics of_blocks = measure(GetParam(), recorded_.blocks).statistics;
  const Statistics of_floats = measure(DType::kF32, bytes_of(recorded_.expected)).statistics;
  EXPECT_EQ(of_blocks.count, of_floats.count);
  EXPECT_EQ(of_blocks.min, of_floats.min);
  EXPECT_EQ(of_blocks.max, of_floats.max);
  EXPECT_EQ(of_blocks.mean, of_floats.mean);
  EXPECT_EQ(of_blocks.squared_deviations, of_floats.squared_deviations);
  EXPECT_EQ(of_blocks.zeros, of_floats.zeros);
}

TEST_P(BlockElements, NonFiniteValuesAreFoundWhereTheyStand) {
  EXPECT_FALSE(find_non_finite(GetParam(), recorded_.blocks).any());
  const BlockRecording large = block_recording(GetParam(), "overflow");
  const NonFinite found = find_non_finite(GetParam(), large.blocks);
  const NonFinite expected = find_non_finite(DType::kF32, bytes_of(large.expected));
  EXPECT_EQ(found.nan, expected.nan);
  EXPECT_EQ(found.positive_infinity, expected.positive_infinity);
  EXPECT_EQ(found.negative_infinity, expected.negative_infinity);
  EXPECT_EQ(found.first, expected.first);
}

TEST(CarriedBlocks, AreNotComputed) {
  EXPECT_FALSE(is_arithmetic(DType::kIQ2XS));
  EXPECT_FALSE(can_cast(DType::kIQ2XS, DType::kF32));
  const ByteVector block(74);
  ByteVector out(256 * 4);
  const auto refused = cast_elements(DType::kIQ2XS, block, DType::kF32, out);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "values of dtype iq2_xs cannot become f32: the type can be carried, not computed");
  EXPECT_FALSE(find_non_finite(DType::kIQ2XS, block).any());
}

TEST(BlockTypes, AreNotWhatACastMakes) { EXPECT_FALSE(can_cast(DType::kF32, DType::kQ4_0)); }

TEST(ElementUnits, ShareNoByteWithOthers) {
  for (const DTypeInfo& row : all_dtypes()) {
    const ElementUnit unit = element_unit(row.dtype);
    EXPECT_GT(unit.bytes, 0U) << row.name;
    if (!has_fixed_size(row.dtype)) continue;
    EXPECT_EQ(elements_in(row.dtype, unit.bytes), unit.elements) << row.name;
    EXPECT_EQ(byte_of_element(row.dtype, 3 * unit.elements), 3 * unit.bytes) << row.name;
  }
}

}  // namespace
}  // namespace ballast
