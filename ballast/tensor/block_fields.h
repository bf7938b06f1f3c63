// The parts of blocks that several types share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ballast/base/bytes.h"
#include "ballast/tensor/small_float.h"

namespace ballast {

inline float load_half(const std::byte* from) { return F16::decode(load_le<uint16_t>(from)); }
inline void store_half(std::byte* to, float value) { store_le<uint16_t>(to, F16::encode(value)); }

inline const uint8_t* as_codes(const std::byte* from) { return reinterpret_cast<const uint8_t*>(from); }
inline uint8_t* as_codes(std::byte* from) { return reinterpret_cast<uint8_t*>(from); }

// The eight scales and eight minima of q4_k and q5_k, 6 bits each: twelve bytes.
struct KScales {
  static constexpr size_t kCount = 8;
  static constexpr size_t kBytes = 12;
  static constexpr int kLargest = 63;

  std::array<uint8_t, kCount> scales;
  std::array<uint8_t, kCount> minima;

  static KScales load(const std::byte* from) {
    const uint8_t* in = as_codes(from);
    KScales found;
    for (size_t k = 0; k < 4; ++k) {
      found.scales[k] = in[k] & 63;
      found.minima[k] = in[k + 4] & 63;
      found.scales[k + 4] = static_cast<uint8_t>((in[k + 8] & 15) | ((in[k] >> 6) << 4));
      found.minima[k + 4] = static_cast<uint8_t>((in[k + 8] >> 4) | ((in[k + 4] >> 6) << 4));
    }
    return found;
  }

  void store(std::byte* to) const {
    uint8_t* out = as_codes(to);
    for (size_t k = 0; k < 4; ++k) {
      out[k] = static_cast<uint8_t>(scales[k] | (scales[k + 4] >> 4) << 6);
      out[k + 4] = static_cast<uint8_t>(minima[k] | (minima[k + 4] >> 4) << 6);
      out[k + 8] = static_cast<uint8_t>((scales[k + 4] & 15) | (minima[k + 4] & 15) << 4);
    }
  }
};

}  // namespace ballast
