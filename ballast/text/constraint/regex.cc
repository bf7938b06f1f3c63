#include "ballast/text/constraint/regex.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/text/constraint/json_grammar.h"

namespace ballast {

namespace {

constexpr size_t kLongestRegex = size_t{16} << 10U;
constexpr size_t kDeepestRegex = 64;
constexpr uint32_t kMostRegexRepeats = 1'000'000;

CodePoints word_chars() { return normalised({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}); }
CodePoints ascii_spaces() { return normalised({{'\t', '\r'}, {' ', ' '}}); }
// What JavaScript calls white space.
CodePoints all_spaces() {
  return normalised({{'\t', '\r'},
                     {' ', ' '},
                     {0xA0, 0xA0},
                     {0x1680, 0x1680},
                     {0x2000, 0x200A},
                     {0x2028, 0x2029},
                     {0x202F, 0x202F},
                     {0x205F, 0x205F},
                     {0x3000, 0x3000},
                     {0xFEFF, 0xFEFF}});
}
CodePoints all_but_line_ends() { return complement_of(normalised({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})); }

class RegexParser {
 public:
  RegexParser(GrammarDraft& draft, std::string_view text, const RegexOptions& options)
      : draft_(draft), text_(text), options_(options) {}
  Result<ExprId> parse();

 private:
  Result<ExprId> top_alternative();
  Result<ExprId> alternatives(size_t depth);
  Result<ExprId> sequence(size_t depth);
  Result<ExprId> atom(size_t depth);
  Result<ExprId> group(size_t depth);
  Status group_kind();
  Status expect_no_quantifier();
  Result<ExprId> quantified(ExprId part);
  bool take_bounds(uint64_t& least, uint64_t& most);
  Result<CodePoints> char_class();
  Result<CodePoints> class_part();
  Result<CodePoints> escape(bool in_class);
  Result<uint32_t> hex(size_t digits);

  ExprId chars(const CodePoints& set) {
    return options_.json != nullptr ? options_.json->string_chars(set) : draft_.chars(set);
  }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  Error error_here(std::string_view what) const {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: position {}: {}", options_.where, at_, what));
  }
  Error unsupported(std::string_view what) const {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: position {}: {} is not supported", options_.where, at_, what));
  }

  GrammarDraft& draft_;
  std::string_view text_;
  const RegexOptions& options_;
  size_t at_ = 0;
};

// ---------------------------------------------------------------- characters

Result<uint32_t> RegexParser::hex(size_t digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; ++i, ++at_) {
    const int digit = hex_digit(peek());
    if (digit < 0) return error_here(fmt::format("expected {} hexadecimal digits", digits));
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  if (!is_code_point(value)) return unsupported("half of a surrogate pair");
  return value;
}

// Behind the backslash.
Result<CodePoints> RegexParser::escape(bool in_class) {
  if (at_end()) return error_here("a backslash at the end");
  const char c = peek();
  const auto one = [](uint32_t point) { return CodePoints{{point, point}}; };
  if (c >= '1' && c <= '9') return unsupported(fmt::format("the reference \\{}", c));
  if (c == 'k') return unsupported("the reference \\k");
  if (c == 'b' && in_class) return ++at_, one('\b');
  if (c == 'b' || c == 'B') return unsupported(fmt::format("the word boundary \\{}", c));
  if (c == 'p' || c == 'P') return unsupported(fmt::format("the Unicode property \\{}", c));
  ++at_;
  switch (c) {
    case 'd': return CodePoints{{'0', '9'}};
    case 'D': return complement_of({{'0', '9'}});
    case 'w': return word_chars();
    case 'W': return complement_of(word_chars());
    case 's': return ascii_spaces();
    case 'S': return complement_of(all_spaces());
    case 't': return one('\t');
    case 'n': return one('\n');
    case 'r': return one('\r');
    case 'f': return one('\f');
    case 'v': return one('\v');
    case '0': return one(0);
    case 'x': {
      BALLAST_TRY(const uint32_t point, hex(2));
      return one(point);
    }
    case 'u': {
      BALLAST_TRY(const uint32_t point, hex(4));
      return one(point);
    }
    default: break;
  }
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (is_letter) return unsupported(fmt::format("the escape \\{}", c));
  --at_;
  const auto point = take_code_point(text_, at_);
  return one(point.value_or(0));
}

Result<CodePoints> RegexParser::class_part() {
  if (at_end()) return error_here("a class is not closed: ] is missing");
  if (text_.substr(at_).starts_with("[:")) return unsupported("a named class such as [:alpha:]");
  if (take("\\")) return escape(true);
  const uint32_t point = take_code_point(text_, at_).value_or(0);
  return CodePoints{{point, point}};
}

// Behind the opening bracket.
Result<CodePoints> RegexParser::char_class() {
  const bool is_negated = take("^");
  if (peek() == ']') return unsupported("a class that begins with ] (write \\])");
  CodePoints set;
  const auto is_one = [](const CodePoints& part) { return part.size() == 1 && part[0].first == part[0].last; };
  while (!take("]")) {
    BALLAST_TRY(CodePoints part, class_part());
    if (peek() == '-' && !text_.substr(at_).starts_with("-]")) {
      ++at_;
      BALLAST_TRY(const CodePoints end, class_part());
      if (!is_one(part) || !is_one(end)) return error_here("a range must go from one character to another");
      if (end[0].first < part[0].first) return error_here("the range of characters is upside down");
      part[0].last = end[0].first;
    }
    set.insert(set.end(), part.begin(), part.end());
  }
  set = normalised(std::move(set));
  return is_negated ? complement_of(set) : std::move(set);
}

// ---------------------------------------------------------------- groups

Status RegexParser::group_kind() {
  if (!take("?")) return {};
  if (take(":")) return {};
  if (peek() == '=' || peek() == '!') return unsupported(fmt::format("looking ahead with (?{}", peek()));
  if (text_.substr(at_).starts_with("<=") || text_.substr(at_).starts_with("<!"))
    return unsupported("looking behind with (?<");
  if (peek() == '>') return unsupported("the atomic group (?>");
  if (!take("P<") && !take("<"))
    return unsupported(fmt::format("the group (?{} (flags, references, conditions)", peek()));
  const size_t end = text_.find('>', at_);
  if (end == std::string_view::npos) return error_here("the name of a group is not closed");
  at_ = end + 1;
  return {};
}

Result<ExprId> RegexParser::group(size_t depth) {
  if (depth >= kDeepestRegex) return error_here(fmt::format("groups are nested more than {} deep", kDeepestRegex));
  BALLAST_CHECK(group_kind());
  BALLAST_TRY(const ExprId inside, alternatives(depth + 1));
  if (!take(")")) return error_here("a group is not closed: ) is missing");
  return inside;
}

Result<ExprId> RegexParser::atom(size_t depth) {
  if (take("(")) return group(depth);
  if (take("[")) {
    BALLAST_TRY(const CodePoints set, char_class());
    return chars(set);
  }
  if (take(".")) return chars(all_but_line_ends());
  if (take("\\")) {
    BALLAST_TRY(const CodePoints set, escape(false));
    return chars(set);
  }
  if (peek() == '^' || peek() == '$') {
    return unsupported(fmt::format("{} inside an expression (it may stand at its ends)", peek()));
  }
  BALLAST_CHECK(expect_no_quantifier());
  const uint32_t point = take_code_point(text_, at_).value_or(0);
  return chars({{point, point}});
}

// A brace that begins no bounds is an ordinary character, as in JavaScript.
bool RegexParser::take_bounds(uint64_t& least, uint64_t& most) {
  const size_t begin = at_;
  const auto number = [&](uint64_t& value) {
    const size_t first = at_;
    for (value = 0; peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(peek() - '0'), UINT32_MAX);
    return at_ > first;
  };
  bool is_bounds = take("{") && number(least);
  most = least;
  if (is_bounds && take(",") && !number(most)) most = kUnlimited;
  is_bounds = is_bounds && take("}");
  if (!is_bounds) at_ = begin;
  return is_bounds;
}

// Where nothing stands that it could repeat.
Status RegexParser::expect_no_quantifier() {
  const size_t begin = at_;
  uint64_t least = 0, most = 0;
  const bool is_quantifier = peek() == '*' || peek() == '+' || peek() == '?' || take_bounds(least, most);
  at_ = begin;
  return is_quantifier ? Status(error_here(fmt::format("nothing to repeat before {}", peek()))) : Status();
}

Result<ExprId> RegexParser::quantified(ExprId part) {
  uint64_t least = 0, most = kUnlimited;
  if (take("+")) least = 1;
  else if (take("?")) most = 1;
  else if (!take("*") && !take_bounds(least, most)) return part;
  if (least > kMostRegexRepeats || (most > kMostRegexRepeats && most != kUnlimited)) {
    return error_here(fmt::format("a repetition of more than {} times is not supported", kMostRegexRepeats));
  }
  if (most < least) return error_here(fmt::format("a repetition from {} to {} times matches nothing", least, most));
  if (peek() == '+') return unsupported("a possessive quantifier");
  take("?");  // which of the matches a search prefers does not matter to the whole
  BALLAST_CHECK(expect_no_quantifier());
  return draft_.repeat(part, static_cast<uint32_t>(least), static_cast<uint32_t>(most));
}

Result<ExprId> RegexParser::sequence(size_t depth) {
  std::vector<ExprId> parts;
  while (!at_end() && peek() != '|' && peek() != ')') {
    const std::string_view rest = text_.substr(at_);
    if (depth == 0 && (rest == "$" || rest.starts_with("$|"))) break;
    BALLAST_TRY(ExprId part, atom(depth));
    BALLAST_CHECK(assign(part, quantified(part)));
    parts.push_back(part);
  }
  return draft_.sequence(std::move(parts));
}

Result<ExprId> RegexParser::alternatives(size_t depth) {
  std::vector<ExprId> ways;
  do {
    BALLAST_TRY(const ExprId way, sequence(depth));
    ways.push_back(way);
  } while (take("|"));
  return draft_.choice(std::move(ways));
}

// ---------------------------------------------------------------- the whole

Result<ExprId> RegexParser::top_alternative() {
  const auto anything = [&] { return draft_.repeat(chars({{0, kLastCodePoint}}), 0, kUnlimited); };
  std::vector<ExprId> parts;
  if (!take("^") && options_.is_search) parts.push_back(anything());
  BALLAST_TRY(const ExprId inside, sequence(0));
  parts.push_back(inside);
  if (!take("$") && options_.is_search) parts.push_back(anything());
  return draft_.sequence(std::move(parts));
}

Result<ExprId> RegexParser::parse() {
  if (text_.size() > kLongestRegex) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {} bytes, and at most {} are supported",
                                                               options_.where, text_.size(), kLongestRegex));
  }
  if (!is_valid_utf8(text_)) return make_error(ErrorCode::kInvalidArgument, options_.where + ": it is not UTF-8");
  std::vector<ExprId> ways;
  do {
    BALLAST_TRY(const ExprId way, top_alternative());
    ways.push_back(way);
  } while (take("|"));
  if (!at_end()) return error_here("a group is closed that was not opened");
  return draft_.choice(std::move(ways));
}

}  // namespace

Result<ExprId> parse_regex(GrammarDraft& draft, std::string_view expression, const RegexOptions& options) {
  return RegexParser(draft, expression, options).parse();
}

}  // namespace ballast
