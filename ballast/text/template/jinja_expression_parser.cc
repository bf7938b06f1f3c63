#include "ballast/text/template/jinja_expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ballast::jinja {

namespace {

Expr make_node(ExprKind kind, uint32_t line) {
  Expr node;
  node.kind = kind;
  node.line = line;
  return node;
}

Error too_deep(uint32_t line) {
  return syntax_error(line, fmt::format("an expression nested more than {} deep", kMostNesting));
}

}  // namespace

Result<ExprPtr> ExpressionParser::finish(Expr node) {
  for (const ExprPtr& part : node.parts) {
    if (part) node.depth = std::max(node.depth, part->depth + 1);
  }
  for (const Argument& argument : node.arguments) node.depth = std::max(node.depth, argument.value->depth + 1);
  if (node.depth > kMostNesting) return too_deep(node.line);
  return ExprPtr(std::make_unique<const Expr>(std::move(node)));
}

Result<ExprPtr> ExpressionParser::expression() {
  if (++nesting_ > kMostNesting) return too_deep(tokens_.line());
  auto node = conditional();
  --nesting_;
  return node;
}

Result<ExprPtr> ExpressionParser::expression_or_tuple(bool with_conditional) {
  const uint32_t line = tokens_.line();
  const auto one = [&] { return with_conditional ? expression() : either(); };
  BALLAST_TRY(ExprPtr first, one());
  if (!tokens_.is_operator(",")) return first;
  Expr tuple = make_node(ExprKind::kTuple, line);
  tuple.parts.push_back(std::move(first));
  while (tokens_.skip_operator(",")) {
    if (tokens_.is(TokenKind::kBlockEnd) || tokens_.is(TokenKind::kVariableEnd) || tokens_.is_operator(")")) break;
    BALLAST_TRY(ExprPtr next, one());
    tuple.parts.push_back(std::move(next));
  }
  return finish(std::move(tuple));
}

// ---------------------------------------------------------------- operators, loosest first

Result<ExprPtr> ExpressionParser::conditional() {
  BALLAST_TRY(ExprPtr node, either());
  while (tokens_.is_name("if")) {
    Expr choice = make_node(ExprKind::kConditional, tokens_.take().line);
    choice.parts.push_back(std::move(node));
    BALLAST_TRY(ExprPtr condition, either());
    choice.parts.push_back(std::move(condition));
    choice.parts.push_back(nullptr);
    if (tokens_.skip_name("else")) BALLAST_CHECK(assign(choice.parts[2], expression()));
    BALLAST_CHECK(assign(node, finish(std::move(choice))));
  }
  return node;
}

Result<ExprPtr> ExpressionParser::joined(ExprKind kind, Level operand, TokenKind separator_kind,
                                         std::string_view separator) {
  const uint32_t line = tokens_.line();
  BALLAST_TRY(ExprPtr first, (this->*operand)());
  Expr node = make_node(kind, line);
  node.parts.push_back(std::move(first));
  while (tokens_.is(separator_kind) && tokens_.peek().text == separator) {
    tokens_.take();
    BALLAST_TRY(ExprPtr next, (this->*operand)());
    node.parts.push_back(std::move(next));
  }
  if (node.parts.size() == 1) return std::move(node.parts[0]);
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::either() {
  return joined(ExprKind::kOr, &ExpressionParser::both, TokenKind::kName, "or");
}

Result<ExprPtr> ExpressionParser::both() {
  return joined(ExprKind::kAnd, &ExpressionParser::negation, TokenKind::kName, "and");
}

Result<ExprPtr> ExpressionParser::negation() {
  if (!tokens_.is_name("not")) return comparison();
  if (++nesting_ > kMostNesting) return too_deep(tokens_.line());
  Expr node = make_node(ExprKind::kNot, tokens_.take().line);
  BALLAST_TRY(ExprPtr operand, negation());
  --nesting_;
  node.parts.push_back(std::move(operand));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::comparison() {
  static constexpr std::pair<std::string_view, Operator> kComparisons[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual},
  };
  Expr node = make_node(ExprKind::kCompare, tokens_.line());
  BALLAST_TRY(ExprPtr first, sum());
  node.parts.push_back(std::move(first));
  for (;;) {
    const auto found =
        std::ranges::find_if(kComparisons, [this](const auto& c) { return tokens_.is_operator(c.first); });
    if (found != std::end(kComparisons)) {
      tokens_.take();
      node.operators.push_back(found->second);
    } else if (tokens_.skip_name("in")) {
      node.operators.push_back(Operator::kIn);
    } else if (tokens_.is_name("not") && tokens_.peek_behind().kind == TokenKind::kName &&
               tokens_.peek_behind().text == "in") {
      tokens_.take();
      tokens_.take();
      node.operators.push_back(Operator::kNotIn);
    } else {
      break;
    }
    BALLAST_TRY(ExprPtr next, sum());
    node.parts.push_back(std::move(next));
  }
  if (node.operators.empty()) return std::move(node.parts[0]);
  return finish(std::move(node));
}

// Operators of one level, from the left; a list instead of a tree, so that long sums need no deep stack.
Result<ExprPtr> ExpressionParser::chain(ExprKind kind, Level operand,
                                        std::initializer_list<std::pair<std::string_view, Operator>> ops) {
  Expr node = make_node(kind, tokens_.line());
  BALLAST_TRY(ExprPtr first, (this->*operand)());
  node.parts.push_back(std::move(first));
  for (;;) {
    const auto* found = std::ranges::find_if(ops, [this](const auto& op) { return tokens_.is_operator(op.first); });
    if (found == ops.end()) break;
    tokens_.take();
    node.operators.push_back(found->second);
    BALLAST_TRY(ExprPtr next, (this->*operand)());
    node.parts.push_back(std::move(next));
  }
  if (node.operators.empty()) return std::move(node.parts[0]);
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::sum() {
  return chain(ExprKind::kArithmetic, &ExpressionParser::concatenation,
               {{"+", Operator::kAdd}, {"-", Operator::kSubtract}});
}

Result<ExprPtr> ExpressionParser::concatenation() {
  return joined(ExprKind::kConcat, &ExpressionParser::product, TokenKind::kOperator, "~");
}

Result<ExprPtr> ExpressionParser::product() {
  return chain(
      ExprKind::kArithmetic, &ExpressionParser::power,
      {{"*", Operator::kMultiply}, {"/", Operator::kDivide}, {"//", Operator::kFloorDivide}, {"%", Operator::kModulo}});
}

// From the left too, unlike Python.
Result<ExprPtr> ExpressionParser::power() {
  return chain(ExprKind::kArithmetic, &ExpressionParser::with_filters, {{"**", Operator::kPower}});
}

Result<ExprPtr> ExpressionParser::unary(bool with_filters) {
  ExprPtr node;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    if (++nesting_ > kMostNesting) return too_deep(tokens_.line());
    const bool negative = tokens_.is_operator("-");
    Expr sign = make_node(negative ? ExprKind::kNegative : ExprKind::kPositive, tokens_.take().line);
    BALLAST_TRY(ExprPtr operand, unary(false));
    --nesting_;
    sign.parts.push_back(std::move(operand));
    BALLAST_CHECK(assign(node, finish(std::move(sign))));
  } else {
    BALLAST_CHECK(assign(node, primary()));
  }
  BALLAST_CHECK(assign(node, postfix(std::move(node))));
  return with_filters ? filters_and_tests(std::move(node)) : Result<ExprPtr>(std::move(node));
}

// ---------------------------------------------------------------- primaries

Result<ExprPtr> ExpressionParser::primary() {
  Expr node = make_node(ExprKind::kConstant, tokens_.line());
  switch (tokens_.peek().kind) {
    case TokenKind::kName: return name_or_constant();
    case TokenKind::kString: {
      std::string text;
      while (tokens_.is(TokenKind::kString)) text += tokens_.take().text;
      node.constant = std::move(text);
      return finish(std::move(node));
    }
    case TokenKind::kInteger: {
      const std::string& digits = tokens_.peek().text;
      int64_t value = 0;
      const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (failure != std::errc()) return syntax_error(node.line, fmt::format("{} exceeds 64 bits", digits));
      node.constant = value;
      tokens_.take();
      return finish(std::move(node));
    }
    case TokenKind::kFloat: {
      const std::string& digits = tokens_.take().text;
      double value = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
      node.constant = value;
      return finish(std::move(node));
    }
    default: break;
  }
  if (tokens_.is_operator("(")) return parenthesised();
  if (tokens_.is_operator("[")) return list();
  if (tokens_.is_operator("{")) return dict();
  return tokens_.unexpected("a value");
}

Result<ExprPtr> ExpressionParser::name_or_constant() {
  const Token& token = tokens_.take();
  Expr node = make_node(ExprKind::kConstant, token.line);
  if (token.text == "true" || token.text == "True") node.constant = true;
  else if (token.text == "false" || token.text == "False") node.constant = false;
  else if (token.text != "none" && token.text != "None") {
    node.kind = ExprKind::kName;
    node.name = token.text;
    add_extras({token.text == "caller", token.text == "kwargs", token.text == "varargs"});
  }
  return finish(std::move(node));
}

void ExpressionParser::add_extras(const MacroExtras& more) {
  extras_ = {extras_.caller || more.caller, extras_.kwargs || more.kwargs, extras_.varargs || more.varargs};
}

Result<ExprPtr> ExpressionParser::parenthesised() {
  const uint32_t line = tokens_.take().line;
  if (tokens_.skip_operator(")")) return finish(make_node(ExprKind::kTuple, line));
  BALLAST_TRY(ExprPtr node, expression_or_tuple());
  BALLAST_CHECK(tokens_.expect_operator(")"));
  return node;
}

Result<ExprPtr> ExpressionParser::list() {
  Expr node = make_node(ExprKind::kList, tokens_.take().line);
  while (!tokens_.skip_operator("]")) {
    if (!node.parts.empty()) BALLAST_CHECK(tokens_.expect_operator(","));
    if (tokens_.skip_operator("]")) break;
    BALLAST_TRY(ExprPtr item, expression());
    node.parts.push_back(std::move(item));
  }
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::dict() {
  Expr node = make_node(ExprKind::kDict, tokens_.take().line);
  while (!tokens_.skip_operator("}")) {
    if (!node.parts.empty()) BALLAST_CHECK(tokens_.expect_operator(","));
    if (tokens_.skip_operator("}")) break;
    BALLAST_TRY(ExprPtr key, expression());
    BALLAST_CHECK(tokens_.expect_operator(":"));
    BALLAST_TRY(ExprPtr value, expression());
    node.parts.push_back(std::move(key));
    node.parts.push_back(std::move(value));
  }
  return finish(std::move(node));
}

// ---------------------------------------------------------------- what follows a primary

Result<ExprPtr> ExpressionParser::postfix(ExprPtr node) {
  for (;;) {
    if (tokens_.is_operator(".")) BALLAST_CHECK(assign(node, attribute(std::move(node))));
    else if (tokens_.is_operator("[")) BALLAST_CHECK(assign(node, subscript(std::move(node))));
    else if (tokens_.is_operator("(")) BALLAST_CHECK(assign(node, call(std::move(node))));
    else return node;
  }
}

Result<ExprPtr> ExpressionParser::attribute(ExprPtr node) {
  Expr access = make_node(ExprKind::kAttribute, tokens_.take().line);
  access.parts.push_back(std::move(node));
  if (tokens_.is(TokenKind::kInteger)) {
    access.kind = ExprKind::kItem;
    BALLAST_TRY(ExprPtr index, primary());
    access.parts.push_back(std::move(index));
  } else {
    BALLAST_CHECK(assign(access.name, tokens_.expect_name()));
  }
  return finish(std::move(access));
}

Result<ExprPtr> ExpressionParser::subscript(ExprPtr node) {
  Expr access = make_node(ExprKind::kItem, tokens_.take().line);
  access.parts.push_back(std::move(node));
  std::vector<ExprPtr> bounds(1);
  for (;;) {
    if (tokens_.skip_operator("]")) break;
    if (tokens_.skip_operator(":")) {
      access.kind = ExprKind::kSlice;
      bounds.emplace_back();
      continue;
    }
    if (bounds.back()) return tokens_.unexpected("']'");
    BALLAST_CHECK(assign(bounds.back(), expression()));
  }
  if (bounds.size() > 3) return syntax_error(access.line, "a slice with more than three parts");
  if (access.kind == ExprKind::kItem && !bounds[0]) return syntax_error(access.line, "an index is missing in []");
  if (access.kind == ExprKind::kSlice) bounds.resize(3);
  for (ExprPtr& bound : bounds) access.parts.push_back(std::move(bound));
  return finish(std::move(access));
}

Result<ExprPtr> ExpressionParser::call(ExprPtr node) {
  Expr access = make_node(ExprKind::kCall, tokens_.line());
  access.parts.push_back(std::move(node));
  BALLAST_CHECK(assign(access.arguments, arguments()));
  return finish(std::move(access));
}

Result<std::vector<Argument>> ExpressionParser::arguments() {
  std::vector<Argument> list;
  BALLAST_CHECK(tokens_.expect_operator("("));
  while (!tokens_.skip_operator(")")) {
    if (!list.empty()) BALLAST_CHECK(tokens_.expect_operator(","));
    if (tokens_.skip_operator(")")) break;
    if (tokens_.is_operator("*") || tokens_.is_operator("**")) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("chat template, line {}: calls with * or ** are not supported", tokens_.line()));
    }
    Argument argument;
    const Token& behind = tokens_.peek_behind();
    if (tokens_.is(TokenKind::kName) && behind.kind == TokenKind::kOperator && behind.text == "=") {
      argument.name = tokens_.take().text;
      tokens_.take();
    } else if (!list.empty() && !list.back().name.empty()) {
      return syntax_error(tokens_.line(), "an argument without a name behind one with a name");
    }
    BALLAST_CHECK(assign(argument.value, expression()));
    list.push_back(std::move(argument));
  }
  return list;
}

Result<ExprPtr> ExpressionParser::filters_and_tests(ExprPtr node) {
  for (;;) {
    if (tokens_.skip_operator("|")) BALLAST_CHECK(assign(node, filter(std::move(node))));
    else if (tokens_.skip_name("is")) BALLAST_CHECK(assign(node, test(std::move(node))));
    else if (tokens_.is_operator("(")) BALLAST_CHECK(assign(node, call(std::move(node))));
    else return node;
  }
}

Result<ExprPtr> ExpressionParser::filter(ExprPtr node) {
  Expr call = make_node(ExprKind::kFilter, tokens_.line());
  if (node) call.parts.push_back(std::move(node));
  BALLAST_CHECK(assign(call.name, tokens_.expect_name()));
  if (tokens_.is_operator("(")) BALLAST_CHECK(assign(call.arguments, arguments()));
  return finish(std::move(call));
}

Result<ExprPtr> ExpressionParser::filters_alone() {
  BALLAST_TRY(ExprPtr node, filter(nullptr));
  while (tokens_.skip_operator("|")) BALLAST_CHECK(assign(node, filter(std::move(node))));
  return node;
}

Result<ExprPtr> ExpressionParser::test(ExprPtr node) {
  const bool negated = tokens_.skip_name("not");
  Expr call = make_node(ExprKind::kTest, tokens_.line());
  call.parts.push_back(std::move(node));
  BALLAST_CHECK(assign(call.name, tokens_.expect_name()));
  const auto starts_argument = [this] {
    switch (tokens_.peek().kind) {
      case TokenKind::kName: return !tokens_.is_one_of({"else", "or", "and", "if", "is"});
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat: return true;
      default: return tokens_.is_operator("[") || tokens_.is_operator("{");
    }
  };
  if (tokens_.is_operator("(")) {
    BALLAST_CHECK(assign(call.arguments, arguments()));
  } else if (starts_argument()) {
    BALLAST_TRY(ExprPtr first, primary());
    BALLAST_TRY(ExprPtr argument, postfix(std::move(first)));
    call.arguments.push_back({"", std::move(argument)});
  }
  BALLAST_TRY(ExprPtr made, finish(std::move(call)));
  if (!negated) return made;
  Expr negation = make_node(ExprKind::kNot, made->line);
  negation.parts.push_back(std::move(made));
  return finish(std::move(negation));
}

}  // namespace ballast::jinja
