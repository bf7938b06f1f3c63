// Every code of every small floating type against the formula of its definition, and rounding at every boundary.
#include "ballast/tensor/small_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace ballast {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();

// The textbook formula, sharing nothing with the code under test.
double by_formula(unsigned code, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned mantissa = code & ((1U << mantissa_bits) - 1);
  const unsigned exponent = (code >> mantissa_bits) & ((1U << exponent_bits) - 1);
  const double sign = ((code >> (exponent_bits + mantissa_bits)) & 1) != 0 ? -1.0 : 1.0;
  const double fraction = mantissa / std::pow(2.0, mantissa_bits);
  if (exponent == 0) return sign * fraction * std::pow(2.0, 1 - bias);
  return sign * (1 + fraction) * std::pow(2.0, static_cast<int>(exponent) - bias);
}

template <typename Format>
void expect_finite_codes(int exponent_bits, int mantissa_bits, int bias) {
  for (unsigned code = 0; code < 1U << Format::kBits; ++code) {
    const auto bits = static_cast<typename Format::Bits>(code);
    if (!Format::is_finite(bits)) continue;
    const double expected = by_formula(code, exponent_bits, mantissa_bits, bias);
    ASSERT_EQ(Format::decode(bits), expected) << code;
    ASSERT_EQ(std::signbit(Format::decode(bits)), std::signbit(expected)) << code;
    ASSERT_EQ(Format::encode(Format::decode(bits)), bits) << code;
    ASSERT_EQ(Format::encode(static_cast<double>(Format::decode(bits))), bits) << code;
  }
}

TEST(SmallFloat, DecodesEveryFiniteCodeAsItsDefinitionSaysAndEncodesItBack) {
  expect_finite_codes<F16>(5, 10, 15);
  expect_finite_codes<BF16>(8, 7, 127);
  expect_finite_codes<F8E4M3>(4, 3, 7);
  expect_finite_codes<F8E5M2>(5, 2, 15);
  expect_finite_codes<F8E4M3Fnuz>(4, 3, 8);
  expect_finite_codes<F8E5M2Fnuz>(5, 2, 16);
  expect_finite_codes<F6E2M3>(2, 3, 1);
  expect_finite_codes<F6E3M2>(3, 2, 3);
  expect_finite_codes<F4>(2, 1, 1);
}

TEST(SmallFloat, HasTheLargestAndSmallestValuesOfItsDefinition) {
  EXPECT_EQ(F16::decode(0x7BFF), 65504.0F);
  EXPECT_EQ(F16::decode(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(BF16::decode(0x7F7F), 0x1.FEp127F);
  EXPECT_EQ(BF16::decode(0x0001), 0x1p-133F);
  EXPECT_EQ(F8E4M3::decode(0x7E), 448.0F);
  EXPECT_EQ(F8E4M3::decode(0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(F8E5M2::decode(0x7B), 57344.0F);
  EXPECT_EQ(F8E5M2::decode(0x01), std::ldexp(1.0F, -16));
  EXPECT_EQ(F8E4M3Fnuz::decode(0x7F), 240.0F);
  EXPECT_EQ(F8E4M3Fnuz::decode(0x01), std::ldexp(1.0F, -10));
  EXPECT_EQ(F8E5M2Fnuz::decode(0x7F), 57344.0F);
  EXPECT_EQ(F8E5M2Fnuz::decode(0x01), std::ldexp(1.0F, -17));
  EXPECT_EQ(F6E2M3::decode(0x1F), 7.5F);
  EXPECT_EQ(F6E3M2::decode(0x1F), 28.0F);
  EXPECT_EQ(F4::decode(0x7), 6.0F);
  EXPECT_EQ(F4::decode(0x1), 0.5F);
}

// How many codes are infinite and how many are NaN.
template <typename Format>
std::pair<int, int> specials() {
  int infinite = 0;
  int nan = 0;
  for (unsigned code = 0; code < 1U << Format::kBits; ++code) {
    const auto bits = static_cast<typename Format::Bits>(code);
    const float value = Format::decode(bits);
    EXPECT_EQ(std::isfinite(value), Format::is_finite(bits)) << code;
    EXPECT_EQ(std::isnan(value), Format::is_nan(bits)) << code;
    infinite += std::isinf(value) ? 1 : 0;
    nan += std::isnan(value) ? 1 : 0;
  }
  return {infinite, nan};
}

TEST(SmallFloat, HasTheSpecialCodesOfItsDefinitionAndNoOthers) {
  using Counts = std::pair<int, int>;
  EXPECT_EQ(specials<F16>(), Counts(2, 2 * 1023));
  EXPECT_EQ(specials<BF16>(), Counts(2, 2 * 127));
  EXPECT_EQ(specials<F8E4M3>(), Counts(0, 2));
  EXPECT_EQ(specials<F8E5M2>(), Counts(2, 6));
  EXPECT_EQ(specials<F8E8M0>(), Counts(0, 1));
  EXPECT_EQ(specials<F8E4M3Fnuz>(), Counts(0, 1));
  EXPECT_EQ(specials<F8E5M2Fnuz>(), Counts(0, 1));
  EXPECT_EQ(specials<F6E2M3>(), Counts(0, 0));
  EXPECT_EQ(specials<F6E3M2>(), Counts(0, 0));
  EXPECT_EQ(specials<F4>(), Counts(0, 0));
  EXPECT_EQ(F16::decode(0x7C00), kInfinity);
  EXPECT_EQ(F16::decode(0xFC00), -kInfinity);
  EXPECT_TRUE(F8E4M3::is_nan(0x7F));
  EXPECT_TRUE(F8E4M3::is_nan(0xFF));
  EXPECT_TRUE(F8E4M3Fnuz::is_nan(0x80));
  EXPECT_TRUE(F8E5M2Fnuz::is_nan(0x80));
}

// Between each two neighbours: what lies nearer to one must become it, and the middle the one with the even code.
template <typename Format>
void expect_rounding(unsigned last_code) {
  for (unsigned code = 0; code < last_code; ++code) {
    const auto low = static_cast<typename Format::Bits>(code);
    const auto high = static_cast<typename Format::Bits>(code + 1);
    const double a = Format::decode(low);
    const double b = Format::decode(high);
    const double middle = a + (b - a) / 2;
    const auto even = code % 2 == 0 ? low : high;
    ASSERT_EQ(Format::encode(middle), even) << code;
    ASSERT_EQ(Format::encode(std::nextafter(middle, a)), low) << code;
    ASSERT_EQ(Format::encode(std::nextafter(middle, b)), high) << code;
    const auto middle_f32 = static_cast<float>(middle);
    if (middle_f32 == middle) {
      ASSERT_EQ(Format::encode(middle_f32), even) << code;
      ASSERT_EQ(Format::encode(std::nextafter(middle_f32, static_cast<float>(a))), low) << code;
      ASSERT_EQ(Format::encode(std::nextafter(middle_f32, static_cast<float>(b))), high) << code;
    }
    if constexpr (Format::kSign != 0) {
      const auto sign = static_cast<typename Format::Bits>(Format::kSign);
      const double negative = std::nextafter(-middle, -b);
      ASSERT_EQ(Format::encode(negative), static_cast<typename Format::Bits>(high | sign)) << code;
    }
  }
}

TEST(SmallFloat, RoundsToTheNearestAndTiesToEvenBetweenAllNeighbours) {
  expect_rounding<F16>(F16::kMaxFinite);
  expect_rounding<BF16>(BF16::kMaxFinite);
  expect_rounding<F8E4M3>(F8E4M3::kMaxFinite);
  expect_rounding<F8E5M2>(F8E5M2::kMaxFinite);
  expect_rounding<F8E8M0>(254);
  expect_rounding<F8E4M3Fnuz>(F8E4M3Fnuz::kMaxFinite);
  expect_rounding<F8E5M2Fnuz>(F8E5M2Fnuz::kMaxFinite);
  expect_rounding<F6E2M3>(F6E2M3::kMaxFinite);
  expect_rounding<F6E3M2>(F6E3M2::kMaxFinite);
  expect_rounding<F4>(F4::kMaxFinite);
}

TEST(SmallFloat, RoundsADoubleOnceNotTwice) {
  // Through f32 the tail would vanish and leave a tie.
  const double above_tie = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  EXPECT_EQ(F16::encode(above_tie), 0x3C01);
  EXPECT_EQ(F16::encode(static_cast<double>(static_cast<float>(above_tie))), 0x3C00);
}

TEST(SmallFloat, KeepsTheSignOfZeroExceptWhereThereIsNone) {
  EXPECT_EQ(F16::encode(-0.0F), 0x8000);
  EXPECT_EQ(BF16::encode(-0.0), 0x8000);
  EXPECT_EQ(F8E4M3::encode(-0.0F), 0x80);
  EXPECT_EQ(F6E2M3::encode(-0.0F), 0x20);
  EXPECT_EQ(F8E4M3Fnuz::encode(-0.0F), 0x00);
  EXPECT_EQ(F8E5M2Fnuz::encode(-1e-30), 0x00);
  EXPECT_EQ(F16::encode(-1e-300), 0x8000);
  EXPECT_EQ(F16::encode(std::numeric_limits<double>::denorm_min()), 0x0000);
}

TEST(SmallFloat, TurnsWhatIsTooLargeIntoInfinityOrNanOrTheLargestValue) {
  EXPECT_EQ(F16::encode(65519.99), 0x7BFF);
  EXPECT_EQ(F16::encode(65520.0), 0x7C00);
  EXPECT_EQ(F16::encode(-1e30F), 0xFC00);
  EXPECT_EQ(F16::encode(kInfinity), 0x7C00);
  EXPECT_EQ(BF16::encode(3.4e38F), 0x7F80);
  EXPECT_EQ(BF16::encode(1e300), 0x7F80);
  EXPECT_EQ(F8E5M2::encode(1e9), 0x7C);
  EXPECT_EQ(F8E4M3::encode(464.0F), 0x7E);
  EXPECT_EQ(F8E4M3::encode(465.0F), 0x7F);
  EXPECT_EQ(F8E4M3::encode(-kInfinity), 0xFF);
  EXPECT_EQ(F8E4M3Fnuz::encode(1e9F), 0x80);
  EXPECT_EQ(F8E5M2Fnuz::encode(-kInfinity), 0x80);
  EXPECT_EQ(F6E2M3::encode(100.0F), 0x1F);
  EXPECT_EQ(F6E3M2::encode(-100.0F), 0x3F);
  EXPECT_EQ(F4::encode(kInfinity), 0x7);
}

TEST(SmallFloat, KeepsNanQuietWithItsSignAndLeadingPayload) {
  EXPECT_EQ(F16::encode(kFloatNan), 0x7E00);
  EXPECT_EQ(F16::encode(std::bit_cast<float>(0xFF802000U)), 0xFE01);  // signalling: made quiet, not infinite
  EXPECT_EQ(F16::encode(std::bit_cast<float>(0x7F800001U)), 0x7E00);  // its payload does not fit: still NaN
  EXPECT_EQ(BF16::encode(std::bit_cast<double>(0x7FF0000000000001U)), 0x7FC0);
  EXPECT_EQ(F8E5M2::encode(kFloatNan), 0x7E);
  EXPECT_EQ(F8E4M3::encode(-kFloatNan), 0xFF);
  EXPECT_EQ(F8E4M3Fnuz::encode(kFloatNan), 0x80);
  EXPECT_EQ(F8E8M0::encode(kFloatNan), 0xFF);
  for (unsigned code = 0x7C01; code <= 0x7FFF; ++code) {
    EXPECT_EQ(F16::encode(F16::decode(static_cast<uint16_t>(code))), code | 0x0200U);
  }
}

TEST(SmallFloat, E8M0HoldsPowersOfTwoAlone) {
  for (int code = 0; code < 255; ++code) {
    ASSERT_EQ(F8E8M0::decode(static_cast<uint8_t>(code)), std::ldexp(1.0, code - 127));
    ASSERT_EQ(F8E8M0::encode(std::ldexp(1.0, code - 127)), code);
  }
  EXPECT_EQ(F8E8M0::encode(0.0F), 0);
  EXPECT_EQ(F8E8M0::encode(1e-300), 0);
  EXPECT_EQ(F8E8M0::encode(-1.0F), 0xFF);
  EXPECT_EQ(F8E8M0::encode(kInfinity), 0xFF);
}

TEST(SmallFloat, TablesHoldWhatDecodingGives) {
  constexpr auto kTable = decoded_codes<F8E4M3>();
  static_assert(kTable.size() == 256);
  for (size_t code = 0; code < kTable.size(); ++code) {
    EXPECT_EQ(std::bit_cast<uint32_t>(kTable[code]),
              std::bit_cast<uint32_t>(F8E4M3::decode(static_cast<uint8_t>(code))));
  }
  static_assert(decoded_codes<F4>().size() == 16);
}

}  // namespace
}  // namespace ballast
