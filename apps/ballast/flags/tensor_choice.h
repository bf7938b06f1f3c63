// Which tensors of a file the user means.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/formats/archive.h"

namespace ballast::cli {

// Positions of the tensors whose name one of the regular expressions finds, in the archive's order; all without any.
Result<std::vector<size_t>> select_tensors(const Archive& archive, const std::vector<std::string>& only);

// The tensor of this name, or the one whose id these 32 digits are (`inspect --json` shows ids as "base_id").
std::optional<size_t> find_tensor(std::span<const TensorInfo> tensors, std::string_view name_or_id);

// kNotFound, with the name or the id that was most likely meant.
Error no_such_tensor(std::span<const TensorInfo> tensors, const std::string& path, std::string_view name_or_id);

}  // namespace ballast::cli
