// How alike two names are.
#pragma once

#include <string_view>

namespace ballast {

// Jaro similarity, 0 to 1. Only the first 512 bytes of a name count.
double jaro_similarity(std::string_view a, std::string_view b);

}  // namespace ballast
