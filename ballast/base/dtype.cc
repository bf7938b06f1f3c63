#include "ballast/base/dtype.h"

#include <array>
#include <cstddef>

namespace ballast {

namespace {

using enum DTypeKind;

// Rows stand in the order of the enumerators, so that a lookup is an index.
constexpr std::array kTable = {
    DTypeInfo{DType::kF64, "f64", kFloat, 64},
    DTypeInfo{DType::kF32, "f32", kFloat, 32},
    DTypeInfo{DType::kF16, "f16", kFloat, 16},
    DTypeInfo{DType::kBF16, "bf16", kFloat, 16},
    DTypeInfo{DType::kI64, "i64", kSigned, 64},
    DTypeInfo{DType::kI32, "i32", kSigned, 32},
    DTypeInfo{DType::kI16, "i16", kSigned, 16},
    DTypeInfo{DType::kI8, "i8", kSigned, 8},
    DTypeInfo{DType::kU64, "u64", kUnsigned, 64},
    DTypeInfo{DType::kU32, "u32", kUnsigned, 32},
    DTypeInfo{DType::kU16, "u16", kUnsigned, 16},
    DTypeInfo{DType::kU8, "u8", kUnsigned, 8},
    DTypeInfo{DType::kBool, "bool", DTypeKind::kBool, 8},
    DTypeInfo{DType::kC64, "c64", kComplex, 64},
    DTypeInfo{DType::kC128, "c128", kComplex, 128},
    DTypeInfo{DType::kF8E4M3, "f8_e4m3", kFloat, 8},
    DTypeInfo{DType::kF8E5M2, "f8_e5m2", kFloat, 8},
    DTypeInfo{DType::kF8E8M0, "f8_e8m0", kFloat, 8},
    DTypeInfo{DType::kF8E4M3Fnuz, "f8_e4m3fnuz", kFloat, 8},
    DTypeInfo{DType::kF8E5M2Fnuz, "f8_e5m2fnuz", kFloat, 8},
    DTypeInfo{DType::kF6E2M3, "f6_e2m3", kFloat, 6},
    DTypeInfo{DType::kF6E3M2, "f6_e3m2", kFloat, 6},
    DTypeInfo{DType::kF4, "f4", kFloat, 4},
    DTypeInfo{DType::kFlex32, "flex32", kFloat, 32},
    DTypeInfo{DType::kBool32, "bool32", DTypeKind::kBool, 32},
    DTypeInfo{DType::kF128, "f128", kFloat, 128},
    DTypeInfo{DType::kC256, "c256", kComplex, 256},
    DTypeInfo{DType::kQFloat, "qfloat", kBytes, 0},
    DTypeInfo{DType::kOpaque, "opaque", kBytes, 0},
    DTypeInfo{DType::kQ1_0, "q1_0", kBlock, 0, 128, 18},
    DTypeInfo{DType::kQ2_0, "q2_0", kBlock, 0, 64, 18},
    DTypeInfo{DType::kQ4_0, "q4_0", kBlock, 0, 32, 18},
    DTypeInfo{DType::kQ4_1, "q4_1", kBlock, 0, 32, 20},
    DTypeInfo{DType::kQ5_0, "q5_0", kBlock, 0, 32, 22},
    DTypeInfo{DType::kQ5_1, "q5_1", kBlock, 0, 32, 24},
    DTypeInfo{DType::kQ8_0, "q8_0", kBlock, 0, 32, 34},
    DTypeInfo{DType::kQ8_1, "q8_1", kBlock, 0, 32, 36},
    DTypeInfo{DType::kQ2K, "q2_k", kBlock, 0, 256, 84},
    DTypeInfo{DType::kQ3K, "q3_k", kBlock, 0, 256, 110},
    DTypeInfo{DType::kQ4K, "q4_k", kBlock, 0, 256, 144},
    DTypeInfo{DType::kQ5K, "q5_k", kBlock, 0, 256, 176},
    DTypeInfo{DType::kQ6K, "q6_k", kBlock, 0, 256, 210},
    DTypeInfo{DType::kQ8K, "q8_k", kBlock, 0, 256, 292},
    DTypeInfo{DType::kIQ1S, "iq1_s", kBlock, 0, 256, 50},
    DTypeInfo{DType::kIQ1M, "iq1_m", kBlock, 0, 256, 56},
    DTypeInfo{DType::kIQ2XXS, "iq2_xxs", kBlock, 0, 256, 66},
    DTypeInfo{DType::kIQ2XS, "iq2_xs", kBlock, 0, 256, 74},
    DTypeInfo{DType::kIQ2S, "iq2_s", kBlock, 0, 256, 82},
    DTypeInfo{DType::kIQ3XXS, "iq3_xxs", kBlock, 0, 256, 98},
    DTypeInfo{DType::kIQ3S, "iq3_s", kBlock, 0, 256, 110},
    DTypeInfo{DType::kIQ4NL, "iq4_nl", kBlock, 0, 32, 18},
    DTypeInfo{DType::kIQ4XS, "iq4_xs", kBlock, 0, 256, 136},
    DTypeInfo{DType::kTQ1_0, "tq1_0", kBlock, 0, 256, 54},
    DTypeInfo{DType::kTQ2_0, "tq2_0", kBlock, 0, 256, 66},
    DTypeInfo{DType::kMXFP4, "mxfp4", kBlock, 0, 32, 17},
    DTypeInfo{DType::kNVFP4, "nvfp4", kBlock, 0, 64, 36},
};

constexpr bool rows_follow_the_enumerators() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<size_t>(kTable[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enumerators());

}  // namespace

const DTypeInfo& dtype_info(DType dtype) { return kTable[static_cast<size_t>(dtype)]; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeInfo& row : kTable) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::span<const DTypeInfo> all_dtypes() { return kTable; }

}  // namespace ballast
