#include "ballast/tensor/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "ballast/tensor/element.h"
#include "ballast/tensor/elements.h"

namespace ballast {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kCompareBlock = 1024;  // numbers unpacked at a time
// Elements compared at a time: where addresses have 32 bits, a tensor in memory may have more elements than fit a
// size_t, and 512 MiB have more bits. Every type has a byte boundary here.
constexpr uint64_t kComparePiece = uint64_t{1} << 20;

// |a - b| and |b|, all that tolerances and maxima need.
struct Distance {
  double apart;
  double reference;
};

Distance distance(double a, double b) { return {distance_between(a, b), std::abs(b)}; }

uint64_t magnitude(uint64_t value) { return value; }
uint64_t magnitude(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// Exact up to the rounding of the result to double.
template <std::integral A, std::integral B>
Distance distance(A a, B b) {
  const uint64_t size_a = magnitude(a);
  const uint64_t size_b = magnitude(b);
  const auto reference = static_cast<double>(size_b);
  if ((a < 0) != (b < 0)) return {static_cast<double>(size_a) + reference, reference};
  return {static_cast<double>(size_a > size_b ? size_a - size_b : size_b - size_a), reference};
}

Distance distance(const double* a, const double* b) {  // complex numbers
  const double real = distance_between(a[0], b[0]);
  const double imaginary = distance_between(a[1], b[1]);
  return {std::hypot(real, imaginary), std::hypot(b[0], b[1])};
}

class Comparison {
 public:
  explicit Comparison(const Tolerance& tolerance) : tolerance_(tolerance), exact_(tolerance.is_exact()) {}

  // An element that differs where no tolerance is given.
  void add_differing(const Distance& d) {
    result_.max_abs = std::max(result_.max_abs, d.apart);
    add_relative(d);
    if (exact_ || !is_close(d)) ++result_.differing;
  }

  void add_ulp(uint64_t steps) { result_.max_ulp = std::max(result_.max_ulp, steps); }

  ElementDifference finish(uint64_t elements) {
    result_.elements = elements;
    return result_;
  }

 private:
  void add_relative(const Distance& d) {
    // The product tells nearly always that there is no new maximum, without the division.
    if (d.apart == 0 || d.apart < result_.max_rel * d.reference) return;
    const double relative = d.apart / d.reference;
    result_.max_rel = std::max(result_.max_rel, std::isnan(relative) ? kInfinity : relative);
  }

  bool is_close(const Distance& d) const {
    if (d.apart == 0) return true;
    return std::isfinite(d.apart) && d.apart <= tolerance_.atol + tolerance_.rtol * d.reference;
  }

  Tolerance tolerance_;
  bool exact_;
  ElementDifference result_;
};

// Steps between two codes of a sign-magnitude type, both zeros being one.
template <typename E>
uint64_t ulp_distance(typename E::Bits a, typename E::Bits b) {
  if (E::is_nan(a) && E::is_nan(b)) return 0;
  if (E::is_nan(a) || E::is_nan(b)) return std::numeric_limits<uint64_t>::max();
  const uint64_t size_a = a & E::kMagnitude;
  const uint64_t size_b = b & E::kMagnitude;
  if ((a & E::kSign) != (b & E::kSign)) return size_a + size_b;
  return size_a > size_b ? size_a - size_b : size_b - size_a;
}

// Most elements of a changed tensor are often unchanged: equal bits are passed over first.
template <typename E>
void compare_same_type(const std::byte* a, const std::byte* b, size_t count, Comparison& comparison) {
  for (size_t i = 0; i < count; ++i) {
    const auto bits_a = load_bits<E>(a, i);
    const auto bits_b = load_bits<E>(b, i);
    if (bits_a == bits_b) continue;
    if constexpr (E::kKind == DTypeKind::kFloat) {
      comparison.add_differing(
          distance(static_cast<double>(E::decode(bits_a)), static_cast<double>(E::decode(bits_b))));
      comparison.add_ulp(ulp_distance<E>(bits_a, bits_b));
    } else if constexpr (E::kKind == DTypeKind::kSigned) {
      comparison.add_differing(distance(int64_t{E::decode(bits_a)}, int64_t{E::decode(bits_b)}));
    } else {
      comparison.add_differing(distance(uint64_t{E::decode(bits_a)}, uint64_t{E::decode(bits_b)}));
    }
  }
}

void unpack(DType dtype, ByteSpan in, size_t first, std::span<double> out) { to_doubles(dtype, in, first, out); }
void unpack(DType dtype, ByteSpan in, size_t first, std::span<int64_t> out) { to_integers(dtype, in, first, out); }
void unpack(DType dtype, ByteSpan in, size_t first, std::span<uint64_t> out) { to_integers(dtype, in, first, out); }

struct Operand {
  DType dtype;
  ByteSpan bytes;

  bool is_unsigned() const { return is_integer(dtype) && dtype_info(dtype).kind != DTypeKind::kSigned; }
};

// Calls visit(block of A, block of B) over all numbers.
template <typename NumberA, typename NumberB, typename Visit>
void for_each_block(const Operand& a, const Operand& b, size_t count, Visit&& visit) {
  std::array<NumberA, kCompareBlock> block_a;
  std::array<NumberB, kCompareBlock> block_b;
  for (size_t begin = 0; begin < count; begin += kCompareBlock) {
    const size_t size = std::min(kCompareBlock, count - begin);
    unpack(a.dtype, a.bytes, begin, std::span(block_a.data(), size));
    unpack(b.dtype, b.bytes, begin, std::span(block_b.data(), size));
    visit(block_a.data(), block_b.data(), size, begin);
  }
}

template <typename NumberA, typename NumberB>
void compare_values(const Operand& a, const Operand& b, size_t count, Comparison& comparison) {
  for_each_block<NumberA, NumberB>(a, b, count,
                                   [&](const NumberA* block_a, const NumberB* block_b, size_t size, size_t) {
                                     for (size_t i = 0; i < size; ++i) {
                                       const Distance d = distance(block_a[i], block_b[i]);
                                       if (d.apart != 0) comparison.add_differing(d);
                                     }
                                   });
}

void compare_complex(const Operand& a, const Operand& b, size_t count, Comparison& comparison) {
  const size_t element_size = dtype_info(a.dtype).bits / 8;
  const bool same_type = a.dtype == b.dtype;
  const auto visit = [&](const double* block_a, const double* block_b, size_t size, size_t begin) {
    for (size_t i = 0; i < size; i += 2) {
      const Distance d = distance(block_a + i, block_b + i);
      const size_t at = (begin + i) / 2 * element_size;
      const bool equal =
          same_type ? std::memcmp(a.bytes.data() + at, b.bytes.data() + at, element_size) == 0 : d.apart == 0;
      if (!equal) comparison.add_differing(d);
    }
  };
  for_each_block<double, double>(a, b, 2 * count, visit);
}

void compare_integers(const Operand& a, const Operand& b, size_t count, Comparison& comparison) {
  if (a.is_unsigned()) {
    if (b.is_unsigned()) compare_values<uint64_t, uint64_t>(a, b, count, comparison);
    else compare_values<uint64_t, int64_t>(a, b, count, comparison);
  } else {
    if (b.is_unsigned()) compare_values<int64_t, uint64_t>(a, b, count, comparison);
    else compare_values<int64_t, int64_t>(a, b, count, comparison);
  }
}

// Looks at the first `count` elements of both.
void compare_piece(const Operand& a, const Operand& b, size_t count, Comparison& comparison) {
  if (component_count(a.dtype) == 2) {
    compare_complex(a, b, count, comparison);
  } else if (a.dtype == b.dtype && !is_block(a.dtype)) {
    visit_element(a.dtype,
                  [&]<typename E>() { compare_same_type<E>(a.bytes.data(), b.bytes.data(), count, comparison); });
  } else if (is_integer(a.dtype) && is_integer(b.dtype)) {
    compare_integers(a, b, count, comparison);
  } else {
    compare_values<double, double>(a, b, count, comparison);
  }
}

}  // namespace

void ElementDifference::merge(const ElementDifference& other) {
  differing += other.differing;
  elements += other.elements;
  max_abs = std::max(max_abs, other.max_abs);
  max_rel = std::max(max_rel, other.max_rel);
  max_ulp = std::max(max_ulp, other.max_ulp);
}

bool are_comparable(DType a, DType b) {
  return is_arithmetic(a) && is_arithmetic(b) && component_count(a) == component_count(b);
}

ElementDifference compare_elements(DType dtype_a, ByteSpan a, DType dtype_b, ByteSpan b, const Tolerance& tolerance) {
  const uint64_t count = elements_in(dtype_a, a.size());
  Comparison comparison(tolerance);
  for (uint64_t begin = 0; begin < count; begin += kComparePiece) {
    const Operand piece_a{dtype_a, a.subspan(static_cast<size_t>(byte_of_element(dtype_a, begin)))};
    const Operand piece_b{dtype_b, b.subspan(static_cast<size_t>(byte_of_element(dtype_b, begin)))};
    compare_piece(piece_a, piece_b, static_cast<size_t>(std::min(kComparePiece, count - begin)), comparison);
  }
  return comparison.finish(count);
}

}  // namespace ballast
