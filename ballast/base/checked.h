// Arithmetic on numbers that come from files: every result is checked, nothing wraps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace ballast {

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// The next multiple of `alignment` (which must not be 0) at or above `value`.
inline std::optional<uint64_t> checked_align_up(uint64_t value, uint64_t alignment) {
  const uint64_t remainder = value % alignment;
  return remainder == 0 ? std::optional<uint64_t>(value) : checked_add(value, alignment - remainder);
}

// A number of bytes as a size in memory: nullopt for more than one object can have, which a tensor of a few gigabytes
// is where addresses have 32 bits.
inline std::optional<size_t> checked_size(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(std::numeric_limits<ptrdiff_t>::max())) return std::nullopt;
  return static_cast<size_t>(bytes);
}

// True when [offset, offset + length) lies inside [0, size).
inline bool range_fits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

}  // namespace ballast
