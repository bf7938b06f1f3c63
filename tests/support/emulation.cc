#include "tests/support/emulation.h"

#include <algorithm>
#include <cstdlib>

namespace ballast::testing {

bool is_emulated() { return std::getenv("BALLAST_TEST_EMULATED") != nullptr; }

size_t one_in() {
  const char* number = std::getenv("BALLAST_TEST_ONE_IN");
  return number == nullptr ? 1 : std::max<size_t>(1, std::strtoul(number, nullptr, 10));
}

}  // namespace ballast::testing
