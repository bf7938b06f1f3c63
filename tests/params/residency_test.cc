// The budget: what it holds at any instant, and what is kept under it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "ballast/params/budget.h"
#include "ballast/params/param_store.h"
#include "tests/support/memory_meter.h"
#include "tests/support/param_sources.h"

namespace ballast {
namespace {

using testing::Gate;
using testing::generated_byte;
using testing::GeneratedSource;
using ::testing::HasSubstr;
using testing::holds_generated;
using testing::make_info;
using testing::make_matrices;
using testing::MemoryMeter;
using testing::open_store;
using testing::take_process_peak;

// Something like a model: matrices with biases, and a large head. 1,386,240 bytes.
std::vector<TensorInfo> small_model() {
  std::vector<TensorInfo> infos;
  for (int i = 0; i < 6; ++i) {
    infos.push_back(make_info("blocks." + std::to_string(i) + ".w", DType::kF32, {96, 288}));
    infos.push_back(make_info("blocks." + std::to_string(i) + ".b", DType::kF32, {288}));
    infos.push_back(make_info("blocks." + std::to_string(i) + ".out", DType::kF16, {288, 96}));
  }
  infos.push_back(make_info("head", DType::kF32, {96, 1000}));
  return infos;
}

// Uses all of a parameter, tile by tile, and checks every byte.
void sweep(ParamStore& store, size_t index) {
  const Param param = *store.get(store.source().params()[index].name);
  uint64_t row = 0;
  while (row < param.rows()) {
    const auto lease = store.rows(param, row);
    ASSERT_TRUE(lease) << lease.error().message;
    ASSERT_EQ(lease->first_row(), row);
    ASSERT_EQ(lease->bytes().size(), lease->row_count() * param.row_bytes());
    ASSERT_TRUE(holds_generated(lease->bytes(), index, row * param.row_bytes())) << param.name() << " row " << row;
    row += lease->row_count();
  }
}

// One pass: each matrix while its bias is held too.
void run_pass(ParamStore& store) {
  const auto params = store.source().params();
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].shape.rank() == 1) {
      const auto bias = store.whole(*store.get(params[i].name));
      ASSERT_TRUE(bias) << bias.error().message;
      ASSERT_TRUE(holds_generated(bias->bytes(), i, 0));
      sweep(store, i - 1);
    } else {
      sweep(store, i);
    }
  }
}

TEST(Budget, TheSameBytesComeThroughAnyBudgetAndThePeakIsNeverAbove) {
  const auto source = std::make_shared<GeneratedSource>(small_model());
  const uint64_t smallest = smallest_budget(*source);
  const uint64_t total = total_bytes(*source);
  for (const bool ahead : {false, true}) {
    for (const uint64_t budget : {smallest, smallest + 1, smallest + 997, total / 50, total / 10, total / 4, total,
                                  2 * total, uint64_t{1} << 40}) {
      const auto store = open_store(source, {.budget = budget, .read_ahead = ahead});
      ASSERT_NE(store, nullptr) << budget;
      for (int pass = 0; pass < 3; ++pass) {
        run_pass(*store);
        if (HasFatalFailure()) return;
      }
      const ResidencyStats stats = store->stats();
      EXPECT_LE(stats.peak, budget);
      EXPECT_LE(stats.resident, stats.peak);
      EXPECT_EQ(stats.budget, budget);
      EXPECT_GT(stats.hits, 0U);
      EXPECT_GE(stats.waits, stats.misses == 0 ? 0U : 1U);
      if (budget >= 2 * total) {
        EXPECT_EQ(stats.evictions, 0U);
      }
      if (budget >= 2 * total) {
        EXPECT_EQ(stats.bytes_read, total);
      }
      if (budget <= total / 4) {
        EXPECT_GT(stats.evictions, 0U);
      }
    }
  }
}

TEST(Budget, WhatTheSourceIsAskedForIsWhatTheStatisticsSay) {
  const auto source = std::make_shared<GeneratedSource>(small_model());
  auto store = open_store(source, {.budget = 200000, .read_ahead = false});
  for (int pass = 0; pass < 3; ++pass) run_pass(*store);
  uint64_t bytes = 0;
  for (const auto& read : source->reads()) bytes += read.bytes;
  const ResidencyStats stats = store->stats();
  EXPECT_EQ(stats.bytes_read, bytes);
  EXPECT_EQ(stats.misses, source->reads().size());
  EXPECT_EQ(stats.waits, stats.misses);
  EXPECT_GT(stats.wait_seconds, 0);
}

TEST(Budget, TheAllocatorSeesNoMoreThanTheAccounting) {
  // Tiles below 64 KiB, which come from the heap.
  const auto source = std::make_shared<GeneratedSource>(small_model());
  const uint64_t budget = 500000;
  run_pass(*open_store(source, {.budget = budget}));  // what is allocated once per process
  source->forget_reads();
  const auto store = open_store(source, {.budget = budget});
  const MemoryMeter meter;
  run_pass(*store);
  run_pass(*store);
  EXPECT_LE(store->stats().peak, budget);
  EXPECT_GT(store->stats().peak, budget / 2);
  EXPECT_GT(meter.peak(), budget / 2);
  EXPECT_LE(meter.peak(), budget + 40000);  // the record of uses, and what this test itself notes down
}

TEST(Budget, DroppingTheStoreFreesEverything) {
  const auto source = std::make_shared<GeneratedSource>(small_model());
  const DerivedForm form{"copy_1", 50000, [](const Param&, MutableByteSpan) -> Status { return {}; }};
  const MemoryMeter meter;
  for (int i = 0; i < 40; ++i) {
    for (const std::optional<uint64_t> budget : {std::optional<uint64_t>(), std::optional<uint64_t>(300000)}) {
      const auto store = open_store(source, {.budget = budget});
      const auto held = store->derived(*store->get("head"), form);
      ASSERT_TRUE(held && *held);
      sweep(*store, 0);
    }
    source->forget_reads();
  }
  EXPECT_LT(meter.peak(), 700000U);
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Budget, TheProcessSeesNoMoreThanTheAccounting) {
  const auto source = std::make_shared<GeneratedSource>(
      std::vector{make_info("a", DType::kF32, {1000, 4096}), make_info("b", DType::kF32, {300, 20000}),
                  make_info("c", DType::kF32, {4096, 1000}), make_info("bias", DType::kF32, {4096})});
  const uint64_t budget = 16 << 20;  // of 57 MB
  const auto store = open_store(source, {.budget = budget});
  take_process_peak();
  const uint64_t before = take_process_peak();
  if (before == 0) GTEST_SKIP() << "the system does not tell the peak of a process";
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < 3; ++i) sweep(*store, i);
  }
  const uint64_t after = take_process_peak();
  EXPECT_LE(store->stats().peak, budget);
  EXPECT_GT(after, before + budget / 2);
  EXPECT_LT(after, before + budget + (2 << 20));  // the kernel counts pages in batches
}
#endif

TEST(Budget, OpeningNamesTheParameterThatDoesNotFit) {
  const auto source = std::make_shared<GeneratedSource>(small_model());
  const uint64_t smallest = smallest_budget(*source);
  const auto store = ParamStore::open(source, {.budget = smallest - 1});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(store.error().message, HasSubstr("\"head\""));
  EXPECT_THAT(store.error().message, HasSubstr("works is " + std::to_string(smallest) + " bytes"));
}

TEST(Budget, TheSmallestOneHoldsTwoTilesAndAVector) {
  const auto source = std::make_shared<GeneratedSource>(small_model());
  const auto store = open_store(source, {.budget = smallest_budget(*source)});
  const auto bias = store->whole(*store->get("blocks.3.b"));
  ASSERT_TRUE(bias) << bias.error().message;
  const Param head = *store->get("head");
  Lease tile;
  for (uint64_t row = 0; row < head.rows(); row += tile.row_count()) {
    auto next = store->rows(head, row);  // while the last one is still held
    ASSERT_TRUE(next) << next.error().message;
    tile = std::move(*next);
  }
  EXPECT_TRUE(holds_generated(bias->bytes(), 10, 0));
}

TEST(Budget, ALargeParameterIsWholeOnlyWhereItFits) {
  const auto source = std::make_shared<GeneratedSource>(small_model());
  const auto store = open_store(source, {.budget = 500000, .read_ahead = false});
  const Param head = *store->get("head");
  {
    const auto whole = store->whole(head);
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_TRUE(holds_generated(whole->bytes(), 18, 0));
    EXPECT_EQ(whole->row_count(), 96U);
  }
  const auto tight = open_store(source, {.budget = 300000});
  const auto refused = tight->whole(*tight->get("head"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("\"head\": 385024 bytes do not fit into the budget of 300000 bytes"));
  sweep(*tight, 18);
}

TEST(Budget, LeasesPinAndTooManyOfThemAreAnError) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(10, 64, 64));  // 16 KiB each
  const auto store = open_store(source, {.budget = 40000, .keep_below = 0});
  std::vector<Lease> leases;
  std::optional<Error> refused;
  for (size_t i = 0; i < 10 && !refused; ++i) {
    const Param param = *store->get("w" + std::to_string(i));
    for (uint64_t row = 0; row < param.rows() && !refused;) {
      auto lease = store->rows(param, row);
      if (!lease) {
        refused = std::move(lease).error();
        break;
      }
      row += lease->row_count();
      leases.push_back(std::move(*lease));
    }
  }
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->message, HasSubstr("the budget of 40000 bytes"));
  EXPECT_LE(store->stats().peak, 40000U);
  uint64_t row = 0;
  size_t param = 0;
  for (const Lease& lease : leases) {
    EXPECT_TRUE(holds_generated(lease.bytes(), param, row * 256)) << param;
    row += lease.row_count();
    if (row == 64) ++param, row = 0;
  }
  leases.clear();
  sweep(*store, 9);  // usable again
}

TEST(Budget, WhatACompressedSourceTakesIsCounted) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(3, 100, 64));  // 25,600 bytes each
  source->set_reads_parts(false);
  const auto store = open_store(source, {.budget = 4 * 25600, .keep_below = 0});
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < 3; ++i) sweep(*store, i);
  }
  for (const auto& read : source->reads()) EXPECT_EQ(read.bytes, 25600U);
  EXPECT_LE(store->stats().peak, 4 * 25600U);
  EXPECT_GE(store->stats().peak, 3 * 25600U);
  ByteVector row(256);
  ASSERT_TRUE(store->read_row(*store->get("w1"), 42, row));
  EXPECT_TRUE(holds_generated(row, 1, 42 * 256));
}

// ---------------------------------------------------------------- what is kept

TEST(Eviction, ACyclicSweepKeepsWhatFitsWhereTheLeastRecentlyUsedWouldKeepNothing) {
  constexpr uint64_t kTile = 64 * 64 * 4;
  constexpr size_t kParams = 20, kRoom = 8;
  const auto source = std::make_shared<GeneratedSource>(make_matrices(kParams, 64, 64));
  const auto store = open_store(source, {.budget = kRoom * kTile, .keep_below = 0, .read_ahead = false});
  const auto pass = [&] {
    source->forget_reads();
    for (size_t i = 0; i < kParams; ++i) sweep(*store, i);
    return source->reads().size();
  };
  EXPECT_EQ(pass(), kParams);
  // Of 20 tiles in room for 8, an optimal choice reads 12 or 13 in each further pass.
  for (int i = 0; i < 4; ++i) EXPECT_LE(pass(), kParams - kRoom + 1) << i;
  EXPECT_GE(pass(), kParams - kRoom);
}

TEST(Eviction, AdaptsWhenTheOrderChanges) {
  constexpr uint64_t kTile = 64 * 64 * 4;
  const auto source = std::make_shared<GeneratedSource>(make_matrices(16, 64, 64));
  const auto store = open_store(source, {.budget = 8 * kTile, .keep_below = 0, .read_ahead = false});
  for (int i = 0; i < 3; ++i) {
    for (size_t w = 0; w < 16; ++w) sweep(*store, w);
  }
  // From now on only half of them, which fit.
  for (int i = 0; i < 3; ++i) {
    for (size_t w = 4; w < 12; ++w) sweep(*store, w);
  }
  source->forget_reads();
  for (size_t w = 4; w < 12; ++w) sweep(*store, w);
  EXPECT_TRUE(source->reads().empty());
}

TEST(Eviction, SmallParametersStay) {
  auto infos = make_matrices(10, 64, 64);
  infos.push_back(make_info("bias", DType::kF32, {64}));
  const auto source = std::make_shared<GeneratedSource>(infos);
  const auto store = open_store(source, {.budget = 64 << 10, .keep_below = 256});
  for (int pass = 0; pass < 3; ++pass) {
    for (size_t i = 0; i <= 10; ++i) sweep(*store, i);
  }
  EXPECT_EQ(source->bytes_read(10), 256U);
}

TEST(Eviction, WhatTheOptionsKeepIsReadFromTheStartAndStays) {
  std::vector<TensorInfo> infos;
  for (int i = 0; i < 10; ++i) infos.push_back(make_info("blocks." + std::to_string(i) + ".w", DType::kF32, {64, 64}));
  const auto source = std::make_shared<GeneratedSource>(infos);
  std::atomic<int> first_layers = 0;
  Gate gate;
  gate.open();
  source->set_hook([&](const GeneratedSource::Read& read) -> Status {
    first_layers += read.param < 2 ? 1 : 0;
    gate.pass();
    return {};
  });
  const auto store = open_store(source, {.budget = 100000, .keep_below = 0, .keep = [](std::string_view name) {
                                           return is_in_first_layers(name, 2);
                                         }});
  gate.wait_for_arrivals(4);  // 16 KiB each, by tiles of at most 12,500 bytes
  EXPECT_EQ(first_layers, 4);
  for (int pass = 0; pass < 3; ++pass) {
    for (size_t i = 0; i < 10; ++i) sweep(*store, i);
  }
  EXPECT_EQ(source->bytes_read(0), 16384U);
  EXPECT_EQ(source->bytes_read(1), 16384U);
  EXPECT_GT(source->bytes_read(5), 16384U);
}

TEST(Eviction, DerivedFormsGoOnlyUnderPressure) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(12, 64, 64));
  const auto store = open_store(source, {.budget = 128 << 10, .keep_below = 0});
  int made = 0;
  const DerivedForm form{"copy_1", 16384, [&](const Param&, MutableByteSpan) -> Status {
                           ++made;
                           return {};
                         }};
  for (int pass = 0; pass < 3; ++pass) {
    ASSERT_TRUE(*store->derived(*store->get("w0"), form));
    for (size_t i = 1; i < 12; ++i) sweep(*store, i);
  }
  EXPECT_EQ(made, 1);
  EXPECT_GT(store->stats().evictions, 0U);
  // All memory for one parameter: now it must go.
  {
    std::vector<Lease> leases;
    for (size_t i = 1; i < 12; ++i) {
      const Param param = *store->get("w" + std::to_string(i));
      auto lease = store->whole(param);
      if (!lease) break;
      leases.push_back(std::move(*lease));
    }
    EXPECT_EQ(leases.size(), 8U);
  }
  ASSERT_TRUE(*store->derived(*store->get("w0"), form));
  EXPECT_EQ(made, 2);
  EXPECT_LE(store->stats().peak, 128U << 10);
}

}  // namespace
}  // namespace ballast
