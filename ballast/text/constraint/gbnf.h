// GBNF, llama.cpp's notation for grammars.
#pragma once

#include <memory>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

class Grammar;  // text/constraint/grammar.h

// Rules (`name ::= ...`), alternatives, groups, "texts", [sets] and [^sets] with ranges, `.`, escapes, the repetitions
// * + ? {m} {m,} {m,n}, and # comments. Errors name the line.
Result<std::shared_ptr<const Grammar>> compile_gbnf(std::string_view text);

}  // namespace ballast
