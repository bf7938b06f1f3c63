#pragma once

#include <chrono>

namespace ballast::cli {

// For differences only: where it starts is the system's affair.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ballast::cli
