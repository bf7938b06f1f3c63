// The one table of element and block types. Adding a type is one enumerator and one row in dtype.cc.
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
  // ggml: runs of numbers along the last dimension that share their scales
  kQ1_0, kQ2_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ8_1,
  kQ2K, kQ3K, kQ4K, kQ5K, kQ6K, kQ8K,
  kIQ1S, kIQ1M, kIQ2XXS, kIQ2XS, kIQ2S, kIQ3XXS, kIQ3S, kIQ4NL, kIQ4XS,
  kTQ1_0, kTQ2_0, kMXFP4, kNVFP4,
};
// clang-format on

enum class DTypeKind : uint8_t { kFloat, kSigned, kUnsigned, kBool, kComplex, kBytes, kBlock };

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // the name used everywhere people or digests see it
  DTypeKind kind;
  uint16_t bits;  // per element; 0 where elements do not lie by themselves
  // Of types that are stored in blocks: how many elements one holds, and in how many bytes. 0 of all others.
  uint16_t block_elements = 0;
  uint16_t block_bytes = 0;
};

const DTypeInfo& dtype_info(DType dtype);
inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
std::optional<DType> parse_dtype(std::string_view name);
std::span<const DTypeInfo> all_dtypes();

// Whether elements lie by themselves, so many bits each: what indexing into a payload needs.
inline bool has_elements(DType dtype) { return dtype_info(dtype).bits != 0; }
inline bool is_block(DType dtype) { return dtype_info(dtype).kind == DTypeKind::kBlock; }
// Whether the shape gives the stored length: see packed_size.
inline bool has_fixed_size(DType dtype) { return has_elements(dtype) || is_block(dtype); }

}  // namespace ballast
