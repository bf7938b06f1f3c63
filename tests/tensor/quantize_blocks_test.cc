#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ballast/tensor/blocks.h"
#include "tests/support/block_recordings.h"

namespace ballast {
namespace {

using testing::block_recording;
using testing::block_source;

ByteVector quantized(DType dtype, const std::vector<float>& values) {
  const DTypeInfo& type = dtype_info(dtype);
  ByteVector blocks(values.size() / type.block_elements * type.block_bytes);
  quantize_blocks(dtype, values, blocks);
  return blocks;
}

std::vector<float> values_of(DType dtype, const ByteVector& blocks) {
  const DTypeInfo& type = dtype_info(dtype);
  std::vector<float> values(blocks.size() / type.block_bytes * type.block_elements);
  dequantize_blocks(dtype, blocks, values);
  return values;
}

double rmse(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += off * off;
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

struct QuantizerCase {
  DType dtype;
  double ggml_rmse;  // on gaussian_64x1024, without importance weights
  bool same_bytes;   // as ggml
};

const QuantizerCase kQuantizers[] = {
    {DType::kQ4_0, 0.08590164130984143, true},  {DType::kQ4_1, 0.07842921234430575, true},
    {DType::kQ5_0, 0.042855329127872294, true}, {DType::kQ5_1, 0.03802247350921962, true},
    {DType::kQ8_0, 0.005359349315513724, true}, {DType::kQ4K, 0.07166661395182432, false},
    {DType::kQ5K, 0.036332431352321094, false}, {DType::kQ6K, 0.017806305264854824, false},
};

class Quantizers : public ::testing::TestWithParam<QuantizerCase> {
 protected:
  DType dtype() const { return GetParam().dtype; }
};

INSTANTIATE_TEST_SUITE_P(All, Quantizers, ::testing::ValuesIn(kQuantizers),
                         [](const ::testing::TestParamInfo<QuantizerCase>& param) {
                           return std::string(dtype_name(param.param.dtype));
                         });

TEST(QuantizerList, IsThatOfTheTable) {
  for (const DTypeInfo& row : all_dtypes()) {
    EXPECT_EQ(can_quantize(row.dtype), std::ranges::count(kQuantizers, row.dtype, &QuantizerCase::dtype) == 1)
        << row.name;
  }
}

TEST_P(Quantizers, TheErrorIsNoLargerThanGgmls) {
  const std::vector<float> source = block_source("gaussian_64x1024");
  const double error = rmse(source, values_of(dtype(), quantized(dtype(), source)));
  EXPECT_LE(error, GetParam().ggml_rmse * (1 + 1e-12));
}

TEST(SimpleQuantizers, HaveGgmlsBytes) {
  for (const QuantizerCase& quantizer : kQuantizers) {
    if (!quantizer.same_bytes) continue;
    EXPECT_EQ(quantized(quantizer.dtype, block_source("gauss")), block_recording(quantizer.dtype, "gauss").blocks)
        << dtype_name(quantizer.dtype);
  }
}

// Where a scale vanishes in half precision ggml's codes are noise; the values are not.
TEST_P(Quantizers, AwkwardValuesComeOutAsWithGgmlOrNearer) {
  const std::vector<float> source = block_source("awkward");
  const std::vector<float> ours = values_of(dtype(), quantized(dtype(), source));
  const std::vector<float> theirs = block_recording(dtype(), "awkward").expected;
  EXPECT_TRUE(!GetParam().same_bytes || ours == theirs);
  EXPECT_LE(rmse(source, ours), rmse(source, theirs));
}

TEST_P(Quantizers, ABlockOfZerosIsZero) {
  const std::vector<float> zeros(dtype_info(dtype()).block_elements, 0.0F);
  EXPECT_EQ(values_of(dtype(), quantized(dtype(), zeros)), zeros);
}

TEST_P(Quantizers, AConstantComesOutWithinThePrecisionOfItsScales) {
  for (const float constant : {1.0F, -3.0F, 0.37F, -1e-3F, 5e4F}) {
    const std::vector<float> values(dtype_info(dtype()).block_elements, constant);
    for (const float value : values_of(dtype(), quantized(dtype(), values))) {
      ASSERT_NEAR(value, constant, std::abs(constant) * 1e-2F);
    }
  }
}

// What was dequantised and is quantised again loses nothing worth mentioning.
TEST_P(Quantizers, QuantisingAgainKeepsTheValues) {
  const std::vector<float> once = values_of(dtype(), quantized(dtype(), block_source("gaussian_64x1024")));
  const std::vector<float> twice = values_of(dtype(), quantized(dtype(), once));
  EXPECT_LE(rmse(once, twice), GetParam().ggml_rmse * 0.2);
}

// Too large for the scale: never a finite wrong number in silence.
TEST_P(Quantizers, WhatOverflowsTheScaleIsNotFinite) {
  const std::vector<float> values = values_of(dtype(), quantized(dtype(), block_source("overflow")));
  EXPECT_TRUE(std::ranges::none_of(values, [](float v) { return std::isfinite(v) && v != 0; }));
  EXPECT_TRUE(std::ranges::any_of(values, [](float v) { return !std::isfinite(v); }));
  const float huge = std::numeric_limits<float>::max();
  std::vector<float> ends(dtype_info(dtype()).block_elements, huge);
  for (size_t i = 0; i < ends.size(); i += 2) ends[i] = -huge;
  const std::vector<float> made = values_of(dtype(), quantized(dtype(), ends));
  EXPECT_TRUE(std::ranges::any_of(made, [](float v) { return !std::isfinite(v); }));
}

}  // namespace
}  // namespace ballast
