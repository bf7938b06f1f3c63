// Regular expressions as expressions of a grammar.
#pragma once

#include <string>
#include <string_view>

#include "ballast/text/constraint/grammar_draft.h"

namespace ballast {

class JsonGrammar;  // text/constraint/json_grammar.h

struct RegexOptions {
  std::string where;  // names the expression in errors
  // The expression is matched by what a JSON string means, so its characters are written as inside quotes.
  JsonGrammar* json = nullptr;
  // It may match a part of the text, as in JSON Schema, unless ^ and $ stand at its ends.
  bool is_search = false;
};

// As JavaScript writes them: characters, escapes, classes, \d \w \s and their opposites, `.`, groups, alternatives and
// quantifiers; ^ and $ at the ends of the expression or of one of its alternatives. What no finite automaton can match
// (references, looking around) and flags are kUnsupported, by name.
Result<ExprId> parse_regex(GrammarDraft& draft, std::string_view expression, const RegexOptions& options);

}  // namespace ballast
