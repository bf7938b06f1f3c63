#include "ballast/backends/host/batch_counts.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace ballast::host {
namespace {

ParamKey some_key(uint64_t index) {
  static const ModelNamespaceId kModel = next_model_namespace();
  return param_key(kModel, base_param_id("w" + std::to_string(index)));
}

void count_batches(BatchCounts& counts, const ParamKey& key, uint64_t times, uint64_t rows = 8) {
  for (uint64_t i = 0; i < times; ++i) counts.count(key, rows);
}

TEST(BatchCounts, SayThatBatchesGoOnAfterSoManyInARow) {
  const auto counts = std::make_unique<BatchCounts>();
  const ParamKey key = some_key(0);
  EXPECT_FALSE(counts->is_used_by_batches(key));
  count_batches(*counts, key, BatchCounts::kEnough - 1);
  EXPECT_FALSE(counts->is_used_by_batches(key));
  counts->count(key, BatchCounts::kMostRows + 1);  // a long prompt says nothing
  EXPECT_FALSE(counts->is_used_by_batches(key));
  counts->count(key, BatchCounts::kMostRows);
  EXPECT_TRUE(counts->is_used_by_batches(key));
  EXPECT_FALSE(counts->is_used_by_batches(some_key(1)));
  counts->count(key, 1);
  EXPECT_TRUE(counts->is_used_by_batches(key)) << "once found out, it stays";
}

TEST(BatchCounts, StartAgainWhereATextIsAlone) {
  const auto counts = std::make_unique<BatchCounts>();
  const ParamKey key = some_key(0);
  for (int i = 0; i < 5; ++i) {
    count_batches(*counts, key, BatchCounts::kEnough - 1, BatchCounts::kLeastRows);
    counts->count(key, BatchCounts::kLeastRows - 1);
  }
  EXPECT_FALSE(counts->is_used_by_batches(key));
  count_batches(*counts, key, BatchCounts::kEnough, BatchCounts::kLeastRows);
  EXPECT_TRUE(counts->is_used_by_batches(key));
}

TEST(BatchCounts, TakeTheWeightsOfALargeModelTogetherAndManyModelsOneAfterTheOther) {
  const auto counts = std::make_unique<BatchCounts>();
  for (uint64_t model = 0; model < 20; ++model) {
    constexpr uint64_t kWeights = 1000;
    for (uint64_t pass = 0; pass < BatchCounts::kEnough + 2; ++pass) {
      for (uint64_t i = 0; i < kWeights; ++i) counts->count(some_key(model * kWeights + i), 8);
    }
    uint64_t found = 0;
    for (uint64_t i = 0; i < kWeights; ++i) found += counts->is_used_by_batches(some_key(model * kWeights + i)) ? 1 : 0;
    EXPECT_GE(found, kWeights * 9 / 10) << model;
  }
}

}  // namespace
}  // namespace ballast::host
