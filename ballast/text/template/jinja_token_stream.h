// The tokens of a template with a place among them, shared by the parsers of statements and expressions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/text/template/jinja_lexer.h"

namespace ballast::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek() const { return tokens_[at_]; }
  const Token& peek_behind() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  uint32_t line() const { return peek().line; }

  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool is_operator(std::string_view text) const { return is(TokenKind::kOperator) && peek().text == text; }
  bool is_name(std::string_view text) const { return is(TokenKind::kName) && peek().text == text; }
  bool is_one_of(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (is_name(name)) return true;
    }
    return false;
  }
  bool skip_operator(std::string_view text) { return is_operator(text) && (take(), true); }
  bool skip_name(std::string_view text) { return is_name(text) && (take(), true); }

  // An error unless that is what comes next.
  Status expect_operator(std::string_view text);
  Result<std::string> expect_name();
  Error unexpected(std::string_view wanted) const;

 private:
  std::string description() const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace ballast::jinja
