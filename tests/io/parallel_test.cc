#include "ballast/io/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ballast {
namespace {

constexpr unsigned kParallelThreads[] = {0, 1, 2, 3, 8, 64};

TEST(ParallelFor, RunsEveryItemExactlyOnce) {
  for (const unsigned threads : kParallelThreads) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{1000}}) {
      std::vector<std::atomic<int>> runs(count);
      EXPECT_TRUE(parallel_for(count, threads, [&](size_t i) -> Status {
        ++runs[i];
        return {};
      }));
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(runs[i].load(), 1) << i << " of " << count;
    }
  }
}

TEST(ParallelFor, ReturnsTheErrorOfTheLowestIndexWhateverTheThreads) {
  for (const unsigned threads : kParallelThreads) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Status status = parallel_for(500, threads, [&](size_t i) -> Status {
        // The lowest failure comes after those above it.
        if (i == 137) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (i >= 137 && i % 2 == 1) return make_error(ErrorCode::kCorrupt, std::to_string(i));
        return {};
      });
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().message, "137");
    }
  }
}

TEST(ParallelFor, KeepsTheLowestErrorWhenAHigherOneComesLater) {
  std::atomic<bool> higher_started = false;
  const Status status = parallel_for(2, 2, [&](size_t i) -> Status {
    if (i == 0) {
      while (!higher_started.load()) std::this_thread::yield();
    } else {
      higher_started = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return make_error(ErrorCode::kCorrupt, std::to_string(i));
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "0");
}

TEST(ParallelFor, RunsEverythingBelowAFailure) {
  for (const unsigned threads : kParallelThreads) {
    std::vector<std::atomic<int>> runs(300);
    ASSERT_FALSE(parallel_for(300, threads, [&](size_t i) -> Status {
      ++runs[i];
      return i == 200 ? Status(make_error(ErrorCode::kIo, "x")) : Status();
    }));
    for (size_t i = 0; i <= 200; ++i) EXPECT_EQ(runs[i].load(), 1);
  }
}

TEST(ParallelFor, StopsSoonAfterAFailure) {
  for (const unsigned threads : {1U, 4U}) {
    std::atomic<size_t> ran = 0;
    ASSERT_FALSE(parallel_for(100'000, threads, [&](size_t i) -> Status {
      ++ran;
      if (i == 10) return make_error(ErrorCode::kIo, "x");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      return {};
    }));
    EXPECT_LT(ran.load(), 50'000U);
  }
}

TEST(ParallelFor, UsesNoMoreThreadsThanAskedForAndTheCallersIsOne) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> waiting = 0;
  ASSERT_TRUE(parallel_for(3, 3, [&](size_t) -> Status {
    ++waiting;
    while (waiting.load() < 3) std::this_thread::yield();  // all three at once, or never done
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
    return {};
  }));
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_TRUE(seen.contains(std::this_thread::get_id()));

  seen.clear();
  ASSERT_TRUE(parallel_for(50, 1, [&](size_t) -> Status {
    seen.insert(std::this_thread::get_id());
    return {};
  }));
  EXPECT_EQ(seen, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(ParallelFor, TurnsExceptionsIntoErrors) {
  for (const unsigned threads : {1U, 4U}) {
    const Status memory = parallel_for(10, threads, [](size_t i) -> Status {
      if (i == 5) throw std::bad_alloc();
      return {};
    });
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, ErrorCode::kOutOfMemory);

    const Status length = parallel_for(10, threads, [](size_t) -> Status {
      std::vector<char> impossible;
      impossible.reserve(impossible.max_size() + 1);
      return {};
    });
    ASSERT_FALSE(length);
    EXPECT_EQ(length.error().code, ErrorCode::kOutOfMemory);

    const Status other = parallel_for(10, threads, [](size_t) -> Status { throw std::runtime_error("the reason"); });
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(other.error().message, ::testing::HasSubstr("the reason"));
  }
}

TEST(ParallelFor, CanBeNested) {
  std::atomic<int> sum = 0;
  ASSERT_TRUE(parallel_for(8, 4, [&](size_t) {
    return parallel_for(8, 4, [&](size_t j) -> Status {
      sum += static_cast<int>(j);
      return {};
    });
  }));
  EXPECT_EQ(sum.load(), 8 * 28);
}

}  // namespace
}  // namespace ballast
