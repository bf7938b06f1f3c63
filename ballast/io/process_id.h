// Tells a process from those that it forks.
#pragma once

#include <cstdint>

namespace ballast {

int64_t process_id();

}  // namespace ballast
