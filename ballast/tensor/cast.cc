#include "ballast/tensor/cast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ballast/tensor/element.h"
#include "ballast/tensor/elements.h"

namespace ballast {

namespace {

constexpr size_t kCastBlock = 1024;  // numbers converted at a time, in the widest type of their kind

// A double that lies on the same side of every number of at most 51 bits as `value` does: what is cut off leaves its
// trace in the last bit (rounding to odd). Rounding it once more is then as good as rounding `value` itself.
double to_sticky_double(uint64_t value) {
  const int excess = std::bit_width(value) - std::numeric_limits<double>::digits;
  if (excess <= 0) return static_cast<double>(value);
  const uint64_t kept = value >> excess;
  const bool inexact = (kept << excess) != value;
  return std::ldexp(static_cast<double>(kept | (inexact ? 1U : 0U)), excess);
}

double to_sticky_double(int64_t value) {
  const auto magnitude = static_cast<uint64_t>(value);
  return value < 0 ? -to_sticky_double(uint64_t{0} - magnitude) : to_sticky_double(magnitude);
}

double to_sticky_double(double value) { return value; }

// How far `rounded` is from the value it stands for. Of integers the halves are exact, and so is their sum.
template <std::integral Number>
double rounding_error(Number value, double rounded) {
  const auto low = static_cast<double>(static_cast<uint64_t>(value) & 0xFFFFFFFFU);
  const double high = std::ldexp(static_cast<double>(value >> 32), 32);
  return std::isnan(rounded) ? std::numeric_limits<double>::infinity() : std::abs((high - rounded) + low);
}

double rounding_error(double value, double rounded) { return distance_between(value, rounded); }

// The bits of `value` in the target type and how far they are from it; nullopt where it cannot be held.
template <typename Bits>
struct Rounded {
  Bits bits;
  double error;
};

template <typename E, typename Number>
std::optional<Rounded<typename E::Bits>> to_float(Number value) {
  if constexpr (!E::kHasNan && std::is_same_v<Number, double>) {
    if (std::isnan(value)) return std::nullopt;
  }
  // Straight to the widest type; through a sticky double to the others.
  const auto bits = E::kBits == 64 ? E::encode(static_cast<double>(value)) : E::encode(to_sticky_double(value));
  return Rounded<typename E::Bits>{bits, rounding_error(value, static_cast<double>(E::decode(bits)))};
}

template <typename E, typename Number>
std::optional<Rounded<typename E::Bits>> to_integer(Number value) {
  constexpr bool kIsBool = E::kKind == DTypeKind::kBool;
  using Target = std::conditional_t<kIsBool, uint8_t, typename E::Value>;
  Target target = 0;
  double error = 0;
  if constexpr (std::is_same_v<Number, double>) {
    const double whole = std::trunc(value);
    constexpr auto kLowest = static_cast<double>(std::numeric_limits<Target>::min());
    const double limit = std::ldexp(1.0, std::numeric_limits<Target>::digits);
    if (!(whole >= kLowest && whole < limit)) return std::nullopt;
    if (kIsBool && whole != value) return std::nullopt;
    target = static_cast<Target>(whole);
    error = std::abs(value - whole);
  } else {
    if (!std::in_range<Target>(value)) return std::nullopt;
    target = static_cast<Target>(value);
  }
  if (kIsBool && target > 1) return std::nullopt;
  return Rounded<typename E::Bits>{static_cast<typename E::Bits>(target), error};
}

template <typename Number>
struct CastJob {
  DType from;
  ByteSpan in;
  DType to;
  MutableByteSpan out;
  size_t count;
  uint64_t first_index;
  CastReport report;

  Error cannot_hold(size_t index, Number value) const {
    const uint64_t element = first_index + index / component_count(from);
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("element {} is {}, which {} cannot hold", element, value, dtype_name(to)));
  }

  template <typename E>
  Status store_block(size_t begin, std::span<const Number> numbers) {
    // Not the report's, which the compiler must assume to change with every byte stored.
    double worst = 0;
    uint64_t overflowed = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::optional<Rounded<typename E::Bits>> rounded;
      if constexpr (E::kKind == DTypeKind::kFloat) rounded = to_float<E>(numbers[i]);
      else rounded = to_integer<E>(numbers[i]);
      if (!rounded) return cannot_hold(begin + i, numbers[i]);
      store_bits<E>(out.data(), begin + i, rounded->bits);
      worst = std::max(worst, rounded->error);
      overflowed += std::isinf(rounded->error) ? 1 : 0;
    }
    report.overflowed += overflowed;
    report.max_abs_error = std::max(report.max_abs_error, worst);
    return {};
  }

  Result<CastReport> run() {
    std::array<Number, kCastBlock> numbers;
    for (size_t begin = 0; begin < count; begin += kCastBlock) {
      const std::span<Number> block(numbers.data(), std::min(kCastBlock, count - begin));
      if constexpr (std::is_same_v<Number, double>) to_doubles(from, in, begin, block);
      else to_integers(from, in, begin, block);
      Status stored;
      visit_element(to, [&]<typename E>() { stored = store_block<E>(begin, block); });
      BALLAST_CHECK(std::move(stored));
    }
    report.exact = report.max_abs_error == 0;
    return report;
  }
};

template <typename Number>
Result<CastReport> cast_numbers(DType from, ByteSpan in, DType to, MutableByteSpan out, size_t count, uint64_t first) {
  return CastJob<Number>{from, in, to, out, count, first, {}}.run();
}

}  // namespace

void CastReport::merge(const CastReport& other) {
  exact = exact && other.exact;
  max_abs_error = std::max(max_abs_error, other.max_abs_error);
  overflowed += other.overflowed;
}

bool can_cast(DType from, DType to) {
  return is_arithmetic(from) && is_arithmetic(to) && !is_block(to) && component_count(from) == component_count(to);
}

Status check_cast(DType from, DType to) {
  if (can_cast(from, to)) return {};
  const bool carried = is_block(from) && !is_arithmetic(from);
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("values of dtype {} cannot become {}{}", dtype_name(from), dtype_name(to),
                                carried ? ": the type can be carried, not computed" : ""));
}

Result<CastReport> cast_elements(DType from, ByteSpan in, DType to, MutableByteSpan out, uint64_t first_index) {
  BALLAST_CHECK(check_cast(from, to));
  const uint64_t count = elements_in(from, in.size());
  const bool whole =
      is_block(from) ? in.size() % dtype_info(from).block_bytes == 0 : count * dtype_info(from).bits == in.size() * 8;
  if (!whole || count * dtype_info(to).bits != out.size() * 8) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} bytes of {} do not become {} bytes of {}", in.size(),
                                                               dtype_name(from), out.size(), dtype_name(to)));
  }
  if (from == to) {
    std::ranges::copy(in, out.begin());
    return CastReport{};
  }
  const size_t numbers = static_cast<size_t>(count) * component_count(from);
  switch (dtype_info(from).kind) {
    case DTypeKind::kSigned: return cast_numbers<int64_t>(from, in, to, out, numbers, first_index);
    case DTypeKind::kUnsigned:
    case DTypeKind::kBool: return cast_numbers<uint64_t>(from, in, to, out, numbers, first_index);
    default: return cast_numbers<double>(from, in, to, out, numbers, first_index);
  }
}

}  // namespace ballast
