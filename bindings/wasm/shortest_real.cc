// The digits are those that fmt finds, which the module has anyway. tests/wasm compares the texts with std::to_chars.
#include "bindings/wasm/shortest_real.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ballast::wasm {

namespace {

__extension__ using Wide = unsigned __int128;

// Digits of a whole number below 2^127: `fixed` is for no larger ones.
std::string whole_digits(double value) {
  std::string digits;
  for (auto left = static_cast<Wide>(value); left != 0; left /= 10) {
    digits += static_cast<char>('0' + static_cast<int>(left % 10));
  }
  std::ranges::reverse(digits);
  return digits;
}

std::string scientific(const std::string& digits, int exponent) {
  std::string text = digits.substr(0, 1);
  if (digits.size() > 1) text += '.' + digits.substr(1);
  const int magnitude = std::abs(exponent);
  text += exponent < 0 ? "e-" : "e+";
  if (magnitude < 10) text += '0';
  return text + std::to_string(magnitude);
}

// `point`: how many of the digits stand before the point; may be negative or beyond them.
std::string fixed(double value, const std::string& digits, int point) {
  const auto count = static_cast<int>(digits.size());
  if (point >= count) return whole_digits(value);  // also the digits that no reader needs
  if (point <= 0) return "0." + std::string(static_cast<size_t>(-point), '0') + digits;
  return digits.substr(0, static_cast<size_t>(point)) + '.' + digits.substr(static_cast<size_t>(point));
}

size_t fixed_size(int count, int point) {
  if (point >= count) return static_cast<size_t>(point);
  return static_cast<size_t>(point <= 0 ? 2 - point + count : count + 1);
}

// The shorter of both notations, fixed where they are as long as each other.
std::string positive_text(double value) {
  const auto decimal = fmt::detail::dragonbox::to_decimal(value);
  std::string digits = std::to_string(decimal.significand);
  const int point = static_cast<int>(digits.size()) + decimal.exponent;
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  const std::string text = scientific(digits, point - 1);
  const bool is_fixed = fixed_size(static_cast<int>(digits.size()), point) <= text.size();
  return is_fixed ? fixed(value, digits, point) : text;
}

}  // namespace

std::string shortest_real(double value) {
  if (value == 0) return std::signbit(value) ? "-0" : "0";
  return value < 0 ? "-" + positive_text(-value) : positive_text(value);
}

}  // namespace ballast::wasm
