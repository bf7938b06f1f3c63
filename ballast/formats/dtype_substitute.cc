#include <fmt/format.h>

#include <initializer_list>

#include "ballast/formats/format.h"
#include "ballast/tensor/blocks.h"

namespace ballast {

namespace {

using enum DType;

// What may stand in for a type, best first: first those that hold every value, then those that come near.
std::initializer_list<DType> substitutes(DType dtype) {
  static constexpr auto kNone = std::initializer_list<DType>{};
  static constexpr auto kForF64 = {kF32};
  static constexpr auto kForF32 = {kF64};
  static constexpr auto kForSmallFloat = {kF32, kF64};
  static constexpr auto kForI64 = {kI32, kF64, kF32};
  static constexpr auto kForU64 = {kI64, kI32, kF64, kF32};
  static constexpr auto kForI32 = {kI64, kF64, kF32};
  static constexpr auto kForU32 = {kU64, kI64, kI32, kF64, kF32};
  static constexpr auto kForSmallSigned = {kI16, kI32, kI64, kF32};
  static constexpr auto kForSmallUnsigned = {kU16, kU32, kI32, kI64, kF32};
  static constexpr auto kForBool = {kU8, kI32, kF32};
  static constexpr auto kForBool32 = {kBool, kU8, kI32, kF32};
  static constexpr auto kForC64 = {kC128};
  static constexpr auto kForC128 = {kC64};
  static constexpr auto kForBytes = {kU8};
  if (can_dequantize(dtype)) return kForSmallFloat;
  switch (dtype) {
    case kF64: return kForF64;
    case kF32: return kForF32;
    case kF16:
    case kBF16:
    case kFlex32:
    case kF8E4M3:
    case kF8E5M2:
    case kF8E8M0:
    case kF8E4M3Fnuz:
    case kF8E5M2Fnuz:
    case kF6E2M3:
    case kF6E3M2:
    case kF4: return kForSmallFloat;
    case kI64: return kForI64;
    case kU64: return kForU64;
    case kI32: return kForI32;
    case kU32: return kForU32;
    case kI16:
    case kI8: return kForSmallSigned;
    case kU16:
    case kU8: return kForSmallUnsigned;
    case DType::kBool: return kForBool;
    case kBool32: return kForBool32;
    case kC64: return kForC64;
    case kC128: return kForC128;
    case kF128:
    case kC256: return kNone;   // x87 or quad: the bits alone do not say which
    default: return kForBytes;  // packed values and opaque bytes
  }
}

}  // namespace

Loss unsupported_dtype_loss(const TensorInfo& tensor, std::string_view format, bool (*supports)(DType)) {
  Loss loss;
  loss.tensor = tensor.name;
  for (const DType candidate : substitutes(tensor.dtype)) {
    if (candidate == tensor.dtype || !supports(candidate)) continue;
    loss.cast_to = candidate;
    loss.what = fmt::format("dtype {} does not exist in {}; {} would become {}", tensor.type_name(), format,
                            is_block(tensor.dtype) && !can_dequantize(tensor.dtype) ? "its bytes" : "the values",
                            dtype_name(candidate));
    if (can_dequantize(tensor.dtype)) loss.remedies = Remedy::kDequantize;
    return loss;
  }
  loss.drop = true;
  loss.what = fmt::format("dtype {} does not exist in {}; the tensor would be left out", tensor.type_name(), format);
  return loss;
}

}  // namespace ballast
