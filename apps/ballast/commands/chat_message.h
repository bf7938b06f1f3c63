// A message in several lines: a backslash at the end of a line, or a block between """ and """.
#pragma once

#include <string>
#include <string_view>

namespace ballast::cli {

// The last line asks for another one.
bool is_unfinished_message(std::string_view text);
// What is said: without the backslashes and the quotes that held it together.
std::string message_of(std::string_view text);

}  // namespace ballast::cli
