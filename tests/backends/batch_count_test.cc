#include "ballast/backends/host/batch_count.h"

#include <gtest/gtest.h>

namespace ballast::host {
namespace {

// What the last of so many products says.
bool add_batches(BatchCount& count, uint64_t times, uint64_t rows = 8) {
  bool is_enough = false;
  for (uint64_t i = 0; i < times; ++i) is_enough = count.add(rows);
  return is_enough;
}

TEST(BatchCount, SaysThatBatchesGoOnAfterSoManyInARow) {
  std::atomic<uint32_t> batches = 0;
  BatchCount count(batches);
  EXPECT_FALSE(count.is_enough());
  EXPECT_FALSE(add_batches(count, BatchCount::kEnough - 1));
  EXPECT_FALSE(count.add(BatchCount::kMostRows + 1)) << "a long prompt says nothing";
  EXPECT_TRUE(count.add(BatchCount::kMostRows));
  EXPECT_TRUE(count.is_enough());
  EXPECT_TRUE(count.add(1)) << "once found out, it stays";
  EXPECT_TRUE(count.add(BatchCount::kMostRows + 1));
}

TEST(BatchCount, StartsAgainWhereATextIsAlone) {
  std::atomic<uint32_t> batches = 0;
  BatchCount count(batches);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(add_batches(count, BatchCount::kEnough - 1, BatchCount::kLeastRows));
    EXPECT_FALSE(count.add(BatchCount::kLeastRows - 1));
  }
  EXPECT_FALSE(add_batches(count, BatchCount::kEnough - 1, BatchCount::kLeastRows));
  EXPECT_TRUE(count.add(BatchCount::kLeastRows));
}

}  // namespace
}  // namespace ballast::host
