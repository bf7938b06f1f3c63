#include "ballast/training/batch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace ballast {
namespace {

using ::testing::HasSubstr;

std::vector<uint64_t> all_of(const IndexPermutation& permutation) {
  std::vector<uint64_t> values(permutation.size());
  for (uint64_t i = 0; i < values.size(); ++i) values[i] = permutation(i);
  return values;
}

std::vector<uint64_t> counting(uint64_t count) {
  std::vector<uint64_t> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

BatchOrder make_order(const BatchOrderOptions& options) {
  auto order = BatchOrder::make(options);
  EXPECT_TRUE(order) << (order ? "" : order.error().message);
  return std::move(order).value();
}

std::vector<uint64_t> batch(const BatchOrder& order, uint64_t step) {
  std::vector<uint64_t> out;
  order.fill(step, out);
  return out;
}

std::vector<uint64_t> epoch(const BatchOrder& order, uint64_t number) {
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < order.batches_per_epoch(); ++i) {
    const auto part = batch(order, number * order.batches_per_epoch() + i);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(IndexPermutation, TakesEachIndexOnceForEverySize) {
  std::vector<uint64_t> sizes = {1, 2, 3, 5, 7, 11, 13, 97, 101, 997, 1797, 10007, 60000};
  for (const unsigned bits : {2U, 3U, 4U, 5U, 8U, 10U, 13U, 16U}) {
    for (const int step : {-1, 0, 1}) sizes.push_back((uint64_t{1} << bits) + static_cast<uint64_t>(step));
  }
  for (const uint64_t size : sizes) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
      auto values = all_of(IndexPermutation(size, key));
      std::sort(values.begin(), values.end());
      EXPECT_EQ(values, counting(size)) << "size " << size << " key " << key;
    }
  }
}

TEST(IndexPermutation, StaysInsideASizeTooLargeToGoThrough) {
  for (const uint64_t size : {(uint64_t{1} << 62) + 1, UINT64_MAX / 2, uint64_t{1} << 40}) {
    const IndexPermutation permutation(size, 7);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 1000; ++i) {
      EXPECT_LT(permutation(i), size);
      seen.insert(permutation(i));
    }
    EXPECT_EQ(seen.size(), 1000U);
  }
}

TEST(IndexPermutation, EveryOrderOfThreeComesUp) {
  std::set<std::vector<uint64_t>> seen;
  for (uint64_t key = 0; key < 200; ++key) seen.insert(all_of(IndexPermutation(3, key)));
  EXPECT_EQ(seen.size(), 6U);
}

// With 100 places and 5,000 keys each place should hold each index 50 times, give or take; the sum of squared
// deviations over the expectation then has mean 99 and deviation 14 for each of the places looked at.
TEST(IndexPermutation, PutsEveryIndexInEveryPlaceEquallyOften) {
  constexpr uint64_t kSize = 100, kKeys = 5000;
  for (const uint64_t place : {0U, 1U, 50U, 99U}) {
    std::vector<double> counts(kSize);
    for (uint64_t key = 0; key < kKeys; ++key) counts[IndexPermutation(kSize, key)(place)] += 1;
    const double expected = static_cast<double>(kKeys) / kSize;
    double chi_square = 0;
    for (const double count : counts) chi_square += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi_square, 99 + 5 * 14) << place;
    EXPECT_GT(chi_square, 99 - 5 * 14) << place;
  }
}

TEST(IndexPermutation, NeighboursDoNotStayNeighbours) {
  constexpr uint64_t kSize = 10000;
  const IndexPermutation permutation(kSize, 3);
  int close = 0;
  for (uint64_t i = 0; i + 1 < kSize; ++i) {
    const double apart = std::abs(static_cast<double>(permutation(i)) - static_cast<double>(permutation(i + 1)));
    close += apart <= 10 ? 1 : 0;
  }
  EXPECT_LT(close, 60);  // 20 are to be expected
}

TEST(BatchOrder, AnEpochTakesEveryExampleOnceAndTheLastBatchIsShort) {
  const BatchOrder order = make_order({.examples = 1797, .batch_size = 64, .seed = 5});
  EXPECT_EQ(order.batches_per_epoch(), 29U);
  EXPECT_EQ(batch(order, 28).size(), 1797U - 28 * 64);
  for (const uint64_t number : {0U, 1U, 9U}) {
    auto examples = epoch(order, number);
    std::sort(examples.begin(), examples.end());
    EXPECT_EQ(examples, counting(1797));
  }
}

TEST(BatchOrder, TheLastBatchCanBeDropped) {
  const BatchOrder order = make_order({.examples = 100, .batch_size = 32, .drop_last = true, .seed = 5});
  EXPECT_EQ(order.batches_per_epoch(), 3U);
  EXPECT_EQ(batch(order, 2).size(), 32U);
  EXPECT_EQ(batch(order, 3).size(), 32U);
  EXPECT_EQ(order.epoch_of(3), 1U);
}

TEST(BatchOrder, EpochsAndSeedsDiffer) {
  const BatchOrder a = make_order({.examples = 500, .batch_size = 50, .seed = 1});
  const BatchOrder b = make_order({.examples = 500, .batch_size = 50, .seed = 2});
  EXPECT_NE(epoch(a, 0), epoch(a, 1));
  EXPECT_NE(epoch(a, 0), epoch(b, 0));
}

TEST(BatchOrder, AStepGivesTheSameBatchWhateverWasAskedBefore) {
  const BatchOrderOptions options{.examples = 777, .batch_size = 10, .seed = 3};
  const BatchOrder order = make_order(options);
  std::vector<uint64_t> reused;
  for (uint64_t step = 0; step < 300; ++step) order.fill(step, reused);
  EXPECT_EQ(batch(make_order(options), 299), reused);
}

// A seed must mean the same batches in every release: a checkpoint holds nothing but the step.
TEST(BatchOrder, TheOrderOfASeedIsFixedForEver) {
  const BatchOrder order = make_order({.examples = 1000, .batch_size = 6, .seed = 42});
  EXPECT_EQ(batch(order, 0), (std::vector<uint64_t>{716, 569, 576, 8, 890, 736}));
  const BatchOrder drawn = make_order({.examples = 1000, .batch_size = 6, .sampling = Sampling::kDrawn, .seed = 42});
  EXPECT_EQ(batch(drawn, 0), (std::vector<uint64_t>{902, 961, 963, 567, 204, 441}));
}

TEST(BatchOrder, FileOrderIsFileOrder) {
  const BatchOrder order = make_order({.examples = 5, .batch_size = 2, .sampling = Sampling::kFileOrder});
  EXPECT_EQ(batch(order, 0), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(batch(order, 2), (std::vector<uint64_t>{4}));
  EXPECT_EQ(batch(order, 3), (std::vector<uint64_t>{0, 1}));
}

TEST(BatchOrder, ABatchOfZeroAndOneTooLargeAreTheWholeSet) {
  for (const uint64_t size : {0U, 100U}) {
    const BatchOrder order = make_order({.examples = 7, .batch_size = size, .sampling = Sampling::kFileOrder});
    EXPECT_EQ(order.batches_per_epoch(), 1U);
    EXPECT_EQ(batch(order, 4), counting(7));
  }
}

TEST(BatchOrder, DrawnBatchesAreFullAndCoverAllExamples) {
  const BatchOrder order =
      make_order({.examples = 50, .batch_size = 20, .sampling = Sampling::kDrawn, .seed = 9, .drawn_per_epoch = 5});
  EXPECT_EQ(order.batches_per_epoch(), 1U);
  std::set<uint64_t> seen;
  for (uint64_t step = 0; step < 40; ++step) {
    const auto drawn = batch(order, step);
    EXPECT_EQ(drawn.size(), 20U);
    seen.insert(drawn.begin(), drawn.end());
  }
  EXPECT_EQ(seen.size(), 50U);
  EXPECT_LT(*seen.rbegin(), 50U);
}

TEST(BatchOrder, RefusesWhatLeavesNoBatch) {
  EXPECT_THAT(BatchOrder::make({.examples = 0}).error().message, HasSubstr("no examples"));
  const auto dropped = BatchOrder::make({.examples = 3, .batch_size = 4, .drop_last = true});
  ASSERT_FALSE(dropped);
  EXPECT_THAT(dropped.error().message, HasSubstr("3 examples do not fill one batch of 4"));
}

}  // namespace
}  // namespace ballast
