// Compares bytes at once. Tests are compiled with little optimisation or none, and one byte after the other then takes
// most of the time of a test that compares megabytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace ballast::testing {

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace ballast::testing
