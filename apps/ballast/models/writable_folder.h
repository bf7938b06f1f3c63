// Whether files can be put below a folder, asked before anything is fetched.
#pragma once

#include <string>

#include "ballast/base/result.h"

namespace ballast::cli {

// The folder need not exist: then the nearest one above it decides. Makes nothing.
Status check_writable_below(const std::string& folder);
// kIo where the disk has fewer bytes left.
Status check_free_space(const std::string& folder, uint64_t bytes);

}  // namespace ballast::cli
