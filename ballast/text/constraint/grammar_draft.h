// A grammar while a front end writes it: rules and the expressions that define them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/text/constraint/code_points.h"

namespace ballast {

class Grammar;  // text/constraint/grammar.h

using ExprId = uint32_t;
using RuleId = uint32_t;
inline constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

// How an expression is made of others. Expressions may be shared by several; only rules may be recursive.
struct GrammarExpr {
  enum class Kind : uint8_t { kSequence, kChoice, kRepeat, kRule, kChars, kTexts };
  Kind kind;
  std::vector<ExprId> parts{};       // kSequence (none: the empty text), kChoice (none: nothing matches), kRepeat
  uint32_t least = 0, most = 0;      // kRepeat
  RuleId rule = 0;                   // kRule
  CodePoints chars{};                // kChars
  std::vector<std::string> texts{};  // kTexts: one of these, in ascending order
};

class GrammarDraft {
 public:
  ExprId empty() { return sequence({}); }
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> parts);
  ExprId repeat(ExprId part, uint32_t least, uint32_t most);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  ExprId call(RuleId rule);
  ExprId chars(CodePoints set);  // any order, may overlap
  ExprId text(std::string_view bytes) { return texts({std::string(bytes)}); }
  ExprId texts(std::vector<std::string> any_of);

  // `name` is what errors call it.
  RuleId add_rule(std::string name);
  void define(RuleId rule, ExprId expr) { rules_[rule].expr = expr; }

  const GrammarExpr& expr(ExprId id) const { return exprs_[id]; }
  const std::string& name(RuleId rule) const { return rules_[rule].name; }
  ExprId definition(RuleId rule) const { return rules_[rule].expr; }
  size_t rule_count() const { return rules_.size(); }

  // kInvalidArgument for a grammar that is left-recursive or whose text could never end, by the name of the rule, and
  // for one beyond the limits of size, with the numbers. `where` names the grammar.
  Result<std::shared_ptr<const Grammar>> compile(RuleId root, std::string_view where) const;

 private:
  struct Rule {
    std::string name;
    ExprId expr = 0;
  };
  ExprId add(GrammarExpr expr);

  std::vector<GrammarExpr> exprs_;
  std::vector<Rule> rules_;
};

}  // namespace ballast
