#include "ballast/tensor/elements.h"

#include <algorithm>

#include "ballast/tensor/element.h"

namespace ballast {

namespace {

template <typename Number>
void to_numbers(DType dtype, ByteSpan in, size_t first, std::span<Number> out) {
  visit_element(dtype, [&]<typename E>() {
    for (size_t i = 0; i < out.size(); ++i) {
      // A conversion from floating types to integers is never asked for, but is compiled.
      if constexpr (std::is_integral_v<Number> && E::kKind == DTypeKind::kFloat) out[i] = 0;
      else out[i] = static_cast<Number>(E::decode(load_bits<E>(in.data(), first + i)));
    }
  });
}

template <typename E>
void count_non_finite(const std::byte* in, size_t begin, size_t end, NonFinite& found) {
  for (size_t i = begin; i < end; ++i) {
    const auto bits = load_bits<E>(in, i);
    if (E::is_finite(bits)) continue;
    if (!found.any()) found.first = i;
    if (E::is_nan(bits)) ++found.nan;
    else if ((bits & E::kSign) != 0) ++found.negative_infinity;
    else ++found.positive_infinity;
  }
}

// Nearly every payload is finite throughout, so a loop without branches decides whether to look closer.
template <typename E>
NonFinite scan(ByteSpan in) {
  constexpr size_t kBlock = 4096;
  NonFinite found;
  const size_t count = in.size() * 8 / E::kBits;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    unsigned suspicious = 0;
    for (size_t i = begin; i < end; ++i) suspicious |= static_cast<unsigned>(!E::is_finite(load_bits<E>(in.data(), i)));
    if (suspicious != 0) count_non_finite<E>(in.data(), begin, end, found);
  }
  return found;
}

}  // namespace

bool is_arithmetic(DType dtype) {
  return visit_element(dtype, []<typename E>() {});
}

void to_doubles(DType dtype, ByteSpan in, size_t first, std::span<double> out) { to_numbers(dtype, in, first, out); }
void to_integers(DType dtype, ByteSpan in, size_t first, std::span<int64_t> out) { to_numbers(dtype, in, first, out); }
void to_integers(DType dtype, ByteSpan in, size_t first, std::span<uint64_t> out) { to_numbers(dtype, in, first, out); }

void NonFinite::append(const NonFinite& part, uint64_t offset) {
  if (!any() && part.any()) first = offset + part.first;
  nan += part.nan;
  positive_infinity += part.positive_infinity;
  negative_infinity += part.negative_infinity;
}

NonFinite find_non_finite(DType dtype, ByteSpan in) {
  NonFinite found;
  visit_element(dtype, [&]<typename E>() {
    if constexpr (E::kKind == DTypeKind::kFloat) {
      if constexpr (E::kHasNan) found = scan<E>(in);
    }
  });
  found.first /= component_count(dtype);
  return found;
}

}  // namespace ballast
