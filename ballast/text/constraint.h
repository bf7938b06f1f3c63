// Structured output: text that follows a JSON Schema, a grammar or a regular expression, whatever the model would
// rather say.
//
// A constraint is compiled once and used for any number of texts. Before each token is drawn, it forbids the tokens
// that would break the text, and it allows the end of the text exactly where the text is complete:
//
//   BALLAST_TRY(const Constraint constraint, Constraint::of_schema(R"({"type": "object", ...})"));
//   GenerateOptions options = model.generate_options();
//   BALLAST_TRY(options.constraint, model.constrain(constraint));
//
// docs/structured.md says what schemas, grammars and expressions may contain.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string_view>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"

namespace ballast {

class Grammar;     // text/constraint/grammar.h
class Tokenizer;   // text/tokenizer.h
class TokenMasks;  // text/constraint/token_masks.h
class TokenTrees;  // text/constraint/token_tree.h

// Immutable; copies share what they hold, and any number of threads may use them.
//
// Errors are kInvalidArgument for what is wrong, and kUnsupported for what Ballast cannot enforce, by its name and its
// place. Sizes are limited, so that a stranger's schema takes neither long nor much memory.
class Constraint {
 public:
  // Any JSON object.
  static Result<Constraint> of_json_object();
  // JSON that the schema accepts. Properties come in the order of the schema. Keywords that would change what is valid
  // and are not supported are refused.
  static Result<Constraint> of_schema(std::string_view json);
  // GBNF, the notation of llama.cpp. The text is what its rule "root" matches.
  static Result<Constraint> of_grammar(std::string_view gbnf);
  // The whole text matches the expression.
  static Result<Constraint> of_regex(std::string_view expression);

  // Whether a text is complete: one that max_tokens or a full context cut off is not.
  bool accepts(std::string_view text) const;

 private:
  friend class TokenConstraint;
  explicit Constraint(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {}

  std::shared_ptr<const Grammar> grammar_;
};

// What a constraint needs to know of a vocabulary. Made once for each: it takes some tens of milliseconds.
Result<std::shared_ptr<const TokenTrees>> make_token_trees(const Tokenizer& tokenizer);

// A constraint for the tokens of one vocabulary: what GenerateOptions::constraint takes. Copies share what they have
// learnt about the vocabulary; any number of threads may use them.
class TokenConstraint {
 public:
  static Result<TokenConstraint> make(const Constraint& constraint, std::shared_ptr<const TokenTrees> trees);
  // Of this constraint or a copy of it.
  bool is_of(const Constraint& constraint) const;
  // Nobody has the constraint any more.
  bool is_abandoned() const;
  // Of memory that copies share, about: the compiled constraint, and what it has learnt of the vocabulary so far.
  size_t bytes() const;

  // Forbids tokens of one text: what Request::constraint takes. `text` is prompt and what was generated. It remembers
  // how far the text was, and looks at it from the beginning where it is another one.
  using Rule = std::function<Status(std::span<float> logits, std::span<const TokenId> text)>;
  // For a text whose prompt has so many tokens, and which any of these tokens ends.
  Rule operator()(uint64_t prompt_tokens, std::span<const TokenId> stop_tokens) const;

 private:
  explicit TokenConstraint(std::shared_ptr<TokenMasks> masks) : masks_(std::move(masks)) {}

  std::shared_ptr<TokenMasks> masks_;
};

// The constraints that one vocabulary was asked for. What they learn of it is kept for the next text, as long as the
// constraint is. One thread at a time.
class TokenConstraints {
 public:
  Result<TokenConstraint> find(const Constraint& constraint, const std::shared_ptr<const TokenTrees>& trees);

 private:
  std::list<TokenConstraint> known_;  // those that were asked for last come first
};

}  // namespace ballast
