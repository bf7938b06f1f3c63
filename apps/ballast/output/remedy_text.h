// What an error of the library means for whoever typed the command: which flag would help.
#pragma once

#include <string>

#include "ballast/base/result.h"

namespace ballast::cli {

// "; --overwrite replaces it": what follows a message. Empty where nothing is known to help.
std::string remedy_text(Remedies remedies);

// The library's message and what helps.
std::string error_text(const Error& error);

}  // namespace ballast::cli
