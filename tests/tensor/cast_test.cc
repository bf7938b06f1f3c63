#include "ballast/tensor/cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ballast/tensor/element.h"
#include "ballast/tensor/elements.h"
#include "tests/support/bytes_of.h"

namespace ballast {
namespace {

template <typename To, typename From>
Result<std::vector<To>> cast(DType from, const std::vector<From>& in, DType to, size_t count,
                             CastReport* report = nullptr) {
  std::vector<To> out(count);
  BALLAST_TRY(const CastReport done,
              cast_elements(from, bytes_of(in), to, std::as_writable_bytes(std::span(out.data(), out.size()))));
  swap_if_big_endian(std::span(out));
  if (report != nullptr) *report = done;
  return out;
}

template <typename To, typename From>
std::vector<To> cast_or_die(DType from, const std::vector<From>& in, DType to, CastReport* report = nullptr) {
  auto out = cast<To>(from, in, to, in.size(), report);
  EXPECT_TRUE(out.has_value()) << (out ? "" : out.error().message);
  return out ? *out : std::vector<To>{};
}

template <typename To, typename From>
std::string cast_error(DType from, const std::vector<From>& in, DType to) {
  const auto out = cast<To>(from, in, to, in.size());
  EXPECT_FALSE(out.has_value());
  if (out) return "";
  EXPECT_EQ(out.error().code, ErrorCode::kInvalidArgument);
  return out.error().message;
}

TEST(Cast, WideningFloatsIsExact) {
  CastReport report;
  EXPECT_EQ(cast_or_die<float>(DType::kF16, std::vector<uint16_t>{0x3C00, 0x0001}, DType::kF32, &report),
            (std::vector<float>{1.0F, 0x1p-24F}));
  EXPECT_TRUE(report.exact);
  EXPECT_EQ(report.max_abs_error, 0);
  EXPECT_EQ(cast_or_die<double>(DType::kF32, std::vector<float>{0.1F}, DType::kF64, &report),
            (std::vector<double>{static_cast<double>(0.1F)}));
  EXPECT_TRUE(report.exact);
}

TEST(Cast, NarrowingFloatsReportsTheLargestError) {
  CastReport report;
  const auto out = cast_or_die<uint16_t>(DType::kF32, std::vector<float>{1.0F, 2049.0F, 0.5F}, DType::kF16, &report);
  EXPECT_EQ(out, (std::vector<uint16_t>{0x3C00, 0x6800, 0x3800}));
  EXPECT_FALSE(report.exact);
  EXPECT_EQ(report.max_abs_error, 1.0);
}

TEST(Cast, OverflowToInfinityIsAnInfiniteError) {
  CastReport report;
  EXPECT_EQ(cast_or_die<float>(DType::kF64, std::vector<double>{1e300}, DType::kF32, &report).front(),
            std::numeric_limits<float>::infinity());
  EXPECT_FALSE(report.exact);
  EXPECT_TRUE(std::isinf(report.max_abs_error));
  cast_or_die<uint8_t>(DType::kF32, std::vector<float>{1e9F}, DType::kF8E4M3, &report);
  EXPECT_TRUE(std::isinf(report.max_abs_error));
  cast_or_die<uint8_t>(DType::kI32, std::vector<int32_t>{100000}, DType::kF8E4M3, &report);
  EXPECT_TRUE(std::isinf(report.max_abs_error));
}

TEST(Cast, NanAndInfinityThatStayAreExact) {
  CastReport report;
  const std::vector<float> in = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(cast_or_die<uint16_t>(DType::kF32, in, DType::kBF16, &report), (std::vector<uint16_t>{0x7FC0, 0xFF80}));
  EXPECT_TRUE(report.exact);
}

TEST(Cast, EveryF16SurvivesTheWayThroughF32AndF64) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const DType wide : {DType::kF32, DType::kF64}) {
    const size_t size = dtype_info(wide).bits / 8;
    std::vector<std::byte> middle(all.size() * size);
    const auto up = cast_elements(DType::kF16, bytes_of(all), wide, middle);
    ASSERT_TRUE(up.has_value());
    EXPECT_TRUE(up->exact);
    std::vector<uint16_t> back(all.size());
    const auto down = cast_elements(wide, middle, DType::kF16, std::as_writable_bytes(std::span(back)));
    ASSERT_TRUE(down.has_value());
    EXPECT_TRUE(down->exact);
    swap_if_big_endian(std::span(back));
    for (size_t i = 0; i < all.size(); ++i) {
      const bool nan = F16::is_nan(all[i]);
      ASSERT_EQ(back[i], nan ? all[i] | 0x0200U : all[i]) << i;  // a signalling NaN comes back quiet
    }
  }
}

template <typename E>
void expect_round_trip_through_f64(const DTypeInfo& row) {
  const size_t codes = size_t{1} << E::kBits;
  std::vector<std::byte> in(codes * E::kBits / 8);
  for (size_t i = 0; i < codes; ++i) store_bits<E>(in.data(), i, static_cast<typename E::Bits>(i));
  std::vector<std::byte> wide(codes * 8);
  std::vector<std::byte> out(in.size());
  ASSERT_TRUE(cast_elements(row.dtype, in, DType::kF64, wide).has_value()) << row.name;
  const auto report = cast_elements(DType::kF64, wide, row.dtype, out);
  ASSERT_TRUE(report.has_value()) << row.name;
  EXPECT_TRUE(report->exact) << row.name;
  for (size_t i = 0; i < codes; ++i) {
    const auto before = load_bits<E>(in.data(), i);
    const auto after = load_bits<E>(out.data(), i);
    if (E::is_nan(before)) {
      ASSERT_TRUE(E::is_nan(after)) << row.name << " " << i;
    } else {
      ASSERT_EQ(before, after) << row.name << " " << i;
    }
  }
}

TEST(Cast, EveryCodeOfEverySmallTypeSurvivesTheWayThroughF64) {
  int types = 0;
  for (const DTypeInfo& row : all_dtypes()) {
    visit_element(row.dtype, [&]<typename E>() {
      if constexpr (E::kKind == DTypeKind::kFloat && E::kBits <= 16) {
        expect_round_trip_through_f64<E>(row);
        ++types;
      }
    });
  }
  EXPECT_EQ(types, 10);
}

TEST(Cast, IntegersOfAllWidthsConvertWithinRange) {
  CastReport report;
  EXPECT_EQ(cast_or_die<int8_t>(DType::kI64, std::vector<int64_t>{-128, 127}, DType::kI8, &report),
            (std::vector<int8_t>{-128, 127}));
  EXPECT_TRUE(report.exact);
  EXPECT_EQ(cast_or_die<uint64_t>(DType::kI8, std::vector<int8_t>{127}, DType::kU64), (std::vector<uint64_t>{127}));
  EXPECT_EQ(cast_or_die<uint64_t>(DType::kU32, std::vector<uint32_t>{0xFFFFFFFF}, DType::kU64),
            (std::vector<uint64_t>{0xFFFFFFFF}));
  EXPECT_EQ(cast_or_die<int64_t>(DType::kU64, std::vector<uint64_t>{0x7FFFFFFFFFFFFFFF}, DType::kI64),
            (std::vector<int64_t>{0x7FFFFFFFFFFFFFFF}));
}

TEST(Cast, IntegersOutOfRangeAreNamed) {
  EXPECT_EQ(cast_error<uint8_t>(DType::kI32, std::vector<int32_t>{1, 2, 300}, DType::kU8),
            "element 2 is 300, which u8 cannot hold");
  EXPECT_EQ(cast_error<uint64_t>(DType::kI64, std::vector<int64_t>{-1}, DType::kU64),
            "element 0 is -1, which u64 cannot hold");
  EXPECT_EQ(cast_error<int64_t>(DType::kU64, std::vector<uint64_t>{0, 0x8000000000000000}, DType::kI64),
            "element 1 is 9223372036854775808, which i64 cannot hold");
}

TEST(Cast, CountsElementsFromTheGivenFirstIndex) {
  const std::vector<int32_t> in = {0, 300};
  std::vector<std::byte> out(2);
  const auto result = cast_elements(DType::kI32, bytes_of(in), DType::kU8, out, 5000);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "element 5001 is 300, which u8 cannot hold");
}

TEST(Cast, FloatsToIntegersTruncateAndReportIt) {
  CastReport report;
  EXPECT_EQ(cast_or_die<int32_t>(DType::kF32, std::vector<float>{2.75F, -2.75F, -0.5F}, DType::kI32, &report),
            (std::vector<int32_t>{2, -2, 0}));
  EXPECT_FALSE(report.exact);
  EXPECT_EQ(report.max_abs_error, 0.75);
  EXPECT_EQ(cast_or_die<uint8_t>(DType::kF64, std::vector<double>{255.9, -0.9}, DType::kU8),
            (std::vector<uint8_t>{255, 0}));
  EXPECT_EQ(cast_or_die<int64_t>(DType::kF64, std::vector<double>{-0x1p63}, DType::kI64),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min()}));
}

TEST(Cast, FloatsOutOfAnIntegersRangeAreNamed) {
  EXPECT_EQ(cast_error<uint8_t>(DType::kF64, std::vector<double>{256}, DType::kU8),
            "element 0 is 256, which u8 cannot hold");
  EXPECT_EQ(cast_error<uint8_t>(DType::kF64, std::vector<double>{-1}, DType::kU8),
            "element 0 is -1, which u8 cannot hold");
  EXPECT_EQ(cast_error<int64_t>(DType::kF64, std::vector<double>{0x1p63}, DType::kI64),
            "element 0 is 9.223372036854776e+18, which i64 cannot hold");
  EXPECT_EQ(cast_error<uint64_t>(DType::kF64, std::vector<double>{0x1p64}, DType::kU64),
            "element 0 is 1.8446744073709552e+19, which u64 cannot hold");
  EXPECT_EQ(cast_error<int32_t>(DType::kF32, std::vector<float>{std::numeric_limits<float>::infinity()}, DType::kI32),
            "element 0 is inf, which i32 cannot hold");
  EXPECT_EQ(cast_error<int32_t>(DType::kF32, std::vector<float>{std::nanf("")}, DType::kI32),
            "element 0 is nan, which i32 cannot hold");
}

TEST(Cast, IntegersToFloatsRoundOnce) {
  CastReport report;
  // Just above the middle of two bf16 neighbours; by way of f64 or f32 it would fall onto it and round down.
  const int64_t above_tie = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;
  EXPECT_EQ(cast_or_die<uint16_t>(DType::kI64, std::vector<int64_t>{above_tie}, DType::kBF16).front(),
            BF16::encode(0x1p62) + 1);
  const std::vector<int64_t> above_f32_tie = {(int64_t{1} << 60) + (int64_t{1} << 36) + 1, -(int64_t{1} << 60) - 1};
  EXPECT_EQ(cast_or_die<float>(DType::kI64, above_f32_tie, DType::kF32, &report),
            (std::vector<float>{std::nextafter(0x1p60F, 0x1p61F), -0x1p60F}));
  EXPECT_FALSE(report.exact);
  EXPECT_EQ(report.max_abs_error, 0x1p36 - 1);
}

TEST(Cast, IntegersToF32AgreeWithTheMachineOnRandomNumbers) {
  std::mt19937_64 random(20240601);
  std::vector<int64_t> in(20000);
  for (int64_t& value : in) value = static_cast<int64_t>(random()) >> (random() % 63);
  const auto out = cast_or_die<float>(DType::kI64, in, DType::kF32);
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], static_cast<float>(in[i])) << in[i];
}

TEST(Cast, LargeIntegersToF64ReportTheirExactError) {
  CastReport report;
  const std::vector<uint64_t> in = {std::numeric_limits<uint64_t>::max()};
  EXPECT_EQ(cast_or_die<double>(DType::kU64, in, DType::kF64, &report), (std::vector<double>{0x1p64}));
  EXPECT_EQ(report.max_abs_error, 1);
  EXPECT_FALSE(report.exact);
  const std::vector<int64_t> even = {(int64_t{1} << 53) + 2};
  cast_or_die<double>(DType::kI64, even, DType::kF64, &report);
  EXPECT_TRUE(report.exact);
}

TEST(Cast, TruthValuesAreZeroAndOne) {
  EXPECT_EQ(cast_or_die<int32_t>(DType::kBool, std::vector<uint8_t>{0, 1}, DType::kI32), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(cast_or_die<float>(DType::kBool32, std::vector<uint32_t>{0, 1}, DType::kF32), (std::vector<float>{0, 1}));
  EXPECT_EQ(cast_or_die<uint8_t>(DType::kBool32, std::vector<uint32_t>{0, 1}, DType::kBool),
            (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(cast_or_die<uint8_t>(DType::kF32, std::vector<float>{0, -0.0F, 1}, DType::kBool),
            (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_EQ(cast_error<uint8_t>(DType::kI32, std::vector<int32_t>{2}, DType::kBool),
            "element 0 is 2, which bool cannot hold");
  EXPECT_EQ(cast_error<uint8_t>(DType::kF32, std::vector<float>{0.5F}, DType::kBool),
            "element 0 is 0.5, which bool cannot hold");
}

TEST(Cast, ComplexNumbersConvertByComponent) {
  CastReport report;
  const std::vector<double> in = {0.1, -2};
  std::vector<float> out(2);
  const auto done = cast_elements(DType::kC128, bytes_of(in), DType::kC64, std::as_writable_bytes(std::span(out)));
  ASSERT_TRUE(done.has_value());
  swap_if_big_endian(std::span(out));
  EXPECT_EQ(out, (std::vector<float>{0.1F, -2}));
  EXPECT_FALSE(done->exact);
  std::vector<double> back(2);
  const auto up = cast_elements(DType::kC64, bytes_of(out), DType::kC128, std::as_writable_bytes(std::span(back)));
  ASSERT_TRUE(up.has_value());
  EXPECT_TRUE(up->exact);
  swap_if_big_endian(std::span(back));
  EXPECT_EQ(back, (std::vector<double>{0.1F, -2}));
}

TEST(Cast, NanHasNoPlaceInTypesWithoutIt) {
  std::vector<std::byte> out(1);
  const std::vector<float> in = {1, std::nanf("")};
  const auto result = cast_elements(DType::kF32, bytes_of(in), DType::kF4, out);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "element 1 is nan, which f4 cannot hold");
}

TEST(Cast, PacksSmallElements) {
  const std::vector<float> in = {0.5F, 1, 6, -6, 1.5F, 0, -0.5F, 4};
  std::vector<uint8_t> out(4);
  ASSERT_TRUE(cast_elements(DType::kF32, bytes_of(in), DType::kF4, std::as_writable_bytes(std::span(out))));
  EXPECT_EQ(out, (std::vector<uint8_t>{0x21, 0xF7, 0x03, 0x69}));
  std::vector<float> back(8);
  ASSERT_TRUE(cast_elements(DType::kF4, bytes_of(out), DType::kF32, std::as_writable_bytes(std::span(back))));
  swap_if_big_endian(std::span(back));
  EXPECT_EQ(back, in);
}

TEST(Cast, TheSameTypeIsACopyOfEveryBit) {
  const std::vector<uint32_t> in = {0x7F800001, 0x80000000};
  EXPECT_EQ(cast_or_die<uint32_t>(DType::kF32, in, DType::kF32), in);
  const std::vector<uint8_t> odd_bool = {7};
  EXPECT_EQ(cast_or_die<uint8_t>(DType::kBool, odd_bool, DType::kBool), odd_bool);
}

TEST(Cast, RefusesPairsWithoutMeaning) {
  std::vector<std::byte> in(32);
  std::vector<std::byte> out(32);
  const std::pair<DType, DType> pairs[] = {{DType::kF128, DType::kF64},  {DType::kF64, DType::kF128},
                                           {DType::kC64, DType::kF32},   {DType::kF32, DType::kC64},
                                           {DType::kC256, DType::kC128}, {DType::kU8, DType::kOpaque},
                                           {DType::kOpaque, DType::kU8}, {DType::kF32, DType::kQFloat}};
  for (const auto& [from, to] : pairs) {
    EXPECT_FALSE(can_cast(from, to));
    const auto result = cast_elements(from, in, to, out);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  }
}

TEST(Cast, RefusesSizesThatDoNotAgree) {
  std::vector<std::byte> in(7);
  std::vector<std::byte> out(8);
  EXPECT_EQ(cast_elements(DType::kF32, in, DType::kF64, out).error().message,
            "7 bytes of f32 do not become 8 bytes of f64");
  in.resize(8);
  EXPECT_FALSE(cast_elements(DType::kF32, in, DType::kF64, out).has_value());
}

TEST(Cast, EveryArithmeticPairOfOneKindIsKnown) {
  for (const DTypeInfo& from : all_dtypes()) {
    for (const DTypeInfo& to : all_dtypes()) {
      if (!is_arithmetic(from.dtype) || !is_arithmetic(to.dtype)) continue;
      if (is_block(from.dtype) || is_block(to.dtype)) continue;  // block_elements_test.cc
      const bool same_kind = component_count(from.dtype) == component_count(to.dtype);
      ASSERT_EQ(can_cast(from.dtype, to.dtype), same_kind) << from.name << " " << to.name;
      if (!same_kind) continue;
      // 24 elements: whole bytes in every type. Ones, which every type but e8m0's neighbours can hold.
      std::vector<std::byte> ones(24 * size_t{from.bits} / 8);
      const std::vector<uint8_t> one(24 * component_count(from.dtype), 1);
      visit_element(from.dtype, [&]<typename E>() {
        for (size_t i = 0; i < one.size(); ++i) {
          if constexpr (E::kKind == DTypeKind::kFloat) store_bits<E>(ones.data(), i, E::encode(1.0));
          else store_bits<E>(ones.data(), i, 1);
        }
      });
      std::vector<std::byte> out(24 * size_t{to.bits} / 8);
      const auto report = cast_elements(from.dtype, ones, to.dtype, out);
      ASSERT_TRUE(report.has_value()) << from.name << " " << to.name;
      EXPECT_TRUE(report->exact) << from.name << " " << to.name;
      std::vector<double> values(one.size());
      to_doubles(to.dtype, out, values);
      EXPECT_EQ(values, std::vector<double>(one.size(), 1.0)) << from.name << " " << to.name;
    }
  }
}

TEST(Cast, ReportsOfPartsMerge) {
  CastReport report;
  report.merge({false, 0.5});
  report.merge({true, 0});
  EXPECT_FALSE(report.exact);
  EXPECT_EQ(report.max_abs_error, 0.5);
}

}  // namespace
}  // namespace ballast
