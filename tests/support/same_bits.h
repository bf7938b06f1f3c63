// Whether numbers are the same to the bit: zeros of both signs differ, and a NaN equals itself.
#pragma once

#include <span>

#include "ballast/device/host_values.h"
#include "tests/support/same_bytes.h"

namespace ballast::testing {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return same_bytes(std::as_bytes(a), std::as_bytes(b));
}

// The dimensions may differ.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  const auto x = HostValues<std::byte>::of(a), y = HostValues<std::byte>::of(b);
  return x && y && same_bytes(x->span(), y->span());
}

}  // namespace ballast::testing
