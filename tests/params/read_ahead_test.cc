// Reading ahead, failing sources, and several threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "ballast/params/param_store.h"
#include "tests/support/param_sources.h"

namespace ballast {
namespace {

using testing::Gate;
using testing::GeneratedSource;
using ::testing::HasSubstr;
using testing::holds_generated;
using testing::make_info;
using testing::make_matrices;
using testing::open_store;

constexpr uint64_t kTile = 64 * 64 * 4;

void use(ParamStore& store, size_t index) {
  const auto lease = store.whole(*store.get("w" + std::to_string(index)));
  ASSERT_TRUE(lease) << lease.error().message;
  ASSERT_TRUE(holds_generated(lease->bytes(), index, 0)) << index;
}

// Looks without changing what is there: a single row is a hit exactly when its tile is.
bool is_here(ParamStore& store, size_t index) {
  const uint64_t misses = store.stats().misses;
  ByteVector row(256);
  EXPECT_TRUE(store.read_row(*store.get("w" + std::to_string(index)), 0, row));
  return store.stats().misses == misses;
}

TEST(ReadAhead, TheNextPieceOfTheLearnedOrderComesWhileThisOneIsInUse) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(20, 64, 64));
  const auto store = open_store(source, {.budget = 8 * kTile, .keep_below = 0});
  const auto in_order = [](size_t i) { return i * 7 % 20; };  // not that of the source
  for (size_t i = 0; i < 40; ++i) use(*store, in_order(i));
  for (size_t i = 0; i < 20; ++i) {
    const auto held = store->whole(*store->get("w" + std::to_string(in_order(i))));
    ASSERT_TRUE(held);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_here(*store, in_order(i + 1))) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "after " << i;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_LE(store->stats().peak, 8 * kTile);
}

TEST(ReadAhead, OverlapsWithComputing) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(6, 64, 64));
  Gate gate;
  source->set_hook([&](const GeneratedSource::Read& read) -> Status {
    if (read.param == 0 && read.offset >= 2048) gate.pass();  // the second tile of w0
    return {};
  });
  const auto store = open_store(source, {.budget = kTile, .keep_below = 0});  // tiles of 2 KiB
  const Param w = *store->get("w0");
  const auto lease = store->rows(w, 0);
  ASSERT_TRUE(lease);
  ASSERT_EQ(lease->row_count(), 8U);
  // The second tile is being read although nobody asked for it, and the first can be used meanwhile.
  gate.wait_for_arrivals(1);
  EXPECT_TRUE(holds_generated(lease->bytes(), 0, 0));
  EXPECT_EQ(store->stats().misses, 1U);
  EXPECT_EQ(store->stats().resident, 2 * 2048U);  // what is being read counts
  std::thread opener([&] {
    while (store->stats().waits < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    gate.open();
  });
  const auto second = store->rows(w, 8);  // waits for the read that is under way
  opener.join();
  ASSERT_TRUE(second);
  EXPECT_TRUE(holds_generated(second->bytes(), 0, 2048));
  EXPECT_EQ(source->bytes_read(0) % 2048, 0U);
  uint64_t times = 0;
  for (const auto& read : source->reads()) times += read.offset == 2048 ? 1 : 0;
  EXPECT_EQ(times, 1U);
  EXPECT_EQ(store->stats().waits, 2U);
  EXPECT_GE(store->stats().wait_seconds, 0.01);
}

TEST(ReadAhead, DoesNothingWhenItIsOff) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(6, 64, 64));
  const auto store = open_store(source, {.budget = 8 * kTile, .keep_below = 0, .read_ahead = false});
  use(*store, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(source->reads().size(), 1U);
}

TEST(ReadAhead, ADroppedStoreWaitsForTheReadUnderWay) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(2, 64, 64));
  Gate gate;
  source->set_hook([&](const GeneratedSource::Read& read) -> Status {
    if (read.offset != 0) gate.pass();
    return {};
  });
  auto store = open_store(source, {.budget = kTile, .keep_below = 0});
  ASSERT_TRUE(store->rows(*store->get("w0")));
  gate.wait_for_arrivals(1);
  std::thread dropping([&] { store.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  gate.open();
  dropping.join();
  EXPECT_EQ(source.use_count(), 1);
}

// ---------------------------------------------------------------- failures

TEST(FailingSource, AnErrorInTheMiddleLeavesTheStoreUsable) {
  for (const bool ahead : {false, true}) {
    const auto source = std::make_shared<GeneratedSource>(make_matrices(10, 64, 64));
    std::atomic<bool> broken = false;
    source->set_hook([&](const GeneratedSource::Read& read) -> Status {
      if (broken && read.param == 5) return make_error(ErrorCode::kIo, "tensor \"w5\": the disk is on fire");
      return {};
    });
    const auto store = open_store(source, {.budget = 6 * kTile, .keep_below = 0, .read_ahead = ahead});
    for (size_t i = 0; i < 10; ++i) use(*store, i);
    broken = true;
    for (int pass = 0; pass < 3; ++pass) {
      for (size_t i = 6; i < 10; ++i) use(*store, i);
      for (size_t i = 0; i < 5; ++i) use(*store, i);
      const auto failed = store->whole(*store->get("w5"));
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code, ErrorCode::kIo);
      EXPECT_THAT(failed.error().message, HasSubstr("on fire"));
    }
    EXPECT_LE(store->stats().peak, 6 * kTile);
    broken = false;
    for (int pass = 0; pass < 3; ++pass) {
      for (size_t i = 0; i < 10; ++i) use(*store, i);
    }
    EXPECT_LE(store->stats().peak, 6 * kTile);
  }
}

TEST(FailingSource, WhatFailedIsNotCountedAsRead) {
  for (const std::optional<uint64_t> budget : {std::optional<uint64_t>(), std::optional<uint64_t>(8 * kTile)}) {
    const auto source = std::make_shared<GeneratedSource>(make_matrices(1, 64, 64));
    source->set_hook([](const GeneratedSource::Read&) -> Status { return make_error(ErrorCode::kIo, "gone"); });
    const auto store = open_store(source, {.budget = budget, .keep_below = 0});
    const Param w = *store->get("w0");
    EXPECT_FALSE(store->rows(w));
    EXPECT_FALSE(store->whole(w));
    ByteVector row(256);
    EXPECT_FALSE(store->read_row(w, 3, row));
    EXPECT_EQ(store->stats().bytes_read, 0U);
    EXPECT_EQ(store->stats().resident, 0U);
    EXPECT_EQ(store->stats().misses, 3U);
    source->set_hook(nullptr);
    EXPECT_TRUE(store->rows(w));
  }
}

TEST(FailingSource, ADerivedFormHandsTheErrorOn) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(1, 64, 64));
  source->set_hook([](const GeneratedSource::Read&) -> Status { return make_error(ErrorCode::kIo, "gone"); });
  const auto store = open_store(source, {.budget = 8 * kTile, .keep_below = 0});
  const DerivedForm form{"copy_1", kTile, [](const Param& param, MutableByteSpan) -> Status {
                           BALLAST_TRY(const Lease lease, param.store().rows(param));
                           return {};
                         }};
  const auto lease = store->derived(*store->get("w0"), form);
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().message, "gone");
  EXPECT_EQ(store->stats().resident, 0U);
}

// ---------------------------------------------------------------- threads

TEST(Threads, OneComputesAnotherAsksForStatistics) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(30, 64, 64));
  const auto store = open_store(source, {.budget = 8 * kTile, .keep_below = 0});
  std::atomic<bool> done = false;
  std::thread watcher([&] {
    while (!done) {
      const ResidencyStats stats = store->stats();
      EXPECT_LE(stats.resident, stats.budget);
      EXPECT_LE(stats.peak, stats.budget);
      std::this_thread::yield();
    }
  });
  for (int pass = 0; pass < 5; ++pass) {
    for (size_t i = 0; i < 30; ++i) use(*store, (i * (pass + 1)) % 30);
  }
  done = true;
  watcher.join();
}

TEST(Threads, SeveralMayComputeWhereTheBudgetHoldsWhatTheyUse) {
  for (const std::optional<uint64_t> budget : {std::optional<uint64_t>(), std::optional<uint64_t>(10 * kTile)}) {
    const auto source = std::make_shared<GeneratedSource>(make_matrices(24, 64, 64));
    const auto store = open_store(source, {.budget = budget, .keep_below = 0});
    const DerivedForm form{"copy_1", 256, [](const Param& param, MutableByteSpan out) -> Status {
                             BALLAST_TRY(const Lease lease, param.store().rows(param));
                             std::copy_n(lease.bytes().begin(), out.size(), out.begin());
                             return {};
                           }};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < 120; ++i) {
          const size_t index = (i * (t + 1)) % 24;
          use(*store, index);
          const auto derived = store->derived(*store->get("w" + std::to_string(index)), form);
          ASSERT_TRUE(derived);
          if (*derived) {
            ASSERT_TRUE(holds_generated((*derived)->bytes(), index, 0));
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (budget) {
      EXPECT_LE(store->stats().peak, *budget);
    }
  }
}

}  // namespace
}  // namespace ballast
