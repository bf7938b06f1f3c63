// The grammar of what stands inside tags.
#pragma once

#include "ballast/base/result.h"
#include "ballast/text/template/jinja_syntax.h"
#include "ballast/text/template/jinja_token_stream.h"

namespace ballast::jinja {

// Levels of parentheses, brackets, operators and blocks: more would be an attack on the stack, not a template.
inline constexpr uint32_t kMostNesting = 200;

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Result<ExprPtr> expression();
  // Without a conditional at the end: `for x in expression if ...`.
  Result<ExprPtr> expression_or_tuple(bool with_conditional = true);
  // name(arguments) | name | ..., without anything in front: what {% filter %} and {% set x | ... %} have.
  Result<ExprPtr> filters_alone();

  // Which of these names were read since the last call.
  MacroExtras take_extras() { return std::exchange(extras_, {}); }
  void add_extras(const MacroExtras& more);

 private:
  using Level = Result<ExprPtr> (ExpressionParser::*)();

  Result<ExprPtr> conditional();
  Result<ExprPtr> either();
  Result<ExprPtr> both();
  Result<ExprPtr> negation();
  Result<ExprPtr> comparison();
  Result<ExprPtr> sum();
  Result<ExprPtr> concatenation();
  Result<ExprPtr> product();
  Result<ExprPtr> power();
  Result<ExprPtr> unary(bool with_filters);
  Result<ExprPtr> with_filters() { return unary(true); }
  Result<ExprPtr> primary();
  Result<ExprPtr> name_or_constant();
  Result<ExprPtr> parenthesised();
  Result<ExprPtr> list();
  Result<ExprPtr> dict();
  Result<ExprPtr> postfix(ExprPtr node);
  Result<ExprPtr> attribute(ExprPtr node);
  Result<ExprPtr> subscript(ExprPtr node);
  Result<ExprPtr> call(ExprPtr node);
  Result<ExprPtr> filters_and_tests(ExprPtr node);
  Result<ExprPtr> filter(ExprPtr node);
  Result<ExprPtr> test(ExprPtr node);
  Result<std::vector<Argument>> arguments();
  Result<ExprPtr> chain(ExprKind kind, Level operand, std::initializer_list<std::pair<std::string_view, Operator>> ops);
  Result<ExprPtr> joined(ExprKind kind, Level operand, TokenKind separator_kind, std::string_view separator);
  // Computes the depth and refuses what is too deep.
  Result<ExprPtr> finish(Expr node);

  TokenStream& tokens_;
  uint32_t nesting_ = 0;
  MacroExtras extras_;
};

}  // namespace ballast::jinja
