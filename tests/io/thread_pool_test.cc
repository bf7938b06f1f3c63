#include "ballast/io/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/memory_meter.h"

namespace ballast {
namespace {

constexpr unsigned kPoolThreads[] = {1, 2, 3, 7, 16};

TEST(ThreadPool, CoversEveryIndexOnceInMultiplesOfTheGrain) {
  for (const unsigned threads : kPoolThreads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const size_t count : {0U, 1U, 2U, 7U, 64U, 1000U, 4099U}) {
      for (const size_t grain : {0U, 1U, 3U, 64U, 5000U}) {
        std::vector<std::atomic<int>> seen(count);
        pool.for_ranges(count, grain, [&](size_t begin, size_t end) {
          EXPECT_LT(begin, end);
          EXPECT_LE(end, count);
          if (grain > 1) {
            EXPECT_EQ(begin % grain, 0U);
          }
          if (grain > 1 && end != count) {
            EXPECT_EQ(end % grain, 0U);
          }
          for (size_t i = begin; i < end; ++i) ++seen[i];
        });
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(seen[i].load(), 1) << i << " of " << count;
      }
    }
  }
}

TEST(ThreadPool, WhatTheBodyWroteIsSeenByTheCaller) {
  ThreadPool pool(4);
  std::vector<uint64_t> values(1000);
  for (uint64_t round = 1; round <= 3000; ++round) {
    pool.for_ranges(values.size(), 10, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) values[i] += i;
    });
  }
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 3000 * i);
}

TEST(ThreadPool, SeveralThreadsTakePart) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::atomic<int> arrived = 0;
  pool.for_ranges(3, 1, [&](size_t, size_t) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();  // ends only when three are here at once
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 3U);
}

TEST(ThreadPool, WakesThreadsThatSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> arrived = 0;
    pool.for_ranges(2, 1, [&](size_t, size_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

TEST(ThreadPool, TheCallerWaitsForPiecesThatTakeLong) {
  ThreadPool pool(2);
  std::atomic<int> arrived = 0, left = 0;
  const auto caller = std::this_thread::get_id();
  pool.for_ranges(2, 1, [&](size_t, size_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    if (std::this_thread::get_id() != caller) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++left;
  });
  EXPECT_EQ(left, 2);
}

TEST(ThreadPool, ALoopInsideALoopRunsInline) {
  ThreadPool pool(3);
  std::atomic<int> total = 0;
  pool.for_ranges(20, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      pool.for_ranges(10, 1, [&](size_t from, size_t to) {
        pool.for_ranges(to - from, 1, [&](size_t a, size_t b) { total += static_cast<int>(b - a); });
      });
    }
  });
  EXPECT_EQ(total, 200);
}

TEST(ThreadPool, TwoCallersDoNotDisturbEachOther) {
  ThreadPool pool(3);
  const auto work = [&](std::vector<int>& values) {
    for (int round = 0; round < 500; ++round) {
      pool.for_ranges(values.size(), 7, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) ++values[i];
      });
    }
  };
  std::vector<int> mine(300), theirs(200);
  std::thread other([&] { work(theirs); });
  work(mine);
  other.join();
  EXPECT_EQ(mine, std::vector<int>(300, 500));
  EXPECT_EQ(theirs, std::vector<int>(200, 500));
}

TEST(ThreadPool, ALoopAllocatesNothing) {
  ThreadPool pool(3);
  std::atomic<uint64_t> sum = 0;
  const auto loop = [&] { pool.for_ranges(1000, 1, [&](size_t begin, size_t end) { sum += end - begin; }); };
  loop();
  const testing::MemoryMeter meter;
  for (int i = 0; i < 100; ++i) loop();
  EXPECT_EQ(meter.peak(), 0U);
  EXPECT_EQ(sum, 101000U);
}

TEST(ThreadPool, AsManyAsTheMachineHas) {
  ThreadPool pool;
  EXPECT_EQ(pool.size(), std::max(1U, std::thread::hardware_concurrency()));
}

TEST(ThreadPool, ComesAndGoes) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(4);
    if (i % 2 == 0) pool.for_ranges(8, 1, [](size_t, size_t) {});
  }
}

}  // namespace
}  // namespace ballast
