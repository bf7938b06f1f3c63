#include "ballast/text/template/jinja_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ballast/text/template/jinja_print.h"
#include "ballast/text/template/jinja_text_tools.h"

namespace ballast::jinja {

namespace {

constexpr int kMostPrecision = 1000;

struct FormatSpec {
  char fill = ' ';
  char align = 0;  // '<', '>', '^', or '=': behind the sign; 0: as the type has it
  char sign = '-';
  bool alternate = false;
  bool grouped = false;
  int64_t width = 0;
  std::optional<int> precision;
  char type = 0;
};

Error bad_format(std::string_view what) { return type_error(fmt::format("cannot format: {}", what)); }

// A whole number at the front of `rest`, which loses it.
Result<int64_t> take_number(std::string_view& rest) {
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (failure == std::errc::result_out_of_range) return bad_format("a width beyond 64 bits");
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return number;
}

bool starts_with_digit(std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

Status take_width_and_precision(std::string_view& rest, FormatSpec& spec) {
  if (starts_with_digit(rest)) BALLAST_CHECK(assign(spec.width, take_number(rest)));
  if (rest.starts_with(',')) {
    spec.grouped = true;
    rest.remove_prefix(1);
  }
  if (!rest.starts_with('.')) return {};
  rest.remove_prefix(1);
  int64_t precision = 0;
  if (starts_with_digit(rest)) BALLAST_CHECK(assign(precision, take_number(rest)));
  if (precision > kMostPrecision) return bad_format(fmt::format("more than {} digits", kMostPrecision));
  spec.precision = static_cast<int>(precision);
  return {};
}

// [[fill]align][sign][#][0][width][,][.precision][type]
Result<FormatSpec> parse_spec(std::string_view text) {
  constexpr std::string_view kAligns = "<>^=";
  FormatSpec spec;
  std::string_view rest = text;
  if (rest.size() > 1 && kAligns.find(rest[1]) != std::string_view::npos) {
    spec.fill = rest[0];
    spec.align = rest[1];
    rest.remove_prefix(2);
  } else if (!rest.empty() && kAligns.find(rest[0]) != std::string_view::npos) {
    spec.align = rest[0];
    rest.remove_prefix(1);
  }
  if (!rest.empty() && std::string_view("+- ").find(rest[0]) != std::string_view::npos) {
    spec.sign = rest[0];
    rest.remove_prefix(1);
  }
  if (rest.starts_with('#')) {
    spec.alternate = true;
    rest.remove_prefix(1);
  }
  if (rest.starts_with('0') && spec.align == 0) {
    spec.fill = '0';
    spec.align = '=';
  }
  BALLAST_CHECK(take_width_and_precision(rest, spec));
  if (rest.size() > 1) return bad_format(fmt::format("'{}' is no format", text));
  if (!rest.empty()) spec.type = rest[0];
  return spec;
}

// ---------------------------------------------------------------- numbers

std::string upper_ascii(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

std::string with_commas(const std::string& digits) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out + digits.substr(whole);
}

// Of |value|.
Result<std::string> real_digits(double value, const FormatSpec& spec) {
  const bool upper = spec.type >= 'A' && spec.type <= 'Z';
  const char type = upper ? static_cast<char>(spec.type - 'A' + 'a') : spec.type;
  value = std::fabs(type == '%' ? value * 100 : value);
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
  } else if (type == 0 && !spec.precision) {
    digits = float_text(value);
  } else {
    std::chars_format form = std::chars_format::fixed;
    if (type == 'e') form = std::chars_format::scientific;
    else if (type == 'g') form = std::chars_format::general;
    else if (type != 'f' && type != '%') return bad_format("this type of a float");
    digits.resize(400 + kMostPrecision);
    const auto [end, failure] =
        std::to_chars(digits.data(), digits.data() + digits.size(), value, form, spec.precision.value_or(6));
    if (failure != std::errc()) return bad_format("a float that is too long");
    digits.resize(static_cast<size_t>(end - digits.data()));
  }
  if (type == '%') digits += '%';
  return upper ? upper_ascii(std::move(digits)) : digits;
}

// Of |value|.
Result<std::string> whole_digits(int64_t value, const FormatSpec& spec) {
  const uint64_t size = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string digits;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n': digits = fmt::format("{}", size); break;
    case 'x':
    case 'X': digits = fmt::format("{:x}", size); break;
    case 'o': digits = fmt::format("{:o}", size); break;
    case 'b': digits = fmt::format("{:b}", size); break;
    default: return bad_format(fmt::format("'{}' is no type of a whole number", spec.type));
  }
  if (spec.precision)
    digits.insert(0, std::max<size_t>(digits.size(), static_cast<size_t>(*spec.precision)) - digits.size(), '0');
  if (spec.alternate && std::string_view("xXob").find(spec.type) != std::string_view::npos) {
    digits.insert(0, {'0', spec.type});
  }
  return spec.type == 'X' ? upper_ascii(std::move(digits)) : digits;
}

bool is_real_type(char type) { return type != 0 && std::string_view("eEfFgG%").find(type) != std::string_view::npos; }

Result<Text> aligned(Meter& meter, const Text& text, const FormatSpec& spec, char align) {
  if (align != '^') {
    return padded(meter, text, spec.width, align == '<' ? TextPlace::kLeft : TextPlace::kRight, spec.fill);
  }
  // Unlike str.center, the middle is always to the left where it can be.
  const auto length = static_cast<int64_t>(count_characters(text.bytes()));
  const int64_t half = length + std::max<int64_t>(0, spec.width - length) / 2;
  BALLAST_TRY(const Text moved, padded(meter, text, half, TextPlace::kRight, spec.fill));
  return padded(meter, moved, spec.width, TextPlace::kLeft, spec.fill);
}

Status append_number(Meter& meter, Text& out, const Value& value, const FormatSpec& spec) {
  const bool real = value.is_float() || is_real_type(spec.type);
  const bool negative = real ? std::signbit(value.as_double()) : value.as_int() < 0;
  BALLAST_TRY(std::string digits, real ? real_digits(value.as_double(), spec) : whole_digits(value.as_int(), spec));
  if (spec.grouped) digits = with_commas(digits);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align == '=') {
    const auto behind = spec.width - static_cast<int64_t>(sign.size());
    BALLAST_TRY(const Text number, padded(meter, Text(std::move(digits)), behind, TextPlace::kRight, spec.fill));
    out.append(sign);
    out.append(number);
    return {};
  }
  BALLAST_TRY(const Text number, aligned(meter, Text(sign + digits), spec, spec.align == 0 ? '>' : spec.align));
  out.append(number);
  return {};
}

// `standard`: how a text stands where the format does not say.
Status append_string(Meter& meter, Text& out, const Text& text, const FormatSpec& spec, char standard) {
  const size_t end =
      spec.precision ? byte_of_character(text.bytes(), static_cast<size_t>(*spec.precision)) : text.size();
  const char align = spec.align == 0 || spec.align == '=' ? standard : spec.align;
  BALLAST_TRY(const Text made, aligned(meter, text.slice(0, end), spec, align));
  out.append(made);
  return {};
}

// ---------------------------------------------------------------- %

class PercentFormatter {
 public:
  PercentFormatter(Meter& meter, const Text& text, const Value& value) : meter_(meter), text_(text), value_(value) {
    const Sequence* sequence = value.sequence();
    if (sequence != nullptr && sequence->is_tuple()) given_ = sequence->items;
    else given_ = {&value_, 1};
  }

  Result<Value> run() {
    const std::string& bytes = text_.bytes();
    BALLAST_CHECK(meter_.step(bytes.size() / kBytesPerStep));
    for (size_t at = 0; at < bytes.size();) {
      const size_t place = std::min(bytes.find('%', at), bytes.size());
      out_.append(text_, at, place);
      if (place == bytes.size()) break;
      std::string_view rest = std::string_view(bytes).substr(place + 1);
      BALLAST_CHECK(field(rest));
      at = bytes.size() - rest.size();
      BALLAST_CHECK(meter_.check_room(out_.size()));
    }
    if (next_ < given_.size() && value_.mapping() == nullptr) {
      return type_error("not all arguments converted during string formatting");
    }
    return make_text(meter_, std::move(out_));
  }

 private:
  // %[(name)][flags][width][.precision]type
  Status field(std::string_view& rest) {
    BALLAST_CHECK(meter_.step());
    std::string_view name;
    if (rest.starts_with('(')) {
      const size_t end = std::min(rest.find(')'), rest.size());
      name = rest.substr(1, end - 1);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    FormatSpec spec;
    spec.align = '>';
    bool left = false;
    for (; !rest.empty() && std::string_view("-+ 0#").find(rest[0]) != std::string_view::npos; rest.remove_prefix(1)) {
      if (rest[0] == '-') left = true;
      else if (rest[0] == '0') spec.fill = '0', spec.align = '=';
      else if (rest[0] == '#') spec.alternate = true;
      else if (spec.sign != '+') spec.sign = rest[0];
    }
    if (left) spec.fill = ' ', spec.align = '<';
    BALLAST_CHECK(take_width_and_precision(rest, spec));
    if (rest.empty()) return type_error("incomplete format");
    spec.type = rest[0];
    rest.remove_prefix(1);
    if (spec.type == '%') {
      out_.append("%");
      return {};
    }
    BALLAST_TRY(const Value value, argument(name));
    return append(value, spec);
  }

  Result<Value> argument(std::string_view name) {
    if (name.data() == nullptr) {
      if (next_ < given_.size()) return given_[next_++];
      return type_error("not enough arguments for format string");
    }
    const Mapping* mapping = value_.mapping();
    if (mapping == nullptr) return type_error("format requires a mapping");
    BALLAST_TRY(const Value* found, mapping->find(meter_, name));
    return found != nullptr ? Result<Value>(*found) : type_error(fmt::format("there is no '{}' to format", name));
  }

  Status append(const Value& value, FormatSpec spec) {
    if (spec.type == 's' || spec.type == 'r') {
      Text text;
      BALLAST_CHECK(spec.type == 'r' ? append_repr(meter_, text, value) : append_printed(meter_, text, value));
      if (spec.fill == '0') spec.fill = ' ';
      return append_string(meter_, out_, text, spec, '>');
    }
    if (value.is_undefined()) return undefined_error(value);
    if (!value.is_number()) {
      return type_error(fmt::format("%{} format: a real number is required, not {}", spec.type, type_name(value)));
    }
    if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
    if (spec.type != 'd' || !value.is_float()) {
      if (spec.type == 'd' || is_real_type(spec.type) || !value.is_float())
        return append_number(meter_, out_, value, spec);
      return type_error(fmt::format("%{} format: an integer is required, not float", spec.type));
    }
    const double whole = std::trunc(value.as_double());
    if (!(std::fabs(whole) < 9.2e18)) return type_error("a whole number beyond 64 bits");
    return append_number(meter_, out_, static_cast<int64_t>(whole), spec);
  }

  Meter& meter_;
  const Text& text_;
  const Value value_;
  std::span<const Value> given_;
  size_t next_ = 0;
  Text out_;
};

}  // namespace

Result<Value> format_percent(Meter& meter, const Text& text, const Value& value) {
  return PercentFormatter(meter, text, value).run();
}

Status append_formatted(Meter& meter, Text& out, const Value& value, std::string_view text) {
  if (text.empty()) return append_printed(meter, out, value);
  BALLAST_TRY(const FormatSpec spec, parse_spec(text));
  const bool is_text = value.text() != nullptr;
  if (value.is_number() && spec.type != 's') return append_number(meter, out, value, spec);
  if (!is_text || (spec.type != 0 && spec.type != 's')) {
    return bad_format(fmt::format("'{}' does not fit a {}", text, type_name(value)));
  }
  return append_string(meter, out, *value.text(), spec, '<');
}

}  // namespace ballast::jinja
