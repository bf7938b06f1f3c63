#include "ballast/text/template/jinja_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/base/checked.h"
#include "ballast/base/utf8.h"
#include "ballast/text/template/jinja_format.h"
#include "ballast/text/template/jinja_strings.h"
#include "ballast/text/template/jinja_text_tools.h"

namespace ballast::jinja {

namespace {

std::string_view operator_sign(Operator op) {
  static constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kSigns[static_cast<size_t>(op)];
}

Error beyond_64_bits() { return type_error("a whole number beyond 64 bits"); }

Error wrong_operands(Operator op, const Value& a, const Value& b) {
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (op == Operator::kAdd && a.text() != nullptr) {
    return type_error(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
  }
  return type_error(
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", operator_sign(op), type_name(a), type_name(b)));
}

// ---------------------------------------------------------------- numbers

Result<Value> float_arithmetic(Operator op, double a, double b) {
  if (b == 0 && (op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo)) {
    return type_error("division by zero");
  }
  switch (op) {
    case Operator::kAdd: return Value(a + b);
    case Operator::kSubtract: return Value(a - b);
    case Operator::kMultiply: return Value(a * b);
    case Operator::kDivide: return Value(a / b);
    case Operator::kFloorDivide: return Value(std::floor(a / b));
    case Operator::kModulo: {
      const double rest = std::fmod(a, b);
      return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    }
    default: return Value(std::pow(a, b));
  }
}

Result<Value> int_power(int64_t a, int64_t b) {
  if (b < 0) return float_arithmetic(Operator::kPower, static_cast<double>(a), static_cast<double>(b));
  int64_t result = 1;
  // Anything but -1, 0 and 1 leaves 64 bits before 64 rounds; for those every second round is the same.
  if (b > 64 && (a == 0 || a == 1 || a == -1)) b = 2 + b % 2;
  for (; b > 0; --b) {
    if (__builtin_mul_overflow(result, a, &result)) return beyond_64_bits();
  }
  return Value(result);
}

Result<Value> int_division(Operator op, int64_t a, int64_t b) {
  if (b == 0) return type_error("integer division or modulo by zero");
  if (b == -1) {  // the one quotient that may not fit
    if (op == Operator::kModulo) return Value(int64_t{0});
    int64_t result = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) return beyond_64_bits();
    return Value(result);
  }
  const int64_t rest = a % b;
  const bool below = rest != 0 && (rest < 0) != (b < 0);
  if (op == Operator::kModulo) return Value(below ? rest + b : rest);
  return Value(a / b - (below ? 1 : 0));
}

Result<Value> int_arithmetic(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd: overflow = __builtin_add_overflow(a, b, &result); break;
    case Operator::kSubtract: overflow = __builtin_sub_overflow(a, b, &result); break;
    case Operator::kMultiply: overflow = __builtin_mul_overflow(a, b, &result); break;
    case Operator::kFloorDivide:
    case Operator::kModulo: return int_division(op, a, b);
    case Operator::kPower: return int_power(a, b);
    default: return float_arithmetic(op, static_cast<double>(a), static_cast<double>(b));
  }
  if (overflow) return beyond_64_bits();
  return Value(result);
}

// ---------------------------------------------------------------- texts and sequences

Result<Value> add_texts(Meter& meter, const Value& a, const Value& b) {
  const bool markup = a.is_markup() || b.is_markup();
  BALLAST_CHECK(meter.check_room((a.text()->size() + b.text()->size()) * (markup ? kLongestEscape : 1)));
  Text joined = markup && !a.is_markup() ? escaped_html(*a.text()) : *a.text();
  joined.append(markup && !b.is_markup() ? escaped_html(*b.text()) : *b.text());
  return make_text(meter, std::move(joined), markup);
}

Result<Value> add_values(Meter& meter, const Value& a, const Value& b) {
  if (a.text() != nullptr && b.text() != nullptr) return add_texts(meter, a, b);
  const Sequence* left = a.sequence();
  const Sequence* right = b.sequence();
  if (left == nullptr || right == nullptr || left->kind != right->kind) return wrong_operands(Operator::kAdd, a, b);
  BALLAST_CHECK(meter.check_room((left->items.size() + right->items.size()) * sizeof(Value)));
  std::vector<Value> items = left->items;
  items.insert(items.end(), right->items.begin(), right->items.end());
  return make_sequence(meter, std::move(items), left->kind);
}

Result<Value> repeat_value(Meter& meter, const Value& value, int64_t times) {
  const uint64_t count = times > 0 ? static_cast<uint64_t>(times) : 0;
  const Text* text = value.text();
  const uint64_t size = text != nullptr ? text->size() : value.sequence()->items.size() * sizeof(Value);
  BALLAST_CHECK(meter.check_room(checked_mul(size, count).value_or(UINT64_MAX)));
  if (text != nullptr) return make_text(meter, text->repeated(size > 0 ? count : 0));
  std::vector<Value> items;
  const Sequence& sequence = *value.sequence();
  for (uint64_t i = 0; size > 0 && i < count; ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  const bool group = sequence.kind == Sequence::Kind::kGroup;
  return make_sequence(meter, std::move(items), group ? Sequence::Kind::kTuple : sequence.kind);
}

bool can_repeat(const Value& value) { return value.text() != nullptr || value.sequence() != nullptr; }

}  // namespace

Result<Value> compute(Meter& meter, Operator op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.is_float() || b.is_float() ? float_arithmetic(op, a.as_double(), b.as_double())
                                        : int_arithmetic(op, a.as_int(), b.as_int());
  }
  if (op == Operator::kAdd) return add_values(meter, a, b);
  if (op == Operator::kMultiply && can_repeat(a) && (b.is_int() || b.is_bool())) {
    return repeat_value(meter, a, b.as_int());
  }
  if (op == Operator::kMultiply && can_repeat(b) && (a.is_int() || a.is_bool())) {
    return repeat_value(meter, b, a.as_int());
  }
  if (op == Operator::kModulo && a.text() != nullptr) return format_percent(meter, *a.text(), b);
  return wrong_operands(op, a, b);
}

Result<Value> negative(const Value& value) {
  if (value.is_float()) return Value(-value.as_double());
  if (value.is_number()) return int_arithmetic(Operator::kSubtract, 0, value.as_int());
  if (value.is_undefined()) return undefined_error(value);
  return type_error(fmt::format("bad operand type for unary -: '{}'", type_name(value)));
}

// ---------------------------------------------------------------- comparing

Result<bool> contains(Meter& meter, const Value& value, const Value& needle) {
  if (value.is_undefined()) return false;
  if (const Text* text = value.text()) {
    if (needle.is_undefined()) return undefined_error(needle);
    if (needle.text() == nullptr) {
      return type_error(fmt::format("'in <string>' requires string as left operand, not {}", type_name(needle)));
    }
    BALLAST_CHECK(meter.step(text->size() / 256));
    return find_text(text->bytes(), needle.text()->bytes()) != std::string::npos;
  }
  if (const Mapping* mapping = value.mapping()) {
    for (const auto& [key, unused] : mapping->entries) {
      BALLAST_TRY(const bool same, equal(meter, key, needle));
      if (same) return true;
    }
    return false;
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) {
    return type_error(fmt::format("argument of type '{}' is not iterable", type_name(value)));
  }
  for (const Value& item : sequence->items) {
    BALLAST_TRY(const bool same, equal(meter, item, needle));
    if (same) return true;
  }
  return false;
}

Result<bool> compare(Meter& meter, Operator op, const Value& a, const Value& b) {
  const auto negated = [](Result<bool> result) { return result ? Result<bool>(!*result) : result; };
  const auto less_or_equal = [&](const Value& x, const Value& y) -> Result<bool> {
    BALLAST_TRY(const bool before, less(meter, x, y));
    return before ? Result<bool>(true) : equal(meter, x, y);
  };
  switch (op) {
    case Operator::kEqual: return equal(meter, a, b);
    case Operator::kNotEqual: return negated(equal(meter, a, b));
    case Operator::kLess: return less(meter, a, b);
    case Operator::kLessEqual: return less_or_equal(a, b);
    case Operator::kGreater: return less(meter, b, a);
    case Operator::kGreaterEqual: return less_or_equal(b, a);
    case Operator::kIn: return contains(meter, b, a);
    default: return negated(contains(meter, b, a));
  }
}

// ---------------------------------------------------------------- parts

namespace {

struct SliceRange {
  int64_t first;
  int64_t step;
  uint64_t count;
};

// As Python's slice.indices().
SliceRange slice_range(int64_t length, const Value& first, const Value& last, int64_t step) {
  const int64_t lowest = step < 0 ? -1 : 0;
  const int64_t highest = step < 0 ? length - 1 : length;
  const auto bound = [&](const Value& value, int64_t standard) {
    if (value.is_none()) return standard;
    const int64_t given = value.as_int();
    return std::clamp(given < 0 && given >= -length ? given + length : given < 0 ? lowest : given, lowest, highest);
  };
  const int64_t from = bound(first, step < 0 ? highest : lowest);
  const int64_t to = bound(last, step < 0 ? lowest : highest);
  uint64_t count = 0;
  if (step > 0 && from < to) count = static_cast<uint64_t>((to - from - 1) / step + 1);
  // One more than the quotient; the least step has no opposite.
  if (step < 0 && from > to) count = static_cast<uint64_t>(1 - (from - to - 1) / step);
  return {from, step, count};
}

Result<Text> slice_text(Meter& meter, const Text& text, const SliceRange& range) {
  const std::string& bytes = text.bytes();
  if (range.count == 0) return Text();
  if (range.step == 1) {
    const size_t begin = byte_of_character(bytes, static_cast<size_t>(range.first));
    const size_t length = byte_of_character(std::string_view(bytes).substr(begin), range.count);
    return text.slice(begin, begin + length);
  }
  std::vector<size_t> starts;  // of characters
  BALLAST_CHECK(meter.check_room(bytes.size() * sizeof(starts[0])));
  for (size_t at = 0; at < bytes.size(); at += std::max<size_t>(1, utf8_sequence_length(bytes, at)))
    starts.push_back(at);
  starts.push_back(bytes.size());
  Text out;
  for (uint64_t i = 0; i < range.count; ++i) {
    const auto index = static_cast<size_t>(range.first + static_cast<int64_t>(i) * range.step);
    out.append(text, starts[index], starts[index + 1]);
  }
  return out;
}

}  // namespace

Result<Value> slice(Meter& meter, const Value& value, const Value& first, const Value& last, const Value& step) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.text() == nullptr && value.sequence() == nullptr) {
    return make_undefined(fmt::format("a value of type '{}' cannot be sliced", type_name(value)));
  }
  for (const Value* bound : {&first, &last, &step}) {
    if (bound->is_undefined()) return undefined_error(*bound);
    if (!bound->is_none() && !bound->is_int() && !bound->is_bool()) {
      return type_error("slice indices must be integers or None");
    }
  }
  const int64_t stride = step.is_none() ? 1 : step.as_int();
  if (stride == 0) return type_error("slice step cannot be zero");
  if (const Text* text = value.text()) {
    BALLAST_CHECK(meter.step(text->size() / (stride == 1 ? 4 * kBytesPerStep : kBytesPerStep)));
    BALLAST_TRY(const int64_t length, length_of(value));
    BALLAST_TRY(Text part, slice_text(meter, *text, slice_range(length, first, last, stride)));
    return make_text(meter, std::move(part));
  }
  const Sequence& sequence = *value.sequence();
  const SliceRange range = slice_range(static_cast<int64_t>(sequence.items.size()), first, last, stride);
  BALLAST_CHECK(meter.check_room(range.count * sizeof(Value)));
  std::vector<Value> items;
  for (uint64_t i = 0; i < range.count; ++i) {
    items.push_back(sequence.items[static_cast<size_t>(range.first + static_cast<int64_t>(i) * range.step)]);
  }
  return make_sequence(meter, std::move(items), sequence.kind);
}

Result<std::optional<Value>> element(Meter& meter, const Value& value, int64_t index) {
  const Sequence* sequence = value.sequence();
  if (sequence != nullptr && sequence->kind == Sequence::Kind::kGenerator) return std::optional<Value>();
  BALLAST_TRY(const int64_t length, length_of(value));
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::optional<Value>();
  if (sequence != nullptr) return std::optional(sequence->items[static_cast<size_t>(index)]);
  const Text& text = *value.text();
  BALLAST_CHECK(meter.step(text.size() / 64));
  const size_t begin = byte_of_character(text.bytes(), static_cast<size_t>(index));
  const size_t length_bytes = std::max<size_t>(1, utf8_sequence_length(text.bytes(), begin));
  BALLAST_TRY(Value character, make_text(meter, text.slice(begin, begin + length_bytes)));
  return std::optional(std::move(character));
}

}  // namespace ballast::jinja
