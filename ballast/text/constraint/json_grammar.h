// The parts of JSON as expressions of a grammar.
#pragma once

#include <optional>
#include <string_view>

#include "ballast/text/constraint/grammar_draft.h"

namespace ballast {

// Writes the rules that are asked for into a draft, each once. White space is limited to what people and programs write
// (nothing, a space, or a line break with indentation), so that a text cannot go on with it forever. Numbers are
// limited to what a double holds.
class JsonGrammar {
 public:
  // The draft must outlive it.
  explicit JsonGrammar(GrammarDraft& draft) : draft_(draft) {}

  ExprId space();
  ExprId any_value();
  ExprId any_object();
  ExprId any_string();  // with its quotes
  // Characters inside quotes, `least` to `most` of them; escapes count as one.
  ExprId string_of_length(uint32_t least, uint32_t most);
  // One of these characters as it is written inside quotes.
  ExprId string_chars(const CodePoints& set);
  ExprId number();
  ExprId integer();
  // A fraction and an exponent, both optional.
  ExprId number_tail();
  // "[" elements "]" and "{" members "}" of any number: `item` is an element, or a member with its name.
  ExprId list(char open, ExprId item, uint32_t least, uint32_t most, char close);
  // "name": with the white space behind it.
  ExprId member_name(ExprId name);
  ExprId text(std::string_view bytes) { return draft_.text(bytes); }

 private:
  ExprId string_char();

  GrammarDraft& draft_;
  std::optional<ExprId> space_, char_, string_, number_, value_, object_;
};

// A text as JSON writes it, in quotes.
std::string quoted_json(std::string_view text);

}  // namespace ballast
