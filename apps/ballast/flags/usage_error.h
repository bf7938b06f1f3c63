// What is wrong with a command line, in our words instead of the option parser's.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ballast::cli {

// `chosen` is the command whose options were being read; the program itself where none was found.
std::string usage_error_text(const CLI::ParseError& error, const CLI::App& program, const CLI::App& chosen);

}  // namespace ballast::cli
