#include "ballast/text/template/jinja_token_stream.h"

#include <fmt/format.h>

namespace ballast::jinja {

Status TokenStream::expect_operator(std::string_view text) {
  if (skip_operator(text)) return {};
  return unexpected(fmt::format("'{}'", text));
}

Result<std::string> TokenStream::expect_name() {
  if (!is(TokenKind::kName)) return unexpected("a name");
  return take().text;
}

Error TokenStream::unexpected(std::string_view wanted) const {
  return syntax_error(line(), fmt::format("expected {}, found {}", wanted, description()));
}

std::string TokenStream::description() const {
  switch (peek().kind) {
    case TokenKind::kData: return "text";
    case TokenKind::kBlockBegin: return "'{%'";
    case TokenKind::kBlockEnd: return "'%}'";
    case TokenKind::kVariableBegin: return "'{{'";
    case TokenKind::kVariableEnd: return "'}}'";
    case TokenKind::kEnd: return "the end of the template";
    default: return fmt::format("'{}'", peek().text);
  }
}

}  // namespace ballast::jinja
