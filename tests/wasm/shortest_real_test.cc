// What the WebAssembly module writes numbers with, compiled natively and compared with std::to_chars.
#include "bindings/wasm/shortest_real.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>

namespace ballast::wasm {
namespace {

std::string standard_text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

// The value, its negative and its neighbours.
void expect_standard(double value) {
  for (const double near : {std::nextafter(value, 0), value, std::nextafter(value, 2 * value)}) {
    if (!std::isfinite(near)) continue;
    ASSERT_EQ(shortest_real(near), standard_text(near));
    ASSERT_EQ(shortest_real(-near), standard_text(-near));
  }
}

TEST(ShortestRealTest, IsTheStandardsForZerosAndTheEndsOfTheRange) {
  EXPECT_EQ(shortest_real(0.0), "0");
  EXPECT_EQ(shortest_real(-0.0), "-0");
  EXPECT_EQ(shortest_real(0.1), "0.1");
  EXPECT_EQ(shortest_real(1e-7), "1e-07");
  expect_standard(std::numeric_limits<double>::denorm_min());
  expect_standard(std::numeric_limits<double>::min());
  expect_standard(std::numeric_limits<double>::max());
}

TEST(ShortestRealTest, IsTheStandardsForPowersOfTwoAndTen) {
  for (int exponent = -1074; exponent < 1024; ++exponent) expect_standard(std::ldexp(1.0, exponent));
  for (int exponent = -323; exponent <= 308; ++exponent) {
    expect_standard(std::strtod(("1e" + std::to_string(exponent)).c_str(), nullptr));
    expect_standard(std::strtod(("123e" + std::to_string(exponent - 2)).c_str(), nullptr));
  }
}

// Where both notations are as long as each other, and where whole numbers have digits that no reader needs.
TEST(ShortestRealTest, IsTheStandardsForWholeNumbers) {
  std::mt19937_64 random(1);
  for (int bits = 1; bits <= 100; ++bits) {
    for (int i = 0; i < 500; ++i) expect_standard(std::ldexp(static_cast<double>(random() >> 11), bits - 53));
  }
  for (int i = 0; i < 100'000; ++i) expect_standard(i);
}

TEST(ShortestRealTest, IsTheStandardsForAnyBits) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) {
      ASSERT_EQ(shortest_real(value), standard_text(value));
    }
    expect_standard(std::bit_cast<float>(static_cast<uint32_t>(random())));  // as weights are
  }
}

}  // namespace
}  // namespace ballast::wasm
