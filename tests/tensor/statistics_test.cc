#include "ballast/tensor/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>

#include "ballast/tensor/cast.h"
#include "tests/support/bytes_of.h"

namespace ballast::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kQuietNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
Measured measure_values(DType dtype, const std::vector<T>& values) {
  return measure(dtype, bytes_of(values));
}

std::vector<float> normal_values(size_t count, float mean, float deviation, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(mean, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

// In long double, the plain way in two passes.
void expect_moments(const Statistics& found, const std::vector<float>& values) {
  long double mean = 0;
  for (const float value : values) mean += value;
  mean /= static_cast<long double>(values.size());
  long double squares = 0;
  for (const float value : values) squares += (value - mean) * (value - mean);
  const auto std = static_cast<double>(std::sqrt(squares / static_cast<long double>(values.size())));
  EXPECT_NEAR(found.mean, static_cast<double>(mean), 1e-12 * std::abs(static_cast<double>(mean)) + 1e-15);
  EXPECT_NEAR(found.std(), std, 1e-9 * std);
  EXPECT_EQ(found.min, std::ranges::min(values));
  EXPECT_EQ(found.max, std::ranges::max(values));
}

TEST(Statistics, OfFewNumbers) {
  const Statistics found = measure_values<float>(DType::kF32, {1, 2, 3, 4, -10}).statistics;
  EXPECT_EQ(found.count, 5U);
  EXPECT_EQ(found.min, -10);
  EXPECT_EQ(found.max, 4);
  EXPECT_EQ(found.abs_max(), 10);
  EXPECT_DOUBLE_EQ(found.mean, 0);
  EXPECT_DOUBLE_EQ(found.std(), std::sqrt(26.0));
}

TEST(Statistics, OfNoNumbersAreNan) {
  const Measured measured = measure_values<float>(DType::kF32, {});
  EXPECT_EQ(measured.statistics.count, 0U);
  EXPECT_TRUE(std::isnan(measured.statistics.min));
  EXPECT_TRUE(std::isnan(measured.statistics.std()));
  EXPECT_FALSE(measured.statistics.all_zero());
  EXPECT_TRUE(measured.values.to_histogram(measured.statistics, 4).counts.empty());
}

TEST(Statistics, MomentsAreThoseOfThePlainWay) {
  for (const size_t count : {1UL, 2UL, 3UL, 5UL, 2047UL, 2048UL, 2051UL, 100'003UL}) {
    const auto values = normal_values(count, 0.1F, 0.02F);
    expect_moments(measure_values(DType::kF32, values).statistics, values);
  }
}

TEST(Statistics, ASmallDeviationAroundALargeMeanIsNotLost) {
  auto values = normal_values(50'000, 1e6F, 1);
  expect_moments(measure_values(DType::kF32, values).statistics, values);
  for (size_t i = 0; i < 2048; ++i) values[i] -= 1e6F;  // the first block misleads about the rest
  expect_moments(measure_values(DType::kF32, values).statistics, values);
}

TEST(Statistics, PartsMergeToTheWhole) {
  const auto values = normal_values(10'000, -3, 2);
  const ByteVector payload = bytes_of(values);
  Measured merged;
  for (size_t begin = 0; begin < values.size(); begin += 1'111) {
    const size_t size = std::min<size_t>(1'111, values.size() - begin);
    merged.merge(measure(DType::kF32, ByteSpan(payload).subspan(begin * sizeof(float), size * sizeof(float))));
  }
  expect_moments(merged.statistics, values);
  const Measured whole = measure_values(DType::kF32, values);
  EXPECT_EQ(merged.values.to_histogram(whole.statistics, -10, 4, 20).counts,
            whole.values.to_histogram(whole.statistics, -10, 4, 20).counts);
}

TEST(Statistics, WhatIsNotFiniteIsCountedAndLeftOut) {
  std::vector<float> values(3000, 0.5F);
  values[7] = kQuietNan;
  values[8] = static_cast<float>(kInf);
  values[2999] = -static_cast<float>(kInf);
  values[2998] = -static_cast<float>(kInf);
  const Statistics found = measure_values(DType::kF32, values).statistics;
  EXPECT_EQ(found.count, 3000U);
  EXPECT_EQ(found.nan, 1U);
  EXPECT_EQ(found.positive_infinity, 1U);
  EXPECT_EQ(found.negative_infinity, 2U);
  EXPECT_EQ(found.finite(), 2996U);
  EXPECT_EQ(found.mean, 0.5);
  EXPECT_EQ(found.std(), 0);
  EXPECT_FALSE(found.constant());
}

TEST(Statistics, NothingFiniteAtAll) {
  const Measured measured = measure_values<float>(DType::kF32, {kQuietNan, kQuietNan});
  EXPECT_EQ(measured.statistics.nan, 2U);
  EXPECT_TRUE(std::isnan(measured.statistics.mean));
  EXPECT_TRUE(measured.values.to_histogram(measured.statistics, 8).counts.empty());
}

TEST(Statistics, ZerosOfBothSignsAndDenormals) {
  const Statistics found = measure_values<float>(DType::kF32, {0, -0.0F, 1e-40F, -1e-40F, 1.2e-38F, 1, 2}).statistics;
  EXPECT_EQ(found.zeros, 2U);
  EXPECT_EQ(found.denormals, 2U);
  const Statistics wide = measure_values<double>(DType::kF64, {0, 1e-310, 1e-40}).statistics;
  EXPECT_EQ(wide.zeros, 1U);
  EXPECT_EQ(wide.denormals, 1U);
}

TEST(Statistics, DenormalsAreThoseOfTheStoredType) {
  // 2^-24 (denormal), 2^-14 (smallest normal), 0, 1
  const Statistics half = measure_values<uint16_t>(DType::kF16, {0x0001, 0x0400, 0x8000, 0x3C00}).statistics;
  EXPECT_EQ(half.denormals, 1U);
  EXPECT_EQ(half.zeros, 1U);
  EXPECT_EQ(half.min, 0);
  EXPECT_EQ(half.max, 1);
  const Statistics brain = measure_values<uint16_t>(DType::kBF16, {0x0001, 0x0080, 0x3F80}).statistics;
  EXPECT_EQ(brain.denormals, 1U);
  const Statistics powers = measure_values<uint8_t>(DType::kF8E8M0, {0, 1, 127}).statistics;
  EXPECT_EQ(powers.denormals, 0U);
  EXPECT_EQ(powers.zeros, 0U);
  EXPECT_EQ(powers.max, 1);
  const Statistics fnuz = measure_values<uint8_t>(DType::kF8E4M3Fnuz, {0x80, 0, 1}).statistics;
  EXPECT_EQ(fnuz.nan, 1U);
  EXPECT_EQ(fnuz.zeros, 1U);
  EXPECT_EQ(fnuz.denormals, 1U);
}

TEST(Statistics, TypesOfFourBitsAreUnpacked) {
  // 0.5 and 1, 6 and -6
  const Statistics found = measure_values<uint8_t>(DType::kF4, {0x21, 0xF7}).statistics;
  EXPECT_EQ(found.count, 4U);
  EXPECT_EQ(found.min, -6);
  EXPECT_EQ(found.max, 6);
  EXPECT_DOUBLE_EQ(found.mean, 1.5 / 4);
}

TEST(Statistics, OfIntegersTruthValuesAndComplexNumbers) {
  const Statistics integers = measure_values<int8_t>(DType::kI8, {-128, 127, 0}).statistics;
  EXPECT_EQ(integers.min, -128);
  EXPECT_EQ(integers.max, 127);
  EXPECT_EQ(integers.zeros, 1U);
  EXPECT_EQ(integers.denormals, 0U);
  EXPECT_EQ(measure_values<uint64_t>(DType::kU64, {UINT64_MAX}).statistics.max, 18446744073709551615.0);
  EXPECT_DOUBLE_EQ(measure_values<uint8_t>(DType::kBool, {1, 0, 7, 0}).statistics.mean, 0.5);
  const Statistics complex = measure_values<float>(DType::kC64, {1, 2, 3, 4}).statistics;
  EXPECT_EQ(complex.count, 4U);
  EXPECT_DOUBLE_EQ(complex.mean, 2.5);
}

TEST(Statistics, ConstantAndAllZero) {
  EXPECT_TRUE(measure_values<float>(DType::kF32, {0, 0}).statistics.all_zero());
  EXPECT_TRUE(measure_values<float>(DType::kF32, {3, 3}).statistics.constant());
  EXPECT_FALSE(measure_values<float>(DType::kF32, {3}).statistics.constant());
  EXPECT_EQ(measure_values(DType::kF32, std::vector<float>(5001, 0.1F)).statistics.std(), 0);
}

TEST(Histogram, CountsWhatLiesBetweenItsEdges) {
  std::vector<float> values(4000);
  std::iota(values.begin(), values.end(), 0.0F);
  const Measured measured = measure_values(DType::kF32, values);
  const Histogram histogram = measured.values.to_histogram(measured.statistics, 1000, 3000, 4);
  EXPECT_NEAR(static_cast<double>(histogram.below), 1000, 40);
  EXPECT_NEAR(static_cast<double>(histogram.above), 1000, 40);
  ASSERT_EQ(histogram.counts.size(), 4U);
  uint64_t sum = histogram.below + histogram.above;
  for (const uint64_t count : histogram.counts) {
    EXPECT_NEAR(static_cast<double>(count), 500, 40);
    sum += count;
  }
  EXPECT_EQ(sum, values.size());
}

TEST(Histogram, OfABellIsABell) {
  const auto values = normal_values(200'000, 0, 1);
  const Measured measured = measure_values(DType::kF32, values);
  const Histogram histogram = measured.values.to_histogram(measured.statistics, 16);
  EXPECT_NEAR(histogram.low, -4, 0.1);
  EXPECT_NEAR(histogram.high, 4, 0.1);
  ASSERT_EQ(histogram.counts.size(), 16U);
  for (size_t i = 0; i < 8; ++i) {
    const double from = -4 + 0.5 * static_cast<double>(i);
    const double expected = 200'000 * (std::erfc(-(from + 0.5) / std::sqrt(2)) - std::erfc(-from / std::sqrt(2))) / 2;
    EXPECT_NEAR(static_cast<double>(histogram.counts[i]), expected, 0.04 * expected + 60);
    EXPECT_NEAR(static_cast<double>(histogram.counts[15 - i]), expected, 0.04 * expected + 60);
  }
}

TEST(Histogram, WholeNumbersFallIntoTheirOwnBins) {
  const Measured measured = measure_values<int8_t>(DType::kI8, {-2, -2, -1, 0, 0, 0, 1, 2, 2});
  const Histogram histogram = measured.values.to_histogram(measured.statistics, -2.5, 2.5, 5);
  EXPECT_EQ(histogram.counts, (std::vector<uint64_t>{2, 1, 3, 1, 2}));
  EXPECT_EQ(histogram.below + histogram.above, 0U);
}

TEST(Histogram, OfOneValueIsOneBin) {
  const Measured measured = measure_values<float>(DType::kF32, {5, 5, 5});
  const Histogram histogram = measured.values.to_histogram(measured.statistics, 8);
  EXPECT_EQ(histogram.counts, (std::vector<uint64_t>{3}));
  EXPECT_EQ(histogram.low, 5);
  EXPECT_EQ(histogram.high, 5);
}

TEST(Histogram, ValuesBeyondTheRangeOfF32AreCounted) {
  const Measured measured = measure_values<double>(DType::kF64, {1e300, -1e300, 1e-300, 2});
  const Histogram histogram = measured.values.to_histogram(measured.statistics, -1e300, 1e300, 4);
  uint64_t sum = histogram.below + histogram.above;
  for (const uint64_t count : histogram.counts) sum += count;
  EXPECT_EQ(sum, 4U);
}

// Which has more bits than 32 can count.
TEST(Statistics, CountEveryElementOfHalfAGibibyte) {
  constexpr size_t kCount = (size_t{1} << 26) + 1;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<void, Free> zeros(std::calloc(kCount, sizeof(double)));
  ASSERT_NE(zeros, nullptr);
  const ByteSpan bytes(static_cast<const std::byte*>(zeros.get()), kCount * sizeof(double));
  const Statistics found = measure(DType::kF64, bytes).statistics;
  EXPECT_EQ(found.count, kCount);
  EXPECT_EQ(found.zeros, kCount);
}

}  // namespace
}  // namespace ballast::testing
