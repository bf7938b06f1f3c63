#include "ballast/text/constraint.h"

#include "ballast/io/guard.h"
#include "ballast/text/constraint/gbnf.h"
#include "ballast/text/constraint/json_grammar.h"
#include "ballast/text/constraint/json_schema.h"
#include "ballast/text/constraint/matcher.h"
#include "ballast/text/constraint/regex.h"

namespace ballast {

Result<Constraint> Constraint::of_json_object() {
  return guarded([]() -> Result<Constraint> {
    GrammarDraft draft;
    JsonGrammar json(draft);
    const RuleId root = draft.add_rule("JSON object");
    draft.define(root, draft.sequence({json.space(), json.any_object()}));
    BALLAST_TRY(auto grammar, draft.compile(root, "JSON"));
    return Constraint(std::move(grammar));
  });
}

Result<Constraint> Constraint::of_schema(std::string_view schema) {
  return guarded([&]() -> Result<Constraint> {
    BALLAST_TRY(auto grammar, compile_json_schema(schema));
    return Constraint(std::move(grammar));
  });
}

Result<Constraint> Constraint::of_grammar(std::string_view gbnf) {
  return guarded([&]() -> Result<Constraint> {
    BALLAST_TRY(auto grammar, compile_gbnf(gbnf));
    return Constraint(std::move(grammar));
  });
}

Result<Constraint> Constraint::of_regex(std::string_view expression) {
  return guarded([&]() -> Result<Constraint> {
    GrammarDraft draft;
    const RuleId root = draft.add_rule("the expression");
    BALLAST_TRY(const ExprId expr, parse_regex(draft, expression, {.where = "regular expression"}));
    draft.define(root, expr);
    BALLAST_TRY(auto grammar, draft.compile(root, "regular expression"));
    return Constraint(std::move(grammar));
  });
}

bool Constraint::accepts(std::string_view text) const {
  Matcher matcher(grammar_);
  for (const char c : text) {
    if (!matcher.advance(static_cast<uint8_t>(c))) return false;
  }
  return matcher.is_complete();
}

}  // namespace ballast
