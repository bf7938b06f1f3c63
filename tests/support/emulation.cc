#include "tests/support/emulation.h"

#include <cstdlib>

namespace ballast::testing {

bool is_emulated() { return std::getenv("BALLAST_TEST_EMULATED") != nullptr; }

}  // namespace ballast::testing
