#include "ballast/text/constraint/grammar_draft.h"

#include <algorithm>

namespace ballast {

ExprId GrammarDraft::add(GrammarExpr expr) {
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId GrammarDraft::sequence(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = GrammarExpr::Kind::kSequence, .parts = std::move(parts)});
}

// Texts among the parts become one prefix tree: a matcher then follows one of them instead of all.
ExprId GrammarDraft::choice(std::vector<ExprId> parts) {
  const auto is_text = [&](ExprId part) { return exprs_[part].kind == GrammarExpr::Kind::kTexts; };
  if (std::ranges::count_if(parts, is_text) > 1) {
    std::vector<std::string> together;
    for (const ExprId part : parts) {
      if (is_text(part)) together.insert(together.end(), exprs_[part].texts.begin(), exprs_[part].texts.end());
    }
    std::erase_if(parts, is_text);
    parts.push_back(texts(std::move(together)));
  }
  if (parts.size() == 1) return parts[0];
  return add({.kind = GrammarExpr::Kind::kChoice, .parts = std::move(parts)});
}

ExprId GrammarDraft::repeat(ExprId part, uint32_t least, uint32_t most) {
  if (least == 1 && most == 1) return part;
  return add({.kind = GrammarExpr::Kind::kRepeat, .parts = {part}, .least = least, .most = most});
}

ExprId GrammarDraft::call(RuleId rule) { return add({.kind = GrammarExpr::Kind::kRule, .rule = rule}); }

ExprId GrammarDraft::chars(CodePoints set) {
  return add({.kind = GrammarExpr::Kind::kChars, .chars = normalised(std::move(set))});
}

ExprId GrammarDraft::texts(std::vector<std::string> any_of) {
  std::ranges::sort(any_of);
  any_of.erase(std::unique(any_of.begin(), any_of.end()), any_of.end());
  return add({.kind = GrammarExpr::Kind::kTexts, .texts = std::move(any_of)});
}

RuleId GrammarDraft::add_rule(std::string name) {
  rules_.push_back({std::move(name), 0});
  return static_cast<RuleId>(rules_.size() - 1);
}

}  // namespace ballast
