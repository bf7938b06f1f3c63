// An engine on a GPU that is made up (tests/cuda/fake_driver.cc).
#include <gtest/gtest.h>

#include "tests/support/engine_lab.h"
#include "tests/support/fake_cuda.h"

namespace ballast::testing {
namespace {

// Pages, parameters and activations in memory that the host does not reach.
TEST(CudaEngine, WritesTheTextsOfTheHost) {
  fresh_fake_cuda();
  const std::string path = recorded_model_path("gpt_micro");
  const auto host = load_or_die(path, {.backend = "cpu"});
  const auto device = load_or_die(path, {.own_backend = &fake_cuda_backend()});
  for (const uint64_t seed : {1U, 2U}) {
    Request request = request_of({1, 2, 3, 4}, 5);
    request.sampling = {.seed = seed};
    EXPECT_TRUE(answer_alone(*device, request) == answer_alone(*host, request)) << seed;
  }
}

}  // namespace
}  // namespace ballast::testing
