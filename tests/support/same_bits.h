// Whether numbers are the same to the bit: zeros of both signs differ, and a NaN equals itself.
#pragma once

#include <algorithm>
#include <span>

#include "ballast/device/host_values.h"

namespace ballast::testing {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

// The dimensions may differ.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  const auto x = HostValues<std::byte>::of(a), y = HostValues<std::byte>::of(b);
  return x && y && std::ranges::equal(x->span(), y->span());
}

}  // namespace ballast::testing
