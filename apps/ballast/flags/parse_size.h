// Sizes as people write them: 500MB, 2GiB, 64k.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ballast::cli {

// 1000 for "kb", 1024 for "kib", and so on, in any case; 1 for "" and "b"; 0 for what is no unit.
double unit_factor(std::string_view unit);

// Bytes, at least one; nullopt for what is no size, or has a fraction of a byte.
std::optional<uint64_t> parse_size(std::string_view text);

}  // namespace ballast::cli
