#include "ballast/tensor/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ballast/tensor/blocks.h"
#include "ballast/tensor/element.h"
#include "tests/support/bytes_of.h"

namespace ballast {
namespace {

std::vector<double> doubles_of(DType dtype, ByteSpan bytes) {
  std::vector<double> out(bytes.size() * 8 / dtype_info(dtype).bits * component_count(dtype));
  to_doubles(dtype, bytes, out);
  return out;
}

TEST(Elements, EveryTypeOfTheTableIsEitherArithmeticOrCarried) {
  for (const DTypeInfo& row : all_dtypes()) {
    const bool carried = row.dtype == DType::kF128 || row.dtype == DType::kC256 || row.dtype == DType::kQFloat ||
                         row.dtype == DType::kOpaque || (is_block(row.dtype) && !can_dequantize(row.dtype));
    EXPECT_EQ(is_arithmetic(row.dtype), !carried) << row.name;
  }
}

TEST(Elements, TheDispatcherGivesATypeOfTheWidthAndKindInTheTable) {
  for (const DTypeInfo& row : all_dtypes()) {
    const bool complex = row.kind == DTypeKind::kComplex;
    visit_element(row.dtype, [&]<typename E>() {
      EXPECT_EQ(E::kBits * (complex ? 2 : 1), row.bits) << row.name;
      EXPECT_EQ(E::kKind, complex ? DTypeKind::kFloat : row.kind) << row.name;
    });
  }
}

TEST(Elements, ReadsNumbersOfEveryWidth) {
  EXPECT_EQ(doubles_of(DType::kF64, bytes_of<double>({1.5, -2})), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(doubles_of(DType::kF32, bytes_of<float>({0.1F})), (std::vector<double>{0.1F}));
  EXPECT_EQ(doubles_of(DType::kFlex32, bytes_of<float>({0.1F})), (std::vector<double>{0.1F}));
  EXPECT_EQ(doubles_of(DType::kF16, bytes_of<uint16_t>({0x3C00, 0xC000})), (std::vector<double>{1, -2}));
  EXPECT_EQ(doubles_of(DType::kBF16, bytes_of<uint16_t>({0x3F80})), (std::vector<double>{1}));
  EXPECT_EQ(doubles_of(DType::kI64, bytes_of<int64_t>({-5})), (std::vector<double>{-5}));
  EXPECT_EQ(doubles_of(DType::kI8, bytes_of<int8_t>({-128, 127})), (std::vector<double>{-128, 127}));
  EXPECT_EQ(doubles_of(DType::kU16, bytes_of<uint16_t>({65535})), (std::vector<double>{65535}));
  EXPECT_EQ(doubles_of(DType::kBool, bytes_of<uint8_t>({0, 1, 7})), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(doubles_of(DType::kBool32, bytes_of<uint32_t>({0, 1})), (std::vector<double>{0, 1}));
  EXPECT_EQ(doubles_of(DType::kC64, bytes_of<float>({1, -2})), (std::vector<double>{1, -2}));
  EXPECT_EQ(doubles_of(DType::kF8E4M3, bytes_of<uint8_t>({0x38, 0x7E})), (std::vector<double>{1, 448}));
  EXPECT_EQ(doubles_of(DType::kF8E8M0, bytes_of<uint8_t>({127, 128})), (std::vector<double>{1, 2}));
}

TEST(Elements, TakesTheFirstOfPackedElementsFromTheLowestBits) {
  EXPECT_EQ(doubles_of(DType::kF4, bytes_of<uint8_t>({0x21})), (std::vector<double>{0.5, 1}));
  // Codes 1, 2, 3, 4 of 6 bits: 000001 000010 000011 000100, lowest first.
  const uint32_t packed = 1U | 2U << 6 | 3U << 12 | 4U << 18;
  const std::vector<uint8_t> bytes = {static_cast<uint8_t>(packed), static_cast<uint8_t>(packed >> 8),
                                      static_cast<uint8_t>(packed >> 16)};
  EXPECT_EQ(doubles_of(DType::kF6E2M3, bytes_of(bytes)), (std::vector<double>{0.125, 0.25, 0.375, 0.5}));
}

TEST(Elements, StoringPackedElementsTouchesNoNeighbour) {
  using E = SmallFloatElement<F6E3M2>;
  for (size_t index = 0; index < 8; ++index) {
    for (const unsigned background : {0x00U, 0xFFU}) {
      std::vector<std::byte> bytes(6, static_cast<std::byte>(background));
      store_bits<E>(bytes.data(), index, 0x2A);
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(load_bits<E>(bytes.data(), i), i == index ? 0x2A : background & 0x3F) << index << " " << i;
      }
    }
  }
}

TEST(Elements, ReadsFromTheMiddleOfAPayload) {
  const std::vector<float> values = {0, 1, 2, 3, 4};
  std::vector<double> out(2);
  to_doubles(DType::kF32, bytes_of(values), 2, out);
  EXPECT_EQ(out, (std::vector<double>{2, 3}));
}

TEST(Elements, ReadsUnalignedPayloads) {
  std::vector<std::byte> bytes(9);
  store_le(bytes.data() + 1, std::bit_cast<uint64_t>(3.25));
  EXPECT_EQ(doubles_of(DType::kF64, ByteSpan(bytes).subspan(1)), (std::vector<double>{3.25}));
}

TEST(Elements, ReadsLargeIntegersExactly) {
  const std::vector<int64_t> values = {std::numeric_limits<int64_t>::min(), (int64_t{1} << 53) + 1};
  std::vector<int64_t> out(2);
  to_integers(DType::kI64, bytes_of(values), 0, std::span(out));
  EXPECT_EQ(out, values);
  const std::vector<uint64_t> large = {std::numeric_limits<uint64_t>::max()};
  std::vector<uint64_t> large_out(1);
  to_integers(DType::kU64, bytes_of(large), 0, std::span(large_out));
  EXPECT_EQ(large_out, large);
}

TEST(Elements, FindsNothingInFinitePayloads) {
  EXPECT_FALSE(find_non_finite(DType::kF32, bytes_of(std::vector<float>(10000, 1.5F))).any());
  EXPECT_FALSE(find_non_finite(DType::kF32, {}).any());
  EXPECT_FALSE(find_non_finite(DType::kU8, bytes_of(std::vector<uint8_t>(300, 0xFF))).any());
  EXPECT_FALSE(find_non_finite(DType::kF4, bytes_of(std::vector<uint8_t>(300, 0xFF))).any());
  EXPECT_FALSE(find_non_finite(DType::kQFloat, bytes_of(std::vector<uint8_t>(300, 0xFF))).any());
  EXPECT_FALSE(find_non_finite(DType::kF32, bytes_of<float>({std::numeric_limits<float>::max(), -0.0F})).any());
}

TEST(Elements, CountsNanAndInfinitiesAndNamesTheFirst) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> values(20000, 0.25);
  values[9000] = -kInf;
  values[9001] = std::numeric_limits<double>::quiet_NaN();
  values[19999] = kInf;
  values[19998] = kInf;
  const NonFinite found = find_non_finite(DType::kF64, bytes_of(values));
  EXPECT_EQ(found.nan, 1U);
  EXPECT_EQ(found.negative_infinity, 1U);
  EXPECT_EQ(found.positive_infinity, 2U);
  EXPECT_EQ(found.first, 9000U);
}

template <typename E>
void expect_same_count_as_decoding(const DTypeInfo& row) {
  const size_t codes = size_t{1} << E::kBits;
  std::vector<std::byte> payload(codes * E::kBits / 8);
  for (size_t i = 0; i < codes; ++i) store_bits<E>(payload.data(), i, static_cast<typename E::Bits>(i));
  NonFinite expected;
  for (const double value : doubles_of(row.dtype, payload)) {
    if (std::isnan(value)) ++expected.nan;
    else if (std::isinf(value)) ++(value > 0 ? expected.positive_infinity : expected.negative_infinity);
  }
  const NonFinite found = find_non_finite(row.dtype, payload);
  EXPECT_EQ(found.nan, expected.nan) << row.name;
  EXPECT_EQ(found.positive_infinity, expected.positive_infinity) << row.name;
  EXPECT_EQ(found.negative_infinity, expected.negative_infinity) << row.name;
}

TEST(Elements, CountsNonFiniteValuesOfEverySmallTypeAsDecodingSeesThem) {
  for (const DTypeInfo& row : all_dtypes()) {
    visit_element(row.dtype, [&]<typename E>() {
      if constexpr (E::kKind == DTypeKind::kFloat && E::kBits <= 16) expect_same_count_as_decoding<E>(row);
    });
  }
}

TEST(Elements, TheFirstNonFiniteComplexNumberIsCountedInElements) {
  const std::vector<float> values = {0, 0, 0, 0, 0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(find_non_finite(DType::kC64, bytes_of(values)).first, 2U);
}

TEST(Elements, PartsOfAPayloadAddUp) {
  NonFinite sum;
  sum.append({}, 0);
  sum.append({.nan = 1, .first = 5}, 100);
  sum.append({.positive_infinity = 2, .first = 1}, 200);
  EXPECT_EQ(sum.nan, 1U);
  EXPECT_EQ(sum.positive_infinity, 2U);
  EXPECT_EQ(sum.first, 105U);
}

}  // namespace
}  // namespace ballast
