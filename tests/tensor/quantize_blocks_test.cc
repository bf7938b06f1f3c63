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

ByteVector quantized(DType dtype, const std::vector<float>& values, const std::vector<float>& weights = {}) {
  const DTypeInfo& type = dtype_info(dtype);
  ByteVector blocks(values.size() / type.block_elements * type.block_bytes);
  quantize_blocks(dtype, values, blocks, weights);
  return blocks;
}

std::vector<float> values_of(DType dtype, const ByteVector& blocks) {
  const DTypeInfo& type = dtype_info(dtype);
  std::vector<float> values(blocks.size() / type.block_bytes * type.block_elements);
  dequantize_blocks(dtype, blocks, values);
  return values;
}

double weighted_rmse(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& weights) {
  double sum = 0;
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += off * off * static_cast<double>(weights[i]);
    total += static_cast<double>(weights[i]);
  }
  return std::sqrt(sum / total);
}

double rmse(const std::vector<float>& a, const std::vector<float>& b) {
  return weighted_rmse(a, b, std::vector<float>(a.size(), 1.0F));
}

struct QuantizerCase {
  DType dtype;
  double ggml_rmse;           // on gaussian_64x1024, without importance weights
  double ggml_weighted_rmse;  // with importance_of_columns(); 0: ggml does not use them
  bool same_bytes;            // as ggml
};

const QuantizerCase kQuantizers[] = {
    {DType::kQ4_0, 0.08590164130984143, 0.07253964829539218, true},
    {DType::kQ4_1, 0.07842921234430575, 0.05729447896233904, true},
    {DType::kQ5_0, 0.042855329127872294, 0.036627409059400144, true},
    {DType::kQ5_1, 0.03802247350921962, 0.02782048626807572, true},
    {DType::kQ8_0, 0.005359349315513724, 0, true},
    {DType::kQ2K, 0.29763905469853563, 0.19641984771360782, false},
    {DType::kQ3K, 0.1519031593020863, 0.12082579906569015, false},
    {DType::kQ4K, 0.07166661395182432, 0.05856917911046421, false},
    {DType::kQ5K, 0.036332431352321094, 0.0305212845926642, false},
    {DType::kQ6K, 0.017806305264854824, 0.01460566640643291, false},
};

// A thousand to one between neighbours.
std::vector<float> importance_of_columns(size_t count) {
  std::vector<float> weights(count);
  for (size_t i = 0; i < count; ++i) weights[i] = std::exp2(static_cast<float>(i % 1024 * 37 % 11));
  return weights;
}

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

// Whatever matters more comes out nearer.
TEST_P(Quantizers, TheWeightedErrorIsNoLargerThanGgmls) {
  if (GetParam().ggml_weighted_rmse == 0) return;
  const std::vector<float> source = block_source("gaussian_64x1024");
  const std::vector<float> weights = importance_of_columns(source.size());
  const double plain = weighted_rmse(source, values_of(dtype(), quantized(dtype(), source)), weights);
  const double weighted = weighted_rmse(source, values_of(dtype(), quantized(dtype(), source, weights)), weights);
  EXPECT_LT(weighted, plain * 0.95);
  EXPECT_LE(weighted, GetParam().ggml_weighted_rmse);
}

TEST_P(Quantizers, WeightsOfOneScaleChangeNothing) {
  const std::vector<float> source = block_source("gaussian_64x1024");
  const std::vector<float> ones(source.size(), 1.0F);
  const std::vector<float> fours(source.size(), 4.0F);
  EXPECT_EQ(quantized(dtype(), source, ones), quantized(dtype(), source, fours));
}

TEST_P(Quantizers, WhatOverflowsTheScaleIsNotFiniteWithWeightsEither) {
  const std::vector<float> source = block_source("overflow");
  const std::vector<float> values =
      values_of(dtype(), quantized(dtype(), source, importance_of_columns(source.size())));
  EXPECT_TRUE(std::ranges::any_of(values, [](float v) { return !std::isfinite(v); }));
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
