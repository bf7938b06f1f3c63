// The one table of element types. Adding a type is one enumerator and one row in dtype.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ballast {

// One line per family.
// clang-format off
enum class DType : uint8_t {
  kF64, kF32, kF16, kBF16,
  kI64, kI32, kI16, kI8,
  kU64, kU32, kU16, kU8,
  kBool,
  kC64, kC128,
  kF8E4M3, kF8E5M2, kF8E8M0, kF8E4M3Fnuz, kF8E5M2Fnuz,
  kF6E2M3, kF6E3M2, kF4,
  kFlex32,   // Burn: stored as f32, computed at lower precision
  kBool32,   // Burn: one u32 per truth value
  kF128, kC256,  // NumPy long double: x87 or quad bits padded to 16 bytes, carried but never computed with
  kQFloat,   // Burn: packed values followed by scales; the length is data
  kOpaque,   // bytes whose meaning only the writing program knows (NumPy text, dates, records)
};
// clang-format on

enum class DTypeKind : uint8_t { kFloat, kSigned, kUnsigned, kBool, kComplex, kBytes };

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // the name used everywhere people or digests see it
  DTypeKind kind;
  uint16_t bits;  // per element; 0 where the stored length cannot be told from the shape
};

const DTypeInfo& dtype_info(DType dtype);
inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
std::optional<DType> parse_dtype(std::string_view name);
std::span<const DTypeInfo> all_dtypes();

// True where shape * bits gives the stored length.
inline bool has_fixed_size(DType dtype) { return dtype_info(dtype).bits != 0; }

}  // namespace ballast
