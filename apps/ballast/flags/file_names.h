// Names of files made from names of tensors.
#pragma once

#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast::cli {

// A plain file name that every file system takes: letters, digits, '.', '-' and '_' stay, every other byte becomes %XX.
// Different texts give different names, except on file systems that ignore case. kInvalidArgument for a text that is
// empty or too long.
Result<std::string> safe_file_name(std::string_view text);

// It ends in '/', or is one.
bool names_a_folder(const std::string& path);

}  // namespace ballast::cli
