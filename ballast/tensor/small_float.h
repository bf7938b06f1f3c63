// Floating types narrower than 32 bits: bits -> float, float or double -> bits.
//
// One template describes them all; it works on bits alone, so that every machine gives the same result. Narrowing
// rounds to nearest, ties to even, in one step also from double. NaN stays NaN (quiet, with the payload bits that fit).
// What is too large becomes infinity; where the type has none, NaN; where it has neither, the largest value.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace ballast {

// The layout of IEEE binary32 and binary64.
template <std::floating_point T>
struct IeeeLayout {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int kMantissaBits = std::numeric_limits<T>::digits - 1;
  static constexpr int kBias = std::numeric_limits<T>::max_exponent - 1;
  static constexpr Bits kSign = Bits{1} << (sizeof(T) * 8 - 1);
  static constexpr Bits kMantissa = (Bits{1} << kMantissaBits) - 1;
  static constexpr Bits kInfinity = kSign - 1 - kMantissa;
};

// Which codes of a type are not numbers.
enum class Specials : uint8_t {
  kIeee,               // the highest exponent: infinity and NaN
  kNanAllOnes,         // no infinity; all ones is NaN ("fn")
  kNanIsNegativeZero,  // no infinity, no negative zero: its code is NaN ("fnuz")
  kNone,               // every code is a number
};

template <int kExponentWidth, int kMantissaWidth, int kExponentBias, Specials kSpecials>
struct SmallFloat {
  static constexpr unsigned kBits = 1 + kExponentWidth + kMantissaWidth;
  using Bits = std::conditional_t<(kBits > 8), uint16_t, uint8_t>;
  static constexpr bool kHasNan = kSpecials != Specials::kNone;
  static constexpr uint32_t kSign = 1U << (kBits - 1);
  static constexpr uint32_t kMagnitude = kSign - 1;
  static constexpr uint32_t kMinNormal = 1U << kMantissaWidth;  // smaller magnitudes are denormal
  static constexpr uint32_t kInfinity = ((1U << kExponentWidth) - 1) << kMantissaWidth;  // kIeee only
  static constexpr uint32_t kMaxFinite = kSpecials == Specials::kIeee         ? kInfinity - 1
                                         : kSpecials == Specials::kNanAllOnes ? kMagnitude - 1
                                                                              : kMagnitude;

  static constexpr bool is_finite(Bits bits) {
    if constexpr (kSpecials == Specials::kNanIsNegativeZero) return bits != kSign;
    return (bits & kMagnitude) <= kMaxFinite;
  }
  static constexpr bool is_nan(Bits bits) {
    if constexpr (kSpecials == Specials::kIeee) return (bits & kMagnitude) > kInfinity;
    return !is_finite(bits);
  }

  static constexpr float decode(Bits bits) {
    const uint32_t sign = (bits & kSign) << (32 - kBits);
    const uint32_t magnitude = bits & kMagnitude;
    if constexpr (kExponentWidth == 8) return std::bit_cast<float>(sign | magnitude << (23 - kMantissaWidth));
    else return decode_magnitude(sign, magnitude, is_finite(bits));
  }

  template <std::floating_point T>
  static constexpr Bits encode(T value) {
    using Wide = IeeeLayout<T>;
    using WideBits = typename Wide::Bits;
    const auto wide = std::bit_cast<WideBits>(value);
    const uint32_t sign = (wide & Wide::kSign) != 0 ? kSign : 0;
    const WideBits magnitude = wide & ~Wide::kSign;
    if (magnitude > Wide::kInfinity)
      return nan_of(sign, static_cast<uint32_t>((magnitude & Wide::kMantissa) >> kDrop<T>));
    if (magnitude == Wide::kInfinity) return overflow(sign);

    // The value is significand * 2^(exponent - bias - mantissa bits), also below the normal range.
    const int field = static_cast<int>(magnitude >> Wide::kMantissaBits);
    const WideBits significand = (magnitude & Wide::kMantissa) | (field != 0 ? Wide::kMantissa + 1 : WideBits{0});
    const int exponent = (field != 0 ? field : 1) - Wide::kBias + kExponentBias;
    uint64_t code = 0;
    if (exponent >= 1) {
      // The implicit bit of the significand adds the 1 that is taken from the exponent here, and a carry adds another.
      code = round_to_even<T>(significand, kDrop<T>, static_cast<uint64_t>(exponent - 1) << kMantissaWidth);
    } else if (kDrop<T> + 1 - exponent <= Wide::kMantissaBits + 2) {
      code = round_to_even<T>(significand, kDrop<T> + 1 - exponent, 0);
    }
    if (code > kMaxFinite) return overflow(sign);
    if constexpr (kSpecials == Specials::kNanIsNegativeZero) {
      if (code == 0) return 0;
    }
    return static_cast<Bits>(sign | static_cast<uint32_t>(code));
  }

 private:
  template <typename T>
  static constexpr int kDrop = IeeeLayout<T>::kMantissaBits - kMantissaWidth;

  static constexpr float decode_magnitude(uint32_t sign, uint32_t magnitude, bool finite) {
    const uint32_t exponent = magnitude >> kMantissaWidth;
    const uint32_t mantissa = magnitude & ((1U << kMantissaWidth) - 1);
    if (!finite) {
      // Infinity has the mantissa 0; a NaN keeps its payload where it has one.
      const uint32_t payload = kSpecials == Specials::kIeee ? mantissa << (23 - kMantissaWidth) : 1U << 22;
      return std::bit_cast<float>(sign | IeeeLayout<float>::kInfinity | payload);
    }
    if (exponent == 0) {
      constexpr auto kStep = std::bit_cast<float>(uint32_t{127 + 1 - kExponentBias - kMantissaWidth} << 23);
      const float value = static_cast<float>(mantissa) * kStep;
      return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | (exponent + 127 - kExponentBias) << 23 | mantissa << (23 - kMantissaWidth));
  }

  // base + significand / 2^drop, rounded to nearest, ties to even.
  template <typename T>
  static constexpr uint64_t round_to_even(typename IeeeLayout<T>::Bits significand, int drop, uint64_t base) {
    const uint64_t code = base + (uint64_t{significand} >> drop);
    const uint64_t rest = significand & ((uint64_t{1} << drop) - 1);
    const uint64_t half = uint64_t{1} << (drop - 1);
    // Up when rest > half, or rest == half and code is odd; without a branch, which random values would mispredict.
    return code + static_cast<uint64_t>(rest + (code & 1) > half);
  }

  static constexpr Bits overflow(uint32_t sign) {
    if constexpr (kSpecials == Specials::kIeee) return static_cast<Bits>(sign | kInfinity);
    if constexpr (kSpecials == Specials::kNone) return static_cast<Bits>(sign | kMaxFinite);
    return nan_of(sign, 0);
  }

  static constexpr Bits nan_of(uint32_t sign, uint32_t payload) {
    if constexpr (kSpecials == Specials::kIeee) {
      constexpr uint32_t kQuiet = 1U << (kMantissaWidth - 1);
      return static_cast<Bits>(sign | kInfinity | kQuiet | payload);
    }
    if constexpr (kSpecials == Specials::kNanIsNegativeZero) return static_cast<Bits>(kSign);
    return static_cast<Bits>(sign | kMagnitude);
  }
};

using F16 = SmallFloat<5, 10, 15, Specials::kIeee>;
using BF16 = SmallFloat<8, 7, 127, Specials::kIeee>;
using F8E4M3 = SmallFloat<4, 3, 7, Specials::kNanAllOnes>;
using F8E5M2 = SmallFloat<5, 2, 15, Specials::kIeee>;
using F8E4M3Fnuz = SmallFloat<4, 3, 8, Specials::kNanIsNegativeZero>;
using F8E5M2Fnuz = SmallFloat<5, 2, 16, Specials::kNanIsNegativeZero>;
using F6E2M3 = SmallFloat<2, 3, 1, Specials::kNone>;
using F6E3M2 = SmallFloat<3, 2, 3, Specials::kNone>;
using F4 = SmallFloat<2, 1, 1, Specials::kNone>;

// Powers of two alone, 2^-127 to 2^127, without sign or zero: scales of block formats. 0xFF is NaN.
struct F8E8M0 {
  static constexpr unsigned kBits = 8;
  using Bits = uint8_t;
  static constexpr bool kHasNan = true;
  static constexpr uint32_t kSign = 0;
  static constexpr uint32_t kMagnitude = 0xFF;
  static constexpr uint32_t kMinNormal = 0;

  static constexpr bool is_nan(Bits bits) { return bits == 0xFF; }
  static constexpr bool is_finite(Bits bits) { return bits != 0xFF; }

  static constexpr float decode(Bits bits) {
    if (is_nan(bits)) return std::numeric_limits<float>::quiet_NaN();
    return std::bit_cast<float>(bits == 0 ? uint32_t{1} << 22 : uint32_t{bits} << 23);
  }

  // The nearest power of two, ties to the even exponent code; zero becomes the smallest, a negative number NaN.
  template <std::floating_point T>
  static constexpr Bits encode(T value) {
    if (!(value >= 0)) return 0xFF;
    const auto bits = std::bit_cast<uint64_t>(static_cast<double>(value));
    constexpr uint64_t kMantissa = IeeeLayout<double>::kMantissa;
    const auto power = static_cast<int64_t>(bits >> IeeeLayout<double>::kMantissaBits);
    const int64_t code = power - IeeeLayout<double>::kBias + 127;
    if (code < 0) return 0;
    const uint64_t rest = bits & kMantissa;
    const uint64_t half = (kMantissa + 1) / 2;
    const int64_t rounded = code + (rest > half || (rest == half && (code & 1) != 0) ? 1 : 0);
    return rounded >= 0xFF ? 0xFF : static_cast<Bits>(rounded);
  }
};

// Every code of a type of at most 8 bits, decoded.
template <typename Format>
constexpr auto decoded_codes() {
  std::array<float, size_t{1} << Format::kBits> values{};
  for (size_t code = 0; code < values.size(); ++code) {
    values[code] = Format::decode(static_cast<typename Format::Bits>(code));
  }
  return values;
}

}  // namespace ballast
