#include "tests/support/backends_to_test.h"

#include <cstdlib>

#include "ballast/backends/opencl.h"

namespace ballast::testing {

std::vector<const Backend*> backends_to_test() {
  const bool has_opencl = std::getenv("BALLAST_TEST_OPENCL") != nullptr;
  std::vector<const Backend*> backends;
  for (const Backend* backend : all_backends()) {
    if (backend == &kOpenClBackend && !has_opencl) continue;
    if (backend->find_devices == nullptr || backend->find_devices()) backends.push_back(backend);
  }
  return backends;
}

}  // namespace ballast::testing
