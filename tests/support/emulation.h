// Tests under an emulator, which is ten to fifty times slower than the processor it runs on.
#pragma once

#include <cstddef>

namespace ballast::testing {

// Whether limits of processor time mean nothing (BALLAST_TEST_EMULATED=1).
bool is_emulated();

// Of damaged copies and random inputs one in so many is tried (BALLAST_TEST_ONE_IN=N); 1, all of them, by default.
size_t one_in();

}  // namespace ballast::testing
