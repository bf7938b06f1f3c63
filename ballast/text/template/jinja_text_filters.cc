// Filters that make a text or a number.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "ballast/base/checked.h"
#include "ballast/base/utf8.h"
#include "ballast/text/template/jinja_format.h"
#include "ballast/text/template/jinja_print.h"
#include "ballast/text/template/jinja_tables.h"
#include "ballast/text/template/jinja_text_tools.h"

namespace ballast::jinja {

namespace {

Result<Value> filter_string(Call& call) {
  if (call.self.text() != nullptr) return call.self;
  BALLAST_TRY(Text text, printed(call.meter, call.self));
  return make_text(call.meter, std::move(text));
}

// A filter that is one function of str(value).
template <Text (*kChange)(const Text&)>
Result<Value> filter_changed(Call& call) {
  BALLAST_TRY(const Text text, printed(call.meter, call.self));
  return make_text(call.meter, kChange(text));
}
Text upper_text(const Text& text) { return cased(text, CaseChange::kUpper); }
Text lower_text(const Text& text) { return cased(text, CaseChange::kLower); }

// Words begin behind white space, hyphens and opening brackets; unlike str.title(), "don't" stays one word.
Text title_words(const Text& text) {
  Text out;
  size_t begin = 0;
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at <= bytes.size(); ++at) {
    const bool border =
        at == bytes.size() || std::string_view("- \t\n\r\f\v({[<").find(bytes[at]) != std::string_view::npos;
    if (!border) continue;
    out.append(capitalized(text.slice(begin, at)));
    if (at < bytes.size()) out.append(text, at, at + 1);
    begin = at + 1;
  }
  return out;
}

Result<Value> filter_trim(Call& call) {
  BALLAST_TRY(const Text text, printed(call.meter, call.self));
  const Text* chars = nullptr;
  if (call.get(0) != nullptr && !call.get(0)->is_none()) BALLAST_CHECK(assign(chars, call.text(0)));
  BALLAST_TRY(Text rest, stripped(call.meter, text, StripSide::kBoth, chars));
  return make_text(call.meter, std::move(rest));
}

Result<Value> filter_replace(Call& call) {
  BALLAST_TRY(const Text text, printed(call.meter, call.self));
  BALLAST_TRY(const Text old, printed(call.meter, *call.get(0)));
  BALLAST_TRY(const Text replacement, printed(call.meter, *call.get(1)));
  BALLAST_TRY(const int64_t most, call.integer(2, -1));
  BALLAST_TRY(Text out, replaced(call.meter, text, old, replacement, most));
  return make_text(call.meter, std::move(out));
}

Result<Text> indentation(Call& call) {
  if (call.get(0) != nullptr && call.get(0)->text() != nullptr) return *call.get(0)->text();
  BALLAST_TRY(const int64_t width, call.integer(0, 4));
  BALLAST_CHECK(call.meter.check_room(width > 0 ? static_cast<uint64_t>(width) : 0));
  return Text(std::string(width > 0 ? static_cast<size_t>(width) : 0, ' '));
}

Result<Value> filter_indent(Call& call) {
  BALLAST_TRY(Text text, printed(call.meter, call.self));
  BALLAST_TRY(const Text blanks, indentation(call));
  text.append("\n");  // so that a line break at the end is kept
  BALLAST_TRY(const std::vector<Text> lines, lines_of(call.meter, text, false));
  Text out;
  for (size_t i = 0; i < lines.size(); ++i) {
    BALLAST_CHECK(call.meter.check_room(out.size() + lines[i].size() + blanks.size()));
    if (i > 0) out.append("\n");
    const bool indented = i == 0 ? call.flag(1) : call.flag(2) || !lines[i].empty();
    if (indented) out.append(blanks);
    out.append(lines[i]);
  }
  return make_text(call.meter, std::move(out));
}

Result<Value> filter_center(Call& call) {
  BALLAST_TRY(const Text text, printed(call.meter, call.self));
  BALLAST_TRY(const int64_t width, call.integer(0, 80));
  BALLAST_TRY(Text out, padded(call.meter, text, width, TextPlace::kMiddle));
  return make_text(call.meter, std::move(out));
}

Result<Value> filter_escape(Call& call) {
  if (call.self.is_markup()) return call.self;
  BALLAST_TRY(const Text text, printed(call.meter, call.self));
  BALLAST_CHECK(call.meter.check_room(text.size() * kLongestEscape));
  return make_text(call.meter, escaped_html(text), true);
}

Result<Value> filter_format(Call& call) {
  BALLAST_TRY(const Text text, printed(call.meter, call.self));
  Arguments& given = call.arguments;
  if (given.named.empty()) {
    BALLAST_TRY(const Value places, make_sequence(call.meter, std::move(given.positional), Sequence::Kind::kTuple));
    return format_percent(call.meter, text, places);
  }
  if (!given.positional.empty()) return type_error("can't handle positional and keyword arguments at the same time");
  std::vector<std::pair<Value, Value>> entries;
  for (auto& [name, value] : given.named) {
    BALLAST_TRY(Value key, make_text(call.meter, name));
    entries.emplace_back(std::move(key), std::move(value));
  }
  BALLAST_TRY(const Value names, make_mapping(call.meter, std::move(entries)));
  return format_percent(call.meter, text, names);
}

// Words are cut at blanks, unless asked to count characters only.
Result<Value> filter_truncate(Call& call) {
  BALLAST_TRY(const Text text, printed(call.meter, call.self));
  BALLAST_TRY(const int64_t length, call.integer(0, 255));
  BALLAST_TRY(const Text* given_end, call.text(2));
  BALLAST_TRY(const int64_t leeway, call.integer(3, 5));
  const Text end = given_end == nullptr ? Text("...") : *given_end;
  const auto end_length = static_cast<int64_t>(count_characters(end.bytes()));
  if (length < end_length || leeway < 0) return type_error("truncate: a length below that of its end");
  const auto characters = static_cast<int64_t>(count_characters(text.bytes()));
  if (characters <= length || characters - length <= leeway) return make_text(call.meter, text);
  size_t kept = byte_of_character(text.bytes(), static_cast<size_t>(length - end_length));
  if (!call.flag(1)) {
    const size_t blank = text.bytes().substr(0, kept).rfind(' ');
    if (blank != std::string::npos) kept = blank;
  }
  Text out = text.slice(0, kept);
  out.append(end);
  return make_text(call.meter, std::move(out));
}

Result<Value> filter_safe(Call& call) {
  BALLAST_TRY(Text text, printed(call.meter, call.self));
  return make_text(call.meter, std::move(text), true);
}

Result<Value> filter_default(Call& call) {
  const bool replace = call.self.is_undefined() || (call.flag(1) && !truth(call.self));
  if (!replace) return call.self;
  if (call.get(0) != nullptr) return *call.get(0);
  return make_text(call.meter, "");
}

// ---------------------------------------------------------------- tojson

Status json_separators(const Value& value, JsonStyle& style) {
  const Sequence* pair = value.sequence();
  if (pair == nullptr || pair->items.size() != 2 || pair->items[0].text() == nullptr ||
      pair->items[1].text() == nullptr) {
    return type_error("tojson: separators must be two strings");
  }
  style.item_separator = pair->items[0].text()->bytes();
  style.key_separator = pair->items[1].text()->bytes();
  return {};
}

Result<Value> filter_tojson(Call& call) {
  constexpr int64_t kMostIndent = 1000;
  JsonStyle style;
  style.ensure_ascii = call.flag(0);
  style.sort_keys = call.flag(3);
  if (const Value* indent = call.get(1); indent != nullptr && !indent->is_none()) {
    style.item_separator = ",";
    if (indent->text() != nullptr) {
      style.indent = indent->text()->bytes();
    } else {
      BALLAST_TRY(const int64_t width, call.integer(1, 0));
      if (width > kMostIndent)
        return type_error(fmt::format("tojson: an indent of {}; the limit is {}", width, kMostIndent));
      style.indent = std::string(width > 0 ? static_cast<size_t>(width) : 0, ' ');
    }
  }
  if (call.get(2) != nullptr && !call.get(2)->is_none()) BALLAST_CHECK(json_separators(*call.get(2), style));
  BALLAST_TRY(Text text, json_text(call.meter, call.self, style));
  return make_text(call.meter, std::move(text));
}

// ---------------------------------------------------------------- numbers

std::optional<double> parse_double(std::string_view text) {
  text = strip_left(strip_right(text));
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> whole_part(double value) {
  if (!(value > -9.2e18 && value < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(value);
}

Result<Value> filter_int(Call& call) {
  const auto standard = [&] { return call.get(0) != nullptr ? *call.get(0) : Value(int64_t{0}); };
  BALLAST_TRY(const int64_t base, call.integer(1, 10));
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (call.self.is_number()) {
    if (!call.self.is_float()) return Value(call.self.as_int());
    const auto whole = whole_part(call.self.as_double());
    return whole ? Value(*whole) : standard();
  }
  const Text* text = call.self.text();
  if (text == nullptr || base < 2 || base > 36) return standard();
  std::string_view digits = strip_left(strip_right(text->bytes()));
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (base == 16 && (digits.starts_with("0x") || digits.starts_with("0X"))) digits.remove_prefix(2);
  int64_t value = 0;
  const auto [end, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (failure == std::errc() && end == digits.data() + digits.size()) return Value(value);
  const auto real = parse_double(digits);
  const auto whole = real ? whole_part(*real) : std::nullopt;
  return whole ? Value(*whole) : standard();
}

Result<Value> filter_float(Call& call) {
  const auto standard = [&] { return call.get(0) != nullptr ? *call.get(0) : Value(0.0); };
  if (call.self.is_number()) return Value(call.self.as_double());
  if (call.self.text() == nullptr) return standard();
  const auto value = parse_double(call.self.text()->bytes());
  return value ? Value(*value) : standard();
}

Result<Value> filter_abs(Call& call) {
  if (!call.self.is_number()) return type_error(fmt::format("bad operand type for abs(): '{}'", type_name(call.self)));
  if (call.self.is_float()) return Value(std::fabs(call.self.as_double()));
  if (call.self.as_int() == INT64_MIN) return type_error("a whole number beyond 64 bits");
  return Value(call.self.as_int() < 0 ? -call.self.as_int() : call.self.as_int());
}

Result<Value> filter_round(Call& call) {
  if (!call.self.is_number()) return type_error(fmt::format("'{}' cannot be rounded", type_name(call.self)));
  BALLAST_TRY(const int64_t precision, call.integer(0, 0));
  BALLAST_TRY(const Text* method, call.text(1));
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = call.self.as_double() * scale;
  if (method == nullptr || method->bytes() == "common") return Value(std::nearbyint(scaled) / scale);
  if (method->bytes() == "ceil") return Value(std::ceil(scaled) / scale);
  if (method->bytes() == "floor") return Value(std::floor(scaled) / scale);
  return type_error("method must be common, ceil or floor");
}

constexpr Builtin kTextFilters[] = {
    {"string", "", 0, filter_string},
    {"upper", "", 0, filter_changed<upper_text>},
    {"lower", "", 0, filter_changed<lower_text>},
    {"capitalize", "", 0, filter_changed<capitalized>},
    {"title", "", 0, filter_changed<title_words>},
    {"trim", "chars", 0, filter_trim},
    {"replace", "old new count", 2, filter_replace},
    {"indent", "width first blank", 0, filter_indent},
    {"center", "width", 0, filter_center},
    {"safe", "", 0, filter_safe},
    {"escape", "", 0, filter_escape},
    {"e", "", 0, filter_escape},
    {"format", "*", 0, filter_format},
    {"truncate", "length killwords end leeway", 0, filter_truncate},
    {"default", "default_value boolean", 0, filter_default},
    {"d", "default_value boolean", 0, filter_default},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {"int", "default base", 0, filter_int},
    {"float", "default", 0, filter_float},
    {"abs", "", 0, filter_abs},
    {"round", "precision method", 0, filter_round},
};

}  // namespace

std::span<const Builtin> text_filters() { return kTextFilters; }

}  // namespace ballast::jinja
