// From the syntax of tokenizer files to that of our regular expressions.
#pragma once

#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

// Rewrites what Oniguruma and PCRE2 read differently: \s, \S, \w, \W, \h and \H (Unicode's own classes), sets cut with
// &&, and the m of (?m:...). kUnsupported for sets within sets.
Result<std::string> to_pcre2_syntax(std::string_view expression);

}  // namespace ballast
