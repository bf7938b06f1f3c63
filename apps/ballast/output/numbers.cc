#include "apps/ballast/output/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "ballast/tensor/element.h"

namespace ballast::cli {

namespace {

// "d.ddde-07" taken apart.
void take_scientific(std::string_view text, Number& number) {
  const size_t mark = text.find('e');
  number.digits.clear();
  for (const char c : text.substr(0, mark)) {
    if (c >= '0' && c <= '9') number.digits += c;
  }
  while (number.digits.size() > 1 && number.digits.back() == '0') number.digits.pop_back();
  number.exponent = std::atoi(text.data() + mark + 1);
  if (number.digits == "0") number.exponent = 0;
}

template <typename E>
void take_shortest(typename E::Bits bits, Number& number) {
  char buffer[64];
  const auto magnitude = std::abs(E::decode(bits));
  if constexpr (std::is_same_v<E, NativeFloatElement<float>> || std::is_same_v<E, NativeFloatElement<double>>) {
    *std::to_chars(buffer, buffer + sizeof buffer, magnitude, std::chars_format::scientific).ptr = '\0';
    take_scientific(buffer, number);
  } else {
    // Types of 16 bits and less: one more digit until reading it back gives the same code.
    const auto code = E::encode(magnitude);
    for (int digits = 0; digits < 9; ++digits) {
      *fmt::format_to(buffer, "{:.{}e}", magnitude, digits) = '\0';
      if (E::encode(std::strtod(buffer, nullptr)) == code) break;
    }
    take_scientific(buffer, number);
  }
}

template <typename E>
Number read_number(typename E::Bits bits) {
  Number number;
  if constexpr (E::kKind == DTypeKind::kFloat) {
    const auto value = E::decode(bits);
    number.negative = std::signbit(value);
    if (std::isnan(value)) {
      number.kind = Number::Kind::kNan;
      number.negative = false;
    } else if (std::isinf(value)) {
      number.kind = Number::Kind::kInfinity;
    } else {
      take_shortest<E>(bits, number);
    }
  } else if constexpr (E::kKind == DTypeKind::kBool) {
    number.kind = Number::Kind::kBool;
    number.digits = E::decode(bits) ? "1" : "0";
  } else {
    number.kind = Number::Kind::kInteger;
    number.digits = std::to_string(E::decode(bits));
    number.negative = number.digits.front() == '-';
    if (number.negative) number.digits.erase(0, 1);
  }
  return number;
}

// The first `keep` digits, rounded; one more digit in front when 9.99 becomes 10.0, which is told.
bool round_digits(std::string& digits, size_t keep) {
  if (keep >= digits.size()) return false;
  bool carry = digits[keep] >= '5';
  digits.resize(keep);
  for (size_t i = keep; carry && i-- > 0;) {
    carry = digits[i] == '9';
    digits[i] = carry ? '0' : static_cast<char>(digits[i] + 1);
  }
  if (carry) digits.insert(digits.begin(), '1');
  return carry;
}

void drop_zeros(std::string& fraction) {
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
}

}  // namespace

void for_each_number(DType dtype, ByteSpan in, size_t count, const std::function<void(const Number&)>& visit) {
  visit_element(dtype, [&]<typename E>() {
    for (size_t i = 0; i < count; ++i) visit(read_number<E>(load_bits<E>(in.data(), i)));
  });
}

std::string plain_text(const Number& number) {
  const std::string sign = number.negative ? "-" : "";
  switch (number.kind) {
    case Number::Kind::kNan: return "nan";
    case Number::Kind::kInfinity: return sign + "inf";
    case Number::Kind::kInteger: return sign + number.digits;
    case Number::Kind::kBool: return number.is_zero() ? "false" : "true";
    case Number::Kind::kReal: break;
  }
  const std::string& digits = number.digits;
  const int exponent = number.exponent;
  if (exponent < -5 || exponent > 15) {
    const std::string rest = digits.size() > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], rest, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0');
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

NumberFormat::Parts NumberFormat::fixed_parts(const Number& number) const {
  std::string digits = number.digits;
  int exponent = number.exponent;
  if (exponent < 0) {  // as many zeros in front as make it 0.00ddd
    digits.insert(0, static_cast<size_t>(-exponent), '0');
    exponent = 0;
  }
  size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  if (round_digits(digits, whole + precision_)) ++whole;
  Parts parts{(number.negative ? "-" : "") + digits.substr(0, whole), digits.substr(whole), ""};
  drop_zeros(parts.fraction);
  return parts;
}

NumberFormat::Parts NumberFormat::exponential_parts(const Number& number) const {
  std::string digits = number.digits;
  int exponent = number.exponent;
  if (round_digits(digits, precision_ + 1)) ++exponent;
  Parts parts{(number.negative ? "-" : "") + digits.substr(0, 1), digits.substr(1),
              fmt::format("{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent))};
  parts.fraction.resize(std::min(parts.fraction.size(), precision_));
  drop_zeros(parts.fraction);
  return parts;
}

NumberFormat::Parts NumberFormat::parts(const Number& number) const {
  return exponential_ ? exponential_parts(number) : fixed_parts(number);
}

std::string NumberFormat::special_text(const Number& number) const {
  switch (number.kind) {
    case Number::Kind::kNan: return "nan";
    case Number::Kind::kInfinity: return number.negative ? "-inf" : "inf";
    case Number::Kind::kBool: return number.is_zero() ? "False" : "True";
    default: return (number.negative ? "-" : "") + number.digits;
  }
}

void NumberFormat::observe(const Number& number) {
  if (number.kind != Number::Kind::kReal) {
    widest_special_ = std::max(widest_special_, special_text(number).size());
    return;
  }
  any_real_ = true;
  const auto widen = [](Extent& extent, const Parts& parts) {
    extent.whole = std::max(extent.whole, parts.whole.size());
    extent.fraction = std::max(extent.fraction, parts.fraction.size());
    extent.exponent = std::max(extent.exponent, parts.exponent.size());
  };
  // Numbers as large as that are never written in full.
  if (number.exponent < 20) widen(fixed_, fixed_parts(number));
  widen(scientific_, exponential_parts(number));
  if (number.is_zero()) return;
  const double magnitude =
      std::pow(10.0, number.exponent) * (number.digits[0] - '0' + std::atof(("0." + number.digits.substr(1)).c_str()));
  largest_ = any_nonzero_ ? std::max(largest_, magnitude) : magnitude;
  smallest_ = any_nonzero_ ? std::min(smallest_, magnitude) : magnitude;
  any_nonzero_ = true;
}

// NumPy's rule for when numbers are too large, too small or too unlike for one fixed notation.
void NumberFormat::settle() {
  exponential_ = any_nonzero_ && (largest_ >= 1e8 || smallest_ < 1e-4 || largest_ / smallest_ > 1000);
  const Extent& extent = exponential_ ? scientific_ : fixed_;
  if (any_real_) width_ = extent.whole + 1 + extent.fraction + (exponential_ ? extent.exponent + 1 : 0);
  width_ = std::max(width_, widest_special_);
}

std::string NumberFormat::text(const Number& number) const {
  if (number.kind != Number::Kind::kReal) return fmt::format("{:>{}}", special_text(number), width_);
  Parts now = parts(number);
  const Extent& extent = exponential_ ? scientific_ : fixed_;
  std::string text = now.whole + '.';
  if (exponential_) {
    now.fraction.resize(extent.fraction, '0');
    text += now.fraction + 'e' + now.exponent;
  } else {
    now.fraction.resize(extent.fraction, ' ');
    text += now.fraction;
  }
  return fmt::format("{:>{}}", text, width_);
}

std::string NumberFormat::signed_text(const Number& number) const {
  std::string magnitude = text(number);
  const size_t begin = magnitude.find_first_not_of(' ');
  magnitude.erase(0, begin);
  while (magnitude.ends_with(' ')) magnitude.pop_back();
  return number.negative ? magnitude : "+" + magnitude;
}

}  // namespace ballast::cli
