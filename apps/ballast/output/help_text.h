// The text of --help, as wide as the terminal.
#pragma once

#include <string>
#include <string_view>

namespace ballast::cli {

// Breaks lines that are too long between words: paragraphs are filled anew, descriptions of options stay in their
// column where there is room for it, and examples stay as they are, to be copied. `width` 0: the text as it is.
std::string fit_help(std::string_view text, size_t width);

}  // namespace ballast::cli
