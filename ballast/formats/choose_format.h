// Which format a file is written in, as a person or a program says it.
#pragma once

#include <string_view>

#include "ballast/formats/format.h"

namespace ballast {

// The format called `name`; where that is empty, the one of the destination's extension. kInvalidArgument says which
// there are.
Result<const FormatDriver*> choose_format(std::string_view name, std::string_view destination = {});

}  // namespace ballast
