// The text of a template, cut into what stands outside of tags and the words inside them.
//
// White space is settled here, as transformers sets it up: `-` in a tag strips, the line break behind a block tag or a
// comment goes (trim_blocks), so do blanks before one at the start of a line (lstrip_blocks), and the last line break
// of the template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast::jinja {

enum class TokenKind : uint8_t {
  kData,           // text as it will be printed
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kInteger,  // digits without separators, decimal
  kFloat,
  kString,  // with escapes undone
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  uint32_t line;  // 1 is the first
};

// The last token is kEnd.
Result<std::vector<Token>> cut_template(std::string_view source);

// "chat template, line 7: <what>"
Error syntax_error(uint32_t line, std::string_view what);

}  // namespace ballast::jinja
