#include "ballast/tensor/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ballast/tensor/elements.h"
#include "tests/support/bytes_of.h"

namespace ballast {
namespace {

constexpr float kFloatInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

template <typename A, typename B>
ElementDifference compare(DType dtype_a, const std::vector<A>& a, DType dtype_b, const std::vector<B>& b,
                          const Tolerance& tolerance = {}) {
  return compare_elements(dtype_a, bytes_of(a), dtype_b, bytes_of(b), tolerance);
}

ElementDifference compare_f32(const std::vector<float>& a, const std::vector<float>& b,
                              const Tolerance& tolerance = {}) {
  return compare(DType::kF32, a, DType::kF32, b, tolerance);
}

TEST(Compare, CountsDifferencesAndFindsTheLargest) {
  const auto d = compare_f32({1, 2, 3, 4}, {1, 2.5F, 3, 2});
  EXPECT_EQ(d.elements, 4U);
  EXPECT_EQ(d.differing, 2U);
  EXPECT_EQ(d.max_abs, 2);
  EXPECT_EQ(d.max_rel, 1);
}

TEST(Compare, EqualPayloadsHaveNoDifference) {
  const auto d = compare_f32({1, kNan, kFloatInf, -0.0F}, {1, kNan, kFloatInf, -0.0F});
  EXPECT_EQ(d.differing, 0U);
  EXPECT_EQ(d.max_abs, 0);
  EXPECT_EQ(d.max_rel, 0);
  EXPECT_EQ(d.max_ulp, 0U);
}

TEST(Compare, CountsUlpSteps) {
  EXPECT_EQ(compare_f32({1}, {std::nextafter(1.0F, 2.0F)}).max_ulp, 1U);
  EXPECT_EQ(compare_f32({1}, {2}).max_ulp, 1U << 23);
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(compare_f32({-tiny}, {tiny}).max_ulp, 2U);  // across zero, whose two codes are one step
  EXPECT_EQ(compare_f32({0.0F}, {-0.0F}).max_ulp, 0U);
  EXPECT_EQ(compare_f32({std::numeric_limits<float>::max()}, {kFloatInf}).max_ulp, 1U);
  EXPECT_EQ(compare_f32({1}, {kNan}).max_ulp, std::numeric_limits<uint64_t>::max());
  const std::vector<double> low = {-std::numeric_limits<double>::infinity()};
  const std::vector<double> high = {std::numeric_limits<double>::infinity()};
  EXPECT_EQ(compare(DType::kF64, low, DType::kF64, high).max_ulp, 2 * 0x7FF0000000000000U);
}

TEST(Compare, CountsUlpStepsOfSmallTypes) {
  using U16 = std::vector<uint16_t>;
  using U8 = std::vector<uint8_t>;
  EXPECT_EQ(compare(DType::kF16, U16{0x3C00}, DType::kF16, U16{0x3C05}).max_ulp, 5U);
  EXPECT_EQ(compare(DType::kBF16, U16{0x0001}, DType::kBF16, U16{0x8001}).max_ulp, 2U);
  EXPECT_EQ(compare(DType::kF8E4M3, U8{0x10}, DType::kF8E4M3, U8{0x13}).max_ulp, 3U);
  EXPECT_EQ(compare(DType::kF8E8M0, U8{120}, DType::kF8E8M0, U8{0x80}).max_ulp, 8U);
  EXPECT_EQ(compare(DType::kF4, U8{0x21}, DType::kF4, U8{0x51}).max_ulp, 3U);
}

TEST(Compare, IntegersHaveNoUlp) {
  const auto d = compare(DType::kI32, std::vector<int32_t>{1}, DType::kI32, std::vector<int32_t>{5});
  EXPECT_EQ(d.max_ulp, 0U);
  EXPECT_EQ(d.max_abs, 4);
}

TEST(Compare, WithoutToleranceBitsDecideWithinOneType) {
  const auto zeros = compare_f32({0.0F}, {-0.0F});
  EXPECT_EQ(zeros.differing, 1U);
  EXPECT_EQ(zeros.max_abs, 0);
  EXPECT_EQ(zeros.max_rel, 0);
  const float other_nan = std::bit_cast<float>(0x7FC00001U);
  EXPECT_EQ(compare_f32({kNan}, {kNan}).differing, 0U);
  EXPECT_EQ(compare_f32({kNan}, {other_nan}).differing, 1U);
  EXPECT_EQ(compare_f32({kNan}, {other_nan}).max_abs, 0);
}

TEST(Compare, WithToleranceValuesDecide) {
  const Tolerance tolerance{0, 1e-6};
  const float other_nan = std::bit_cast<float>(0x7FC00001U);
  EXPECT_EQ(compare_f32({0.0F, kNan}, {-0.0F, other_nan}, tolerance).differing, 0U);
  EXPECT_EQ(compare_f32({kNan}, {1}, tolerance).differing, 1U);
  EXPECT_EQ(compare_f32({1}, {kNan}, tolerance).differing, 1U);
  EXPECT_EQ(compare_f32({kFloatInf}, {-kFloatInf}, tolerance).differing, 1U);
  EXPECT_EQ(compare_f32({kFloatInf}, {1}, {1, 1e30}).differing, 1U);
  EXPECT_EQ(compare_f32({1}, {kFloatInf}, {1, 1e30}).differing, 1U);
}

TEST(Compare, ToleranceIsAbsolutePlusRelativeToB) {
  EXPECT_EQ(compare_f32({1.5F}, {1}, {0, 0.5}).differing, 0U);
  EXPECT_EQ(compare_f32({1.5F}, {1}, {0, 0.49}).differing, 1U);
  EXPECT_EQ(compare_f32({100}, {200}, {0.5, 0}).differing, 0U);  // 100 <= 0.5 * 200
  EXPECT_EQ(compare_f32({200}, {100}, {0.5, 0}).differing, 1U);  // 100 > 0.5 * 100
  EXPECT_EQ(compare_f32({200}, {100}, {0.5, 50}).differing, 0U);
}

TEST(Compare, MaximaDoNotDependOnTheTolerance) {
  const auto d = compare_f32({1, 3}, {1.5F, 2}, {1, 1});
  EXPECT_EQ(d.differing, 0U);
  EXPECT_EQ(d.max_abs, 1);
  EXPECT_EQ(d.max_rel, 0.5);
  EXPECT_EQ(d.max_ulp, 1U << 22);
}

TEST(Compare, MaximaAreInfiniteWhereOneSideIsNotFinite) {
  EXPECT_TRUE(std::isinf(compare_f32({kNan}, {1}).max_abs));
  EXPECT_TRUE(std::isinf(compare_f32({1}, {kNan}).max_rel));
  EXPECT_TRUE(std::isinf(compare_f32({1}, {-kFloatInf}).max_abs));
  EXPECT_TRUE(std::isinf(compare_f32({1}, {-kFloatInf}).max_rel));
  EXPECT_TRUE(std::isinf(compare_f32({1}, {0}).max_rel));
}

TEST(Compare, LargeIntegersAreComparedExactly) {
  const int64_t large = int64_t{1} << 60;
  const auto d = compare(DType::kI64, std::vector{large, large}, DType::kI64, std::vector{large, large + 1});
  EXPECT_EQ(d.differing, 1U);
  EXPECT_EQ(d.max_abs, 1);
  const auto mixed =
      compare(DType::kI64, std::vector{large + 1}, DType::kU64, std::vector<uint64_t>{static_cast<uint64_t>(large)});
  EXPECT_EQ(mixed.differing, 1U);
  EXPECT_EQ(mixed.max_abs, 1);
  const auto reversed =
      compare(DType::kU64, std::vector<uint64_t>{static_cast<uint64_t>(large)}, DType::kI64, std::vector{large});
  EXPECT_EQ(reversed.differing, 0U);
}

TEST(Compare, ASignedNumberNeverEqualsTheUnsignedOneOfTheSameBits) {
  const auto d = compare(DType::kI64, std::vector<int64_t>{-1}, DType::kU64, std::vector<uint64_t>{UINT64_MAX});
  EXPECT_EQ(d.differing, 1U);
  EXPECT_EQ(d.max_abs, 0x1p64);
  const auto extremes =
      compare(DType::kI64, std::vector<int64_t>{INT64_MIN}, DType::kI64, std::vector<int64_t>{INT64_MAX});
  EXPECT_EQ(extremes.max_abs, 0x1p64);
}

TEST(Compare, IntegerTolerance) {
  const std::vector<int8_t> a = {10, -10};
  const std::vector<int8_t> b = {12, -13};
  EXPECT_EQ(compare(DType::kI8, a, DType::kI8, b, {0, 2}).differing, 1U);
  EXPECT_EQ(compare(DType::kI8, a, DType::kI8, b, {0.25, 0}).differing, 0U);
}

TEST(Compare, DifferentTypesAreComparedByValue) {
  const std::vector<float> a = {1, 2, 0.1F, 0.0F, kNan};
  const std::vector<uint16_t> b = {0x3C00, 0x4000, 0x2E66, 0x8000, 0x7E00};  // 1, 2, about 0.1, -0, NaN
  const auto d = compare(DType::kF32, a, DType::kF16, b);
  EXPECT_EQ(d.elements, 5U);
  EXPECT_EQ(d.differing, 1U);
  EXPECT_NEAR(d.max_abs, 2.44e-5, 1e-7);
  EXPECT_EQ(d.max_ulp, 0U);
  EXPECT_EQ(compare(DType::kF32, a, DType::kF16, b, {1e-3, 0}).differing, 0U);
}

TEST(Compare, IntegersAndFloatsAndTruthValuesMix) {
  EXPECT_EQ(compare(DType::kI32, std::vector<int32_t>{1, 2}, DType::kF32, std::vector<float>{1, 2.5F}).differing, 1U);
  EXPECT_EQ(compare(DType::kBool, std::vector<uint8_t>{1, 0}, DType::kBool32, std::vector<uint32_t>{1, 0}).differing,
            0U);
  EXPECT_EQ(compare(DType::kBool, std::vector<uint8_t>{1, 0}, DType::kI8, std::vector<int8_t>{1, -1}).max_abs, 1);
}

TEST(Compare, ComplexNumbersAreOneElementEach) {
  const std::vector<float> a = {0, 0, 1, 1};
  const std::vector<float> b = {3, 4, 1, 1};
  const auto d = compare(DType::kC64, a, DType::kC64, b);
  EXPECT_EQ(d.elements, 2U);
  EXPECT_EQ(d.differing, 1U);
  EXPECT_EQ(d.max_abs, 5);
  EXPECT_EQ(d.max_rel, 1);
  const std::vector<double> wide = {0, 0, 1, 1};
  EXPECT_EQ(compare(DType::kC64, a, DType::kC128, wide).differing, 0U);
  EXPECT_EQ(compare(DType::kC64, std::vector<float>{0, 0}, DType::kC64, std::vector<float>{0, -0.0F}).differing, 1U);
  EXPECT_EQ(compare(DType::kC64, a, DType::kC64, b, {0, 5}).differing, 0U);
}

TEST(Compare, ManyElementsInSeveralBlocks) {
  std::vector<float> a(5000, 1);
  std::vector<double> b(5000, 1);
  b[4999] = 3;
  b[1024] = 2;
  const auto d = compare(DType::kF32, a, DType::kF64, b);
  EXPECT_EQ(d.differing, 2U);
  EXPECT_EQ(d.max_abs, 2);
}

TEST(Compare, PartsMergeToTheWhole) {
  std::vector<float> a(1000);
  std::vector<float> b(1000);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(i * (i % 7 == 0 ? 1.01 : 1.0));
  }
  const auto whole = compare_f32(a, b);
  ElementDifference sum;
  for (size_t begin = 0; begin < a.size(); begin += 100) {
    sum.merge(
        compare_f32({a.begin() + static_cast<ptrdiff_t>(begin), a.begin() + static_cast<ptrdiff_t>(begin) + 100},
                    {b.begin() + static_cast<ptrdiff_t>(begin), b.begin() + static_cast<ptrdiff_t>(begin) + 100}));
  }
  EXPECT_EQ(sum.differing, whole.differing);
  EXPECT_EQ(sum.elements, whole.elements);
  EXPECT_EQ(sum.max_abs, whole.max_abs);
  EXPECT_EQ(sum.max_rel, whole.max_rel);
  EXPECT_EQ(sum.max_ulp, whole.max_ulp);
}

TEST(Compare, OnlyTypesOfOneKindAreComparable) {
  EXPECT_TRUE(are_comparable(DType::kF32, DType::kI8));
  EXPECT_TRUE(are_comparable(DType::kC64, DType::kC128));
  EXPECT_FALSE(are_comparable(DType::kC64, DType::kF32));
  EXPECT_FALSE(are_comparable(DType::kF128, DType::kF128));
  EXPECT_FALSE(are_comparable(DType::kOpaque, DType::kOpaque));
}

// It compares a million elements at a time.
TEST(Compare, FindsDifferencesAtTheEndsOfALongTensor) {
  constexpr size_t kCount = (size_t{3} << 20) + 5;
  for (const DType dtype : {DType::kF32, DType::kF8E4M3, DType::kF6E2M3, DType::kF4, DType::kC64, DType::kI16}) {
    const auto size = static_cast<size_t>(byte_of_element(dtype, kCount) + 1);
    const std::vector<std::byte> a(size, std::byte{0});
    for (const uint64_t at : {uint64_t{0}, uint64_t{1} << 20, uint64_t{2} << 20, uint64_t{kCount - 2}}) {
      std::vector<std::byte> b = a;
      b[static_cast<size_t>(byte_of_element(dtype, at))] = std::byte{1};
      const auto difference = compare_elements(dtype, a, dtype, b, {});
      EXPECT_EQ(difference.elements, elements_in(dtype, size));
      EXPECT_EQ(difference.differing, 1U) << dtype_name(dtype) << " at " << at;
    }
  }
}

}  // namespace
}  // namespace ballast
