#include "ballast/text/constraint/json_grammar.h"

#include <fmt/format.h>

#include <utility>

#include "ballast/base/json.h"

namespace ballast {

namespace {

constexpr uint32_t kDeepestIndentation = 20;
constexpr uint32_t kMostJsonDigits = 15;  // any whole number of so many is exact as a double

CodePoints json_digits() { return {{'0', '9'}}; }
CodePoints json_hex_digits() { return {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}; }
// What stands in quotes as it is.
CodePoints plain_in_string() { return normalised({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastCodePoint}}); }

constexpr std::pair<char, char> kShortJsonEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                                       {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};

}  // namespace

std::string quoted_json(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

ExprId JsonGrammar::space() {
  if (space_) return *space_;
  const ExprId indentation = draft_.repeat(draft_.chars({{' ', ' '}}), 0, kDeepestIndentation);
  space_ = draft_.optional(draft_.choice({draft_.text(" "), draft_.sequence({draft_.text("\n"), indentation})}));
  return *space_;
}

// Halves of surrogate pairs are only characters together.
ExprId JsonGrammar::string_char() {
  if (char_) return *char_;
  const ExprId hex = draft_.chars(json_hex_digits());
  const ExprId one_unit = draft_.choice(
      {draft_.sequence({draft_.chars({{'0', '9'}, {'A', 'C'}, {'a', 'c'}, {'E', 'F'}, {'e', 'f'}}), hex, hex, hex}),
       draft_.sequence({draft_.chars({{'D', 'D'}, {'d', 'd'}}), draft_.chars({{'0', '7'}}), hex, hex})});
  const ExprId two_units = draft_.sequence(
      {draft_.chars({{'D', 'D'}, {'d', 'd'}}), draft_.chars({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), hex, hex,
       draft_.text("\\u"), draft_.chars({{'D', 'D'}, {'d', 'd'}}), draft_.chars({{'C', 'F'}, {'c', 'f'}}), hex, hex});
  const ExprId short_escape =
      draft_.chars({{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  const ExprId long_escape = draft_.sequence({draft_.text("u"), draft_.choice({one_unit, two_units})});
  char_ = draft_.choice({draft_.chars(plain_in_string()),
                         draft_.sequence({draft_.text("\\"), draft_.choice({short_escape, long_escape})})});
  return *char_;
}

ExprId JsonGrammar::string_of_length(uint32_t least, uint32_t most) {
  return draft_.sequence({draft_.text("\""), draft_.repeat(string_char(), least, most), draft_.text("\"")});
}

ExprId JsonGrammar::any_string() {
  if (string_) return *string_;
  const RuleId rule = draft_.add_rule("JSON string");
  string_ = draft_.call(rule);
  draft_.define(rule, string_of_length(0, kUnlimited));
  return *string_;
}

ExprId JsonGrammar::string_chars(const CodePoints& set) {
  std::vector<ExprId> ways = {draft_.chars(intersection_of(set, plain_in_string()))};
  std::vector<std::string> escapes;
  const auto has = [&](uint32_t c) { return !intersection_of(set, {{c, c}}).empty(); };
  for (const auto& [meant, written] : kShortJsonEscapes) {
    if (has(static_cast<uint32_t>(meant))) escapes.push_back({'\\', written});
  }
  for (uint32_t c = 0; c < 0x20; ++c) {
    const bool is_short = c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t';
    if (!is_short && has(c)) escapes.push_back(fmt::format("\\u{:04x}", c));
  }
  if (!escapes.empty()) ways.push_back(draft_.texts(std::move(escapes)));
  return draft_.choice(std::move(ways));
}

ExprId JsonGrammar::integer() {
  const ExprId above_zero =
      draft_.sequence({draft_.chars({{'1', '9'}}), draft_.repeat(draft_.chars(json_digits()), 0, kMostJsonDigits - 1)});
  return draft_.choice({draft_.text("0"), draft_.sequence({draft_.optional(draft_.text("-")), above_zero})});
}

ExprId JsonGrammar::number_tail() {
  const ExprId fraction =
      draft_.sequence({draft_.text("."), draft_.repeat(draft_.chars(json_digits()), 1, kMostJsonDigits)});
  const ExprId exponent =
      draft_.sequence({draft_.chars({{'E', 'E'}, {'e', 'e'}}), draft_.optional(draft_.chars({{'+', '+'}, {'-', '-'}})),
                       draft_.repeat(draft_.chars(json_digits()), 1, 2)});
  return draft_.sequence({draft_.optional(fraction), draft_.optional(exponent)});
}

ExprId JsonGrammar::number() {
  if (number_) return *number_;
  const RuleId rule = draft_.add_rule("JSON number");
  number_ = draft_.call(rule);
  const ExprId above_zero =
      draft_.sequence({draft_.chars({{'1', '9'}}), draft_.repeat(draft_.chars(json_digits()), 0, kMostJsonDigits - 1)});
  draft_.define(rule, draft_.sequence({draft_.optional(draft_.text("-")), draft_.choice({draft_.text("0"), above_zero}),
                                       number_tail()}));
  return *number_;
}

ExprId JsonGrammar::list(char open, ExprId item, uint32_t least, uint32_t most, char close) {
  const ExprId end = draft_.sequence({space(), draft_.text(std::string_view(&close, 1))});
  const ExprId begin = draft_.sequence({draft_.text(std::string_view(&open, 1)), space()});
  if (most == 0) return draft_.sequence({begin, draft_.text(std::string_view(&close, 1))});
  const ExprId more = draft_.sequence({draft_.text(","), space(), item});
  const uint32_t rest = most == kUnlimited ? kUnlimited : most - 1;
  const ExprId items = draft_.sequence({item, draft_.repeat(more, least == 0 ? 0 : least - 1, rest), end});
  if (least > 0) return draft_.sequence({begin, items});
  return draft_.sequence({begin, draft_.choice({draft_.text(std::string_view(&close, 1)), items})});
}

ExprId JsonGrammar::member_name(ExprId name) { return draft_.sequence({name, draft_.text(":"), space()}); }

ExprId JsonGrammar::any_object() {
  if (object_) return *object_;
  const RuleId rule = draft_.add_rule("JSON object");
  object_ = draft_.call(rule);
  const ExprId member = draft_.sequence({member_name(any_string()), any_value()});
  draft_.define(rule, list('{', member, 0, kUnlimited, '}'));
  return *object_;
}

ExprId JsonGrammar::any_value() {
  if (value_) return *value_;
  const RuleId rule = draft_.add_rule("JSON value"), array = draft_.add_rule("JSON array");
  value_ = draft_.call(rule);
  draft_.define(array, list('[', *value_, 0, kUnlimited, ']'));
  draft_.define(rule, draft_.choice({any_object(), draft_.call(array), any_string(), number(),
                                     draft_.texts({"true", "false", "null"})}));
  return *value_;
}

}  // namespace ballast
