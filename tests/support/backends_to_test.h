// The backends that tests of every backend run on.
#pragma once

#include <vector>

#include "ballast/backends/backends.h"

namespace ballast::testing {

// Those that compute on this machine. `opencl` only where BALLAST_TEST_OPENCL is set (tests/opencl/run_tests): drivers
// for CPUs compile its kernels for minutes.
std::vector<const Backend*> backends_to_test();

}  // namespace ballast::testing
