// Where something long will write when it is over, looked at before it begins.
#pragma once

#include <string>

#include "ballast/base/result.h"

namespace ballast {

// Whether a file can be written there: it is no folder, and its folder can be written to or, where it is missing, be
// created. kExists where a file is there and `overwrite` is off. Nothing is created.
Status check_output_path(const std::string& path, bool overwrite);

// Whether both name one file: the one that is there, or the one that either would create.
bool is_same_place(const std::string& a, const std::string& b);

}  // namespace ballast
