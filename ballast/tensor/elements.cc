#include "ballast/tensor/elements.h"

#include <algorithm>
#include <array>

#include "ballast/tensor/blocks.h"
#include "ballast/tensor/element.h"

namespace ballast {

namespace {

constexpr size_t kLargestBlock = 256;  // elements

void block_values(DType dtype, ByteSpan in, size_t first, std::span<double> out) {
  const DTypeInfo& type = dtype_info(dtype);
  std::array<float, kLargestBlock> values;
  size_t done = 0;
  while (done < out.size()) {
    const size_t block = (first + done) / type.block_elements;
    const size_t skipped = (first + done) % type.block_elements;
    const size_t taken = std::min(type.block_elements - skipped, out.size() - done);
    dequantize_blocks(dtype, in.subspan(block * type.block_bytes, type.block_bytes), values);
    for (size_t i = 0; i < taken; ++i) out[done + i] = static_cast<double>(values[skipped + i]);
    done += taken;
  }
}

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

// The same for whole blocks.
NonFinite scan_blocks(DType dtype, ByteSpan in) {
  const DTypeInfo& type = dtype_info(dtype);
  NonFinite found;
  std::array<float, kLargestBlock> values;
  uint64_t first = 0;
  for (size_t at = 0; at < in.size(); at += type.block_bytes, first += type.block_elements) {
    dequantize_blocks(dtype, in.subspan(at, type.block_bytes), values);
    unsigned suspicious = 0;
    for (size_t i = 0; i < type.block_elements; ++i) suspicious |= static_cast<unsigned>(!std::isfinite(values[i]));
    if (suspicious == 0) continue;
    for (size_t i = 0; i < type.block_elements; ++i) {
      if (std::isfinite(values[i])) continue;
      if (!found.any()) found.first = first + i;
      if (std::isnan(values[i])) ++found.nan;
      else if (values[i] < 0) ++found.negative_infinity;
      else ++found.positive_infinity;
    }
  }
  return found;
}

}  // namespace

bool is_arithmetic(DType dtype) {
  return visit_element(dtype, []<typename E>() {}) || can_dequantize(dtype);
}

void to_doubles(DType dtype, ByteSpan in, size_t first, std::span<double> out) {
  if (is_block(dtype)) block_values(dtype, in, first, out);
  else to_numbers(dtype, in, first, out);
}
void to_integers(DType dtype, ByteSpan in, size_t first, std::span<int64_t> out) { to_numbers(dtype, in, first, out); }
void to_integers(DType dtype, ByteSpan in, size_t first, std::span<uint64_t> out) { to_numbers(dtype, in, first, out); }

void NonFinite::append(const NonFinite& part, uint64_t offset) {
  if (!any() && part.any()) first = offset + part.first;
  nan += part.nan;
  positive_infinity += part.positive_infinity;
  negative_infinity += part.negative_infinity;
}

NonFinite find_non_finite(DType dtype, ByteSpan in) {
  if (can_dequantize(dtype)) return scan_blocks(dtype, in);
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
