// Saves checkpoints in a loop until it is killed: what scripts/crash_test kills.
//
//   checkpoint_writer FOLDER    goes on from the newest sound checkpoint; prints "durable N" once step N is durable,
//   and
//                               exits with 1 and a text as soon as anything is not as it was saved
//   checkpoint_writer FOLDER --check    only checks, and prints "newest N"
#include <cstdio>
#include <cstring>

#include "tests/training/checkpoint_testing.h"

namespace ballast::testing {
namespace {

constexpr size_t kElements = 60'000;  // three files' worth of several writes each

int fail(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  return 1;
}

int run(const std::string& folder, bool check_only) {
  CheckpointOptions options;
  options.policy.keep_last = 3;
  options.policy.keep_every = 50;
  options.threads = 1;
  auto manager = CheckpointManager::open(folder, options);
  if (!manager) return fail(manager.error().message);
  auto resumed = (*manager)->resume();
  if (!resumed) return fail(resumed.error().message);
  if (!resumed->rejected.empty()) return fail("rejected: " + resumed->rejected.front());
  SampleRun sample(kElements);
  uint64_t step = 0;
  if (resumed->checkpoint) {
    step = resumed->checkpoint->step();
    const std::string difference = describe_difference(sample.at(step), *resumed->checkpoint);
    if (!difference.empty()) return fail(fmt::format("step {}: {}", step, difference));
  }
  if (check_only) {
    std::printf("newest %llu\n", static_cast<unsigned long long>(step));
    return 0;
  }
  uint64_t told = step;
  for (;;) {
    const auto saved = (*manager)->save(sample.at(++step));
    if (!saved) return fail(saved.error().message);
    const auto durable = (*manager)->last_commit();
    if (!durable || durable->step == told) continue;
    told = durable->step;
    std::printf("durable %llu\n", static_cast<unsigned long long>(told));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace ballast::testing

int main(int argc, char** argv) {
  if (argc < 2) return ballast::testing::fail("checkpoint_writer FOLDER [--check]");
  return ballast::testing::run(argv[1], argc > 2 && std::strcmp(argv[2], "--check") == 0);
}
