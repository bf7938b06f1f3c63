// Random numbers by counting: the n-th number of a seed can be had without those before it, on any thread.
#pragma once

#include <cstdint>

namespace ballast {

// SplitMix64's finaliser over a counter: every bit of seed and counter reaches every bit of the result.
constexpr uint64_t counter_random(uint64_t seed, uint64_t counter) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15U;
  const auto mix = [](uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  };
  return mix(mix(seed + kGolden) + (counter + 1) * kGolden);
}

// In [0, 1), with 53 random bits.
constexpr double counter_uniform(uint64_t seed, uint64_t counter) {
  return static_cast<double>(counter_random(seed, counter) >> 11) * 0x1p-53;
}

}  // namespace ballast
