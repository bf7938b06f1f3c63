// Remedies in words, for programs that show or offer them.
#pragma once

#include <string_view>

#include "ballast/base/remedy.h"

namespace ballast {

// "allow_overwrite", ...: a stable word. Both end with a NUL, for C.
std::string_view remedy_name(Remedy remedy);
// "ask for overwriting": the same for people.
std::string_view remedy_text(Remedy remedy);

}  // namespace ballast
