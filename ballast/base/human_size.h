// Numbers of bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace ballast {

// Three digits in the unit that suits: "20 B", "8.66 KiB", "11.9 MiB", "1.21 GiB".
std::string human_size(uint64_t bytes);

}  // namespace ballast
