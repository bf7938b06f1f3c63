// Payloads are little-endian everywhere; numbers are as the machine has them that runs the test.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "ballast/base/bytes.h"

namespace ballast {

// Turns what was copied out of a payload into numbers, or numbers into what goes into one.
template <typename T>
void swap_if_big_endian(std::span<T> values) {
  if constexpr (std::endian::native == std::endian::big) {
    for (T& value : values) std::ranges::reverse(std::as_writable_bytes(std::span(&value, 1)));
  }
}

// The payload that holds these numbers.
template <typename T>
ByteVector bytes_of(std::vector<T> values) {
  swap_if_big_endian(std::span(values));
  const ByteSpan bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// The numbers of a payload.
template <typename T>
std::vector<T> values_of(ByteSpan payload) {
  std::vector<T> values(payload.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), payload.data(), values.size() * sizeof(T));
  swap_if_big_endian(std::span(values));
  return values;
}

}  // namespace ballast
