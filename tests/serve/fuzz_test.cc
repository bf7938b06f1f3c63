// Requests damaged at random: each is answered as if nobody had meant harm, and leaves nothing behind. `make
// fuzz-serve` is the long form, which looks for requests that reach code nothing has reached before.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/support/request_fuzz.h"
#include "tests/support/service_rig.h"

namespace ballast::testing {
namespace {

constexpr uint64_t kFuzzSeed = 20'261'118;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kFuzzRounds = 1500;  // instrumented, each takes several times as long
#else
constexpr uint64_t kFuzzRounds = 4000;
#endif

// BALLAST_FUZZ_ROUNDS and BALLAST_FUZZ_SEED ask for more, or for others.
uint64_t asked(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

serve::ServiceOptions fuzz_options() {
  serve::ServiceOptions options = rig_options();
  options.most_tokens = 2;
  options.most_choices = 3;
  return options;
}

TEST(RequestFuzz, TheSeedsAreReadableThemselves) {
  const auto seeds = fuzz_seeds();
  EXPECT_GT(seeds.size(), 80U);
  for (const FuzzRequest& seed : seeds) {
    const FuzzRequest again = fuzz_request(fuzz_text(seed));
    EXPECT_EQ(again.method, seed.method);
    EXPECT_EQ(again.path, seed.path);
    EXPECT_EQ(again.body, seed.body);
  }
}

TEST(RequestFuzz, DamagedRequestsAreAnsweredAndLeaveNothingBehind) {
  ServiceRig rig(fuzz_options());
  const uint64_t seed = asked("BALLAST_FUZZ_SEED", kFuzzSeed);
  const uint64_t rounds = asked("BALLAST_FUZZ_ROUNDS", kFuzzRounds);
  RequestMutator mutator(fuzz_seeds(), seed);
  std::map<int, uint64_t> statuses;
  for (uint64_t round = 0; round < rounds; ++round) {
    const FuzzRequest request = mutator.next();
    const auto started = rig.start(request.method, request.path, request.body);
    if (mutator.below(16) == 0) {  // some clients do not wait
      if (started.leave) started.leave();
      rig.wait_until_idle();
      continue;
    }
    const serve::HttpAnswer answer = started.sink->wait();
    ++statuses[answer.status];
    const std::string fault = fault_of(answer);
    ASSERT_EQ(fault, "") << fmt::format("round {} of seed {}: ", round, seed) << fuzz_text(request);
  }
  // Otherwise the mutations are too wild or too tame to find anything.
  EXPECT_GT(statuses[200], rounds / 50);
  EXPECT_GT(statuses[400], rounds / 4);
  rig.wait_until_idle();
  for (const char* model : {"tiny", "thinker", "plain"}) {
    rig.wait_for_metric(fmt::format("ballast_kv_cache_pages_in_use{{model=\"{}\"}}", model), 0);
    EXPECT_EQ(rig.metric(fmt::format("ballast_sequences_failed_total{{model=\"{}\"}}", model)), 0);
  }
}

}  // namespace
}  // namespace ballast::testing
