// Which tensors of a file the user means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/formats/archive.h"

namespace ballast::cli {

// Positions of the tensors whose name one of the regular expressions finds, in the archive's order; all without any.
Result<std::vector<size_t>> select_tensors(const Archive& archive, const std::vector<std::string>& only);

// kNotFound, with the name that was most likely meant.
Error no_such_tensor(const Archive& archive, const std::string& path, std::string_view name);

}  // namespace ballast::cli
