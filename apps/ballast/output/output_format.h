// Which format a command writes.
#pragma once

#include <string>

#include "ballast/formats/format.h"

namespace ballast::cli {

// The format called `name`, or where that is empty the one of the destination's extension. The error names what there
// is, and what may have been meant.
Result<const FormatDriver*> choose_format(const std::string& name, const std::string& destination);

}  // namespace ballast::cli
