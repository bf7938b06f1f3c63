// Every type of the dtype table that has arithmetic, as a C++ type, and the one dispatcher from one to the other.
//
// An element type E has: Bits (an unsigned integer), kBits, kKind, Value and decode(Bits) -> Value; floating ones also
// encode(double), kHasNan, kSign, kMagnitude, kMinNormal, is_nan and is_finite. A complex number is two elements of its
// component type. A new type is one struct and one case of visit_element.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"
#include "ballast/tensor/small_float.h"

namespace ballast {

template <std::floating_point T>
struct NativeFloatElement {
  using Layout = IeeeLayout<T>;
  using Bits = typename Layout::Bits;
  using Value = T;
  static constexpr DTypeKind kKind = DTypeKind::kFloat;
  static constexpr unsigned kBits = sizeof(T) * 8;
  static constexpr bool kHasNan = true;
  static constexpr Bits kSign = Layout::kSign;
  static constexpr Bits kMagnitude = static_cast<Bits>(kSign - 1);
  static constexpr Bits kMinNormal = Layout::kMantissa + 1;

  static Value decode(Bits bits) { return std::bit_cast<T>(bits); }
  static Bits encode(double value) { return std::bit_cast<Bits>(static_cast<T>(value)); }
  static bool is_nan(Bits bits) { return (bits & kMagnitude) > Layout::kInfinity; }
  static bool is_finite(Bits bits) { return (bits & kMagnitude) < Layout::kInfinity; }
};

template <typename Format>
struct SmallFloatElement : Format {
  using Bits = typename Format::Bits;
  using Value = float;
  static constexpr DTypeKind kKind = DTypeKind::kFloat;

  static Value decode(Bits bits) {
    if constexpr (Format::kBits <= 8) {
      static constexpr auto kCodes = decoded_codes<Format>();
      return kCodes[bits];
    } else {
      return Format::decode(bits);
    }
  }
};

template <std::integral T>
struct IntegerElement {
  using Bits = std::make_unsigned_t<T>;
  using Value = T;
  static constexpr DTypeKind kKind = std::is_signed_v<T> ? DTypeKind::kSigned : DTypeKind::kUnsigned;
  static constexpr unsigned kBits = sizeof(T) * 8;

  static Value decode(Bits bits) { return static_cast<T>(bits); }
};

// One truth value in `Storage`; any stored number but 0 is true.
template <std::unsigned_integral Storage>
struct BoolElement {
  using Bits = Storage;
  using Value = bool;
  static constexpr DTypeKind kKind = DTypeKind::kBool;
  static constexpr unsigned kBits = sizeof(Storage) * 8;

  static Value decode(Bits bits) { return bits != 0; }
};

template <typename E, typename Visitor>
bool visit_as(Visitor& visitor) {
  visitor.template operator()<E>();
  return true;
}

// Calls visitor.template operator()<E>() with the element type of `dtype` and returns true; false for types that are
// only carried (f128, c256, qfloat, opaque) and for blocks (tensor/blocks.h), which hold no elements by themselves.
template <typename Visitor>
bool visit_element(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128: return visit_as<NativeFloatElement<double>>(visitor);
    case DType::kF32:
    case DType::kFlex32:
    case DType::kC64: return visit_as<NativeFloatElement<float>>(visitor);
    case DType::kF16: return visit_as<SmallFloatElement<F16>>(visitor);
    case DType::kBF16: return visit_as<SmallFloatElement<BF16>>(visitor);
    case DType::kI64: return visit_as<IntegerElement<int64_t>>(visitor);
    case DType::kI32: return visit_as<IntegerElement<int32_t>>(visitor);
    case DType::kI16: return visit_as<IntegerElement<int16_t>>(visitor);
    case DType::kI8: return visit_as<IntegerElement<int8_t>>(visitor);
    case DType::kU64: return visit_as<IntegerElement<uint64_t>>(visitor);
    case DType::kU32: return visit_as<IntegerElement<uint32_t>>(visitor);
    case DType::kU16: return visit_as<IntegerElement<uint16_t>>(visitor);
    case DType::kU8: return visit_as<IntegerElement<uint8_t>>(visitor);
    case DType::kBool: return visit_as<BoolElement<uint8_t>>(visitor);
    case DType::kBool32: return visit_as<BoolElement<uint32_t>>(visitor);
    case DType::kF8E4M3: return visit_as<SmallFloatElement<F8E4M3>>(visitor);
    case DType::kF8E5M2: return visit_as<SmallFloatElement<F8E5M2>>(visitor);
    case DType::kF8E8M0: return visit_as<SmallFloatElement<F8E8M0>>(visitor);
    case DType::kF8E4M3Fnuz: return visit_as<SmallFloatElement<F8E4M3Fnuz>>(visitor);
    case DType::kF8E5M2Fnuz: return visit_as<SmallFloatElement<F8E5M2Fnuz>>(visitor);
    case DType::kF6E2M3: return visit_as<SmallFloatElement<F6E2M3>>(visitor);
    case DType::kF6E3M2: return visit_as<SmallFloatElement<F6E3M2>>(visitor);
    case DType::kF4: return visit_as<SmallFloatElement<F4>>(visitor);
    default: return false;
  }
}

// The bits of element `index`. Types of 4 and 6 bits follow each other without gaps, the first in the lowest bits.
template <typename E>
typename E::Bits load_bits(const std::byte* in, size_t index) {
  if constexpr (E::kBits % 8 == 0) {
    return load_le<typename E::Bits>(in + index * (E::kBits / 8));
  } else {
    const size_t first_bit = index * E::kBits;
    const unsigned shift = first_bit % 8;
    const std::byte* at = in + first_bit / 8;
    unsigned bits = std::to_integer<unsigned>(at[0]) >> shift;
    if (shift + E::kBits > 8) bits |= std::to_integer<unsigned>(at[1]) << (8 - shift);
    return static_cast<typename E::Bits>(bits & ((1U << E::kBits) - 1));
  }
}

template <typename E>
void store_bits(std::byte* out, size_t index, typename E::Bits bits) {
  if constexpr (E::kBits % 8 == 0) {
    store_le<typename E::Bits>(out + index * (E::kBits / 8), bits);
  } else {
    const size_t first_bit = index * E::kBits;
    const unsigned shift = first_bit % 8;
    std::byte* at = out + first_bit / 8;
    const unsigned mask = ((1U << E::kBits) - 1) << shift;
    const unsigned shifted = static_cast<unsigned>(bits) << shift;
    at[0] = (at[0] & ~static_cast<std::byte>(mask)) | static_cast<std::byte>(shifted);
    if (shift + E::kBits > 8)
      at[1] = (at[1] & ~static_cast<std::byte>(mask >> 8)) | static_cast<std::byte>(shifted >> 8);
  }
}

}  // namespace ballast
