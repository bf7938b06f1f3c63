#include "ballast/archive/memory_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace ballast {
namespace {

TEST(MemoryGate, LetsInWhatFitsAndTheLargestAlone) {
  MemoryGate gate(100);
  std::atomic<uint64_t> inside{0};
  std::atomic<uint64_t> worst{0};
  std::vector<std::thread> threads;
  for (const uint64_t bytes :
       {uint64_t{40}, uint64_t{60}, uint64_t{250}, uint64_t{100}, uint64_t{30}, UINT64_MAX / 2}) {
    threads.emplace_back([&, bytes] {
      for (int round = 0; round < 200; ++round) {
        const MemoryGate::Pass pass(gate, bytes);
        const uint64_t now = inside.fetch_add(bytes) + bytes;
        if (now > 100 && now != bytes) worst.store(now);
        std::this_thread::yield();
        inside.fetch_sub(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(worst.load(), 0U);
}

}  // namespace
}  // namespace ballast
