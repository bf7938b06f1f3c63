#include "ballast/tensor/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/block_recordings.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using testing::block_recording;
using testing::recorded_block_types;

TEST(Blocks, AllTypesButThoseOfSearchedGridsAreComputed) {
  for (const DTypeInfo& row : all_dtypes()) {
    const bool grid = row.name.starts_with("iq1") || row.name.starts_with("iq2") || row.name.starts_with("iq3");
    EXPECT_EQ(can_dequantize(row.dtype), is_block(row.dtype) && !grid) << row.name;
    EXPECT_TRUE(can_dequantize(row.dtype) || !can_quantize(row.dtype)) << row.name;
  }
}

TEST(Blocks, EveryTypeThatIsComputedWasRecorded) {
  for (const DTypeInfo& row : all_dtypes()) {
    if (!can_dequantize(row.dtype)) continue;
    EXPECT_TRUE(std::ranges::count(recorded_block_types(), row.dtype) == 1) << row.name;
  }
}

class RecordedBlocks : public ::testing::TestWithParam<DType> {
 protected:
  static void expect_ggml_values(const std::string& tensor) {
    const auto recorded = block_recording(GetParam(), tensor);
    const DTypeInfo& type = dtype_info(GetParam());
    ASSERT_EQ(recorded.blocks.size() / type.block_bytes * type.block_elements, recorded.expected.size());
    std::vector<float> values(recorded.expected.size());
    dequantize_blocks(GetParam(), recorded.blocks, values);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(testing::same_number(values[i], recorded.expected[i]))
          << tensor << " element " << i << ": " << values[i] << " instead of " << recorded.expected[i];
    }
  }
};

std::string block_type_name(const ::testing::TestParamInfo<DType>& param) {
  return std::string(dtype_name(param.param));
}

INSTANTIATE_TEST_SUITE_P(All, RecordedBlocks, ::testing::ValuesIn(recorded_block_types()), block_type_name);

TEST_P(RecordedBlocks, OrdinaryValuesHaveGgmlsBits) { expect_ggml_values("gauss"); }
TEST_P(RecordedBlocks, AwkwardValuesHaveGgmlsBits) { expect_ggml_values("awkward"); }
TEST_P(RecordedBlocks, InfiniteScalesHaveGgmlsBits) { expect_ggml_values("overflow"); }
TEST_P(RecordedBlocks, EveryCodeAndScaleHasGgmlsBits) { expect_ggml_values("bits"); }

TEST_P(RecordedBlocks, PartsOfWholeBlocksGiveTheSameValues) {
  const auto recorded = block_recording(GetParam(), "bits");
  const DTypeInfo& type = dtype_info(GetParam());
  std::vector<float> values(type.block_elements);
  const size_t last = recorded.blocks.size() / type.block_bytes - 1;
  dequantize_blocks(GetParam(), ByteSpan(recorded.blocks).subspan(last * type.block_bytes), values);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(testing::same_number(values[i], recorded.expected[last * type.block_elements + i])) << i;
  }
}

}  // namespace
}  // namespace ballast
