// Which Ballast this is. The number itself stands in CMakeLists.txt; the definitions are generated from it.
#pragma once

#include <string_view>

namespace ballast {

// "0.1.0"
std::string_view version();

// The commit it was built from, as `git describe` names it ("-dirty" when files were changed); empty outside a clone.
std::string_view build_id();

}  // namespace ballast
