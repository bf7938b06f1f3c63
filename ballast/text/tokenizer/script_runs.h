// Where a text changes from one script to another.
#pragma once

#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

// The three scripts of Japanese count as one, and a space belongs to whatever it stands beside. kUnsupported where the
// library of regular expressions knows no scripts.
Result<std::vector<std::string_view>> script_runs(std::string_view text);

}  // namespace ballast
