#include "ballast/text/constraint/gbnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ballast/base/utf8.h"
#include "ballast/text/constraint/grammar.h"

namespace ballast {

namespace {

constexpr size_t kLargestGbnf = size_t{256} << 10U;
constexpr size_t kMostGbnfRules = 8192;
constexpr size_t kDeepestGbnf = 64;
constexpr uint32_t kMostGbnfRepeats = 1'000'000;

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}
  Result<std::shared_ptr<const Grammar>> parse();

 private:
  struct Rule {
    RuleId id;
    size_t used_at;  // first
    bool is_defined = false;
  };

  Status rule();
  Result<ExprId> alternatives(size_t depth);
  Result<ExprId> sequence(size_t depth);
  Result<ExprId> element(size_t depth);
  Result<ExprId> repeated(ExprId part);
  Result<std::pair<uint32_t, uint32_t>> braces();
  Result<ExprId> quoted();
  Result<ExprId> set();
  Result<uint32_t> character(std::string_view where);
  Result<uint32_t> escape();
  Result<uint32_t> count();
  std::string_view name();
  Result<Rule*> find(std::string_view name, size_t at);

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view token);
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  void skip_space(bool with_lines);
  // Inside a group, lines do not matter; outside, a line that begins with | belongs to the one before.
  void skip_between(size_t depth);
  Error error_at(size_t at, std::string_view what) const {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("grammar: line {}: {}", 1 + std::ranges::count(text_.substr(0, at), '\n'), what));
  }
  Error error_here(std::string_view what) const { return error_at(at_, what); }

  std::string_view text_;
  size_t at_ = 0;
  GrammarDraft draft_;
  std::map<std::string, Rule, std::less<>> rules_;
};

// ---------------------------------------------------------------- characters

void GbnfParser::skip_space(bool with_lines) {
  while (!at_end()) {
    const char c = peek();
    if (c == '#') at_ = std::min(text_.find('\n', at_), text_.size());
    else if (c == ' ' || c == '\t' || (with_lines && (c == '\n' || c == '\r'))) ++at_;
    else break;
  }
}

void GbnfParser::skip_between(size_t depth) {
  skip_space(depth > 0);
  const size_t line_end = at_;
  skip_space(true);
  if (peek() != '|') at_ = line_end;
}

bool GbnfParser::take(std::string_view token) {
  if (!text_.substr(at_).starts_with(token)) return false;
  at_ += token.size();
  return true;
}

std::string_view GbnfParser::name() {
  const size_t begin = at_;
  while (!at_end() && is_name(peek())) ++at_;
  return text_.substr(begin, at_ - begin);
}

Result<uint32_t> GbnfParser::escape() {
  const size_t begin = at_ - 1;
  const char kind = peek();
  ++at_;
  const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits == 0) {
    constexpr std::pair<char, char> kEscapes[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'\\', '\\'}, {'"', '"'},
                                                  {'[', '['},  {']', ']'},  {'-', '-'},  {'^', '^'}};
    for (const auto& [written, meant] : kEscapes) {
      if (written == kind) return static_cast<uint32_t>(meant);
    }
    return error_at(begin, "unknown escape; known are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
  }
  uint64_t value = 0;
  for (size_t i = 0; i < digits; ++i, ++at_) {
    const int digit = hex_digit(peek());
    if (digit < 0) return error_at(begin, fmt::format("\\{} needs {} hexadecimal digits", kind, digits));
    value = value * 16 + static_cast<uint64_t>(digit);
  }
  if (value <= kLastCodePoint && is_code_point(static_cast<uint32_t>(value))) return static_cast<uint32_t>(value);
  return error_at(begin, "the escape is no Unicode character");
}

Result<uint32_t> GbnfParser::character(std::string_view where) {
  if (at_end() || peek() == '\n') return error_here(fmt::format("{} is not closed", where));
  if (take("\\")) return escape();
  const auto found = take_code_point(text_, at_);
  if (!found) return error_here("the text is not UTF-8");
  return *found;
}

// ---------------------------------------------------------------- expressions

Result<ExprId> GbnfParser::quoted() {
  std::string literal;
  while (!take("\"")) {
    BALLAST_TRY(const uint32_t c, character("a text in quotes"));
    append_utf8(literal, c);
  }
  return draft_.text(literal);
}

Result<ExprId> GbnfParser::set() {
  const bool is_negated = take("^");
  CodePoints chars;
  while (!take("]")) {
    BALLAST_TRY(const uint32_t first, character("a set in brackets"));
    uint32_t last = first;
    if (peek() == '-' && !text_.substr(at_).starts_with("-]")) {
      ++at_;
      BALLAST_CHECK(assign(last, character("a set in brackets")));
    }
    if (last < first) return error_here(fmt::format("the range U+{:04X} to U+{:04X} is upside down", first, last));
    chars.push_back({first, last});
  }
  chars = normalised(std::move(chars));
  return draft_.chars(is_negated ? complement_of(chars) : std::move(chars));
}

Result<uint32_t> GbnfParser::count() {
  const size_t begin = at_;
  uint64_t value = 0;
  for (; peek() >= '0' && peek() <= '9'; ++at_)
    value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(peek() - '0'), UINT32_MAX);
  if (at_ == begin) return error_here("a repetition needs a number: {2}, {2,} or {2,5}");
  if (value <= kMostGbnfRepeats) return static_cast<uint32_t>(value);
  return error_at(begin, fmt::format("a repetition of more than {} times is not supported", kMostGbnfRepeats));
}

Result<std::pair<uint32_t, uint32_t>> GbnfParser::braces() {
  skip_space(false);
  BALLAST_TRY(const uint32_t least, count());
  uint32_t most = least;
  skip_space(false);
  if (take(",")) {
    skip_space(false);
    if (peek() == '}') most = kUnlimited;
    else BALLAST_CHECK(assign(most, count()));
    skip_space(false);
  }
  if (!take("}")) return error_here("a repetition is not closed: } is missing");
  if (most < least) return error_here(fmt::format("a repetition from {} to {} times matches nothing", least, most));
  return std::pair(least, most);
}

Result<ExprId> GbnfParser::repeated(ExprId part) {
  for (size_t times = 0; times < kDeepestGbnf; ++times) {
    if (take("*")) part = draft_.repeat(part, 0, kUnlimited);
    else if (take("+")) part = draft_.repeat(part, 1, kUnlimited);
    else if (take("?")) part = draft_.optional(part);
    else if (!take("{")) return part;
    else {
      BALLAST_TRY(const auto bounds, braces());
      part = draft_.repeat(part, bounds.first, bounds.second);
    }
  }
  return error_here(fmt::format("more than {} repetitions in a row", kDeepestGbnf));
}

Result<ExprId> GbnfParser::element(size_t depth) {
  const size_t begin = at_;
  if (take("\"")) return quoted();
  if (take("[")) return set();
  if (take(".")) return draft_.chars({{0, kLastCodePoint}});
  if (take("(")) {
    if (depth >= kDeepestGbnf) return error_here(fmt::format("groups are nested more than {} deep", kDeepestGbnf));
    skip_space(true);
    BALLAST_TRY(const ExprId group, alternatives(depth + 1));
    if (!take(")")) return error_at(begin, "a group is not closed: ) is missing");
    return group;
  }
  if (peek() == '<' || peek() == '!') {
    return make_error(ErrorCode::kUnsupported,
                      error_here("tokens in grammars (<name>, <[id]>, !<name>) are not supported").message);
  }
  const std::string_view rule = name();
  if (rule.empty())
    return error_here(fmt::format("unexpected {}", at_end() ? "end of the text" : fmt::format("'{}'", peek())));
  BALLAST_TRY(const Rule* const found, find(rule, begin));
  return draft_.call(found->id);
}

Result<ExprId> GbnfParser::sequence(size_t depth) {
  std::vector<ExprId> parts;
  const auto ends = [&] { return at_end() || peek() == '|' || peek() == ')' || peek() == '\n' || peek() == '\r'; };
  while (!ends()) {
    BALLAST_TRY(ExprId part, element(depth));
    BALLAST_CHECK(assign(part, repeated(part)));
    parts.push_back(part);
    skip_between(depth);
  }
  return draft_.sequence(std::move(parts));
}

Result<ExprId> GbnfParser::alternatives(size_t depth) {
  std::vector<ExprId> ways;
  do {
    skip_space(true);
    BALLAST_TRY(const ExprId way, sequence(depth));
    ways.push_back(way);
  } while (take("|"));
  return draft_.choice(std::move(ways));
}

// ---------------------------------------------------------------- rules

Result<GbnfParser::Rule*> GbnfParser::find(std::string_view name, size_t at) {
  const auto known = rules_.find(name);
  if (known != rules_.end()) return &known->second;
  if (rules_.size() >= kMostGbnfRules) return error_at(at, fmt::format("more than {} rules", kMostGbnfRules));
  const RuleId id = draft_.add_rule(fmt::format("rule \"{}\"", name));
  return &rules_.emplace(std::string(name), Rule{id, at}).first->second;
}

Status GbnfParser::rule() {
  const size_t begin = at_;
  const std::string_view rule_name = name();
  if (rule_name.empty()) return error_here("expected the name of a rule, as in: root ::= \"yes\" | \"no\"");
  skip_space(false);
  if (!take("::=")) return error_here(fmt::format("expected ::= behind \"{}\"", rule_name));
  BALLAST_TRY(Rule* const found, find(rule_name, begin));
  if (found->is_defined) return error_at(begin, fmt::format("rule \"{}\" is defined twice", rule_name));
  found->is_defined = true;
  const RuleId id = found->id;
  BALLAST_TRY(const ExprId expr, alternatives(0));
  if (!at_end() && peek() != '\n' && peek() != '\r') return error_here("a group is closed that was not opened");
  draft_.define(id, expr);
  return {};
}

Result<std::shared_ptr<const Grammar>> GbnfParser::parse() {
  if (text_.size() > kLargestGbnf) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("grammar: {} bytes, and at most {} are supported", text_.size(), kLargestGbnf));
  }
  for (skip_space(true); !at_end(); skip_space(true)) BALLAST_CHECK(rule());
  for (const auto& [name, rule] : rules_) {
    if (!rule.is_defined) return error_at(rule.used_at, fmt::format("rule \"{}\" is used but not defined", name));
  }
  const auto root = rules_.find("root");
  if (root == rules_.end()) {
    return make_error(ErrorCode::kInvalidArgument, "grammar: it has no rule \"root\", which the text has to match");
  }
  return draft_.compile(root->second.id, "grammar");
}

}  // namespace

Result<std::shared_ptr<const Grammar>> compile_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace ballast
