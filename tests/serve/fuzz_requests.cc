// Requests that libFuzzer makes up: the first line is method and path, the rest the body. An answer with something
// wrong in it is a crash. BALLAST_FUZZ_SEEDS names a folder that gets the requests to begin with.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/request_fuzz.h"
#include "tests/support/service_rig.h"

namespace {

using ballast::testing::FuzzRequest;

ballast::testing::ServiceRig& fuzzed_rig() {
  // Never destroyed: libFuzzer leaves by _Exit.
  static auto* const rig = [] {
    auto options = ballast::testing::rig_options();
    options.most_tokens = 2;
    options.most_choices = 3;
    return new ballast::testing::ServiceRig(std::move(options));
  }();
  return *rig;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* const folder = std::getenv("BALLAST_FUZZ_SEEDS")) {
    int number = 0;
    for (const FuzzRequest& seed : ballast::testing::fuzz_seeds()) {
      std::ofstream file(std::string(folder) + "/seed-" + std::to_string(number++), std::ios::binary);
      file << ballast::testing::fuzz_text(seed);
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const FuzzRequest request = ballast::testing::fuzz_request({reinterpret_cast<const char*>(data), size});
  const auto answer = fuzzed_rig().start(request.method, request.path, request.body).sink->wait();
  const std::string fault = ballast::testing::fault_of(answer);
  if (fault.empty()) return 0;
  std::fprintf(stderr, "%s\n", fault.c_str());
  std::abort();
}
