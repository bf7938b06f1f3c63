#include "ballast/ops/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace ballast {
namespace {

KvCacheShape small_shape(DType dtype = DType::kF32) {
  return {.layers = 2, .kv_heads = 3, .head_dim = 4, .most_positions = 200, .dtype = dtype};
}

// A row of one position: 12 values that tell the layer and the position.
std::vector<float> row_of(uint64_t layer, uint64_t position, float sign) {
  std::vector<float> row(12);
  std::iota(row.begin(), row.end(), static_cast<float>(layer * 1000 + position * 16));
  for (float& value : row) value *= sign;
  return row;
}

// Puts a row where a backend would.
void put(std::byte* plane, const KvCache& cache, uint64_t layer, uint64_t position, const std::vector<float>& row) {
  for (uint64_t head = 0; head < 3; ++head) {
    const uint64_t at = (head * cache.rows(layer) + position - cache.first(layer)) * 4;
    std::memcpy(plane + at * sizeof(float), row.data() + head * 4, 4 * sizeof(float));
  }
}

void write_positions(KvCache& cache, uint64_t first, uint64_t last) {
  for (uint64_t layer = 0; layer < 2; ++layer) {
    for (uint64_t position = first; position < last; ++position) {
      put(cache.keys(layer), cache, layer, position, row_of(layer, position, 1));
      put(cache.values(layer), cache, layer, position, row_of(layer, position, -1));
    }
  }
}

float element(const std::byte* plane, const KvCache& cache, uint64_t head, uint64_t position, uint64_t d) {
  return reinterpret_cast<const float*>(plane)[(head * cache.capacity() + position) * 4 + d];
}

void expect_positions(KvCache& cache, uint64_t count) {
  for (uint64_t layer = 0; layer < 2; ++layer) {
    for (uint64_t position = 0; position < count; ++position) {
      for (uint64_t head = 0; head < 3; ++head) {
        const auto expected = static_cast<float>(layer * 1000 + position * 16 + head * 4 + 2);
        ASSERT_EQ(element(cache.keys(layer), cache, head, position, 2), expected);
        ASSERT_EQ(element(cache.values(layer), cache, head, position, 2), -expected);
      }
    }
  }
}

TEST(KvCache, GrowsInPowersOfTwoUpToTheContextAndKeepsWhatItHolds) {
  KvCache cache = *KvCache::make(small_shape());
  EXPECT_EQ(cache.capacity(), 0U);
  ASSERT_TRUE(cache.reserve(1));
  EXPECT_EQ(cache.capacity(), 64U);
  write_positions(cache, 0, 64);
  ASSERT_TRUE(cache.reserve(65));
  EXPECT_EQ(cache.capacity(), 128U);
  expect_positions(cache, 64);
  write_positions(cache, 64, 128);
  ASSERT_TRUE(cache.reserve(129));
  EXPECT_EQ(cache.capacity(), 200U);
  expect_positions(cache, 128);
  EXPECT_EQ(cache.bytes(), 2U * 2 * 3 * 200 * 4 * 4);
}

TEST(KvCache, DoesNotMoveWhileThereIsRoom) {
  KvCache cache = *KvCache::make(small_shape(), 100);
  EXPECT_EQ(cache.capacity(), 100U);
  const std::byte* before = cache.keys(0);
  for (uint64_t position = 0; position < 100; ++position) ASSERT_TRUE(cache.reserve(position + 1));
  EXPECT_EQ(cache.keys(0), before);
}

TEST(KvCache, RefusesMoreThanTheContextWithBothNumbers) {
  KvCache cache = *KvCache::make(small_shape());
  const Status status = cache.reserve(201);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.error().message, "201 positions do not fit the model's context of 200");
  EXPECT_FALSE(KvCache::make(small_shape(), 201));
}

TEST(KvCache, HoldsHalfPrecisionInHalfTheMemory) {
  KvCache cache = *KvCache::make(small_shape(DType::kF16), 10);
  EXPECT_EQ(cache.bytes(), 2U * 2 * 3 * 10 * 4 * 2);
}

TEST(KvCache, ForgetsFromAPositionOn) {
  KvCache cache = *KvCache::make(small_shape());
  cache.set_length(10);
  cache.truncate(12);
  EXPECT_EQ(cache.length(), 10U);
  cache.truncate(4);
  EXPECT_EQ(cache.length(), 4U);
}

// Layer 0 sees everything, layer 1 a window of 100.
KvCacheShape windowed_shape() {
  KvCacheShape shape = small_shape();
  shape.most_positions = 100'000;
  shape.windows = {0, 100};
  return shape;
}

float windowed_key(KvCache& cache, uint64_t layer, uint64_t position) {
  return reinterpret_cast<const float*>(cache.keys(layer))[(cache.rows(layer) + position - cache.first(layer)) * 4];
}

TEST(KvCache, ALayerWithAWindowKeepsItAndLittleMore) {
  KvCache cache = *KvCache::make(windowed_shape());
  for (uint64_t position = 0; position < 10'000; ++position) {
    ASSERT_TRUE(cache.reserve(position + 1));
    write_positions(cache, position, position + 1);
    ASSERT_TRUE(cache.holds_past(1, position)) << position;
    ASSERT_EQ(cache.first(1) % KvCache::kFirstMultiple, 0U);
    cache.set_length(position + 1);
  }
  EXPECT_EQ(cache.capacity(), 16'384U);
  EXPECT_EQ(cache.rows(0), 16'384U);
  EXPECT_EQ(cache.first(0), 0U);
  EXPECT_LE(cache.rows(1), 1200U);
  EXPECT_EQ(cache.bytes(), (16'384U + cache.rows(1)) * 2 * 3 * 4 * 4);
  EXPECT_EQ(cache.bytes(), KvCache::bytes_for(windowed_shape(), 16'384));
  for (uint64_t position = 9'900; position < 10'000; ++position) {
    ASSERT_EQ(windowed_key(cache, 1, position), static_cast<float>(1000 + position * 16 + 4));
    ASSERT_EQ(windowed_key(cache, 0, position), static_cast<float>(position * 16 + 4));
  }
}

TEST(KvCache, APassLongerThanTheSpareRoomGetsWhatItNeeds) {
  KvCache cache = *KvCache::make(windowed_shape());
  ASSERT_TRUE(cache.reserve(5'000));
  write_positions(cache, 0, 5'000);
  cache.set_length(5'000);
  EXPECT_EQ(cache.first(1), 0U);
  ASSERT_TRUE(cache.reserve(9'000));
  EXPECT_GE(cache.first(1) + cache.rows(1), 9'000U);
  EXPECT_EQ(windowed_key(cache, 1, 4'950), static_cast<float>(1000 + 4'950 * 16 + 4));
}

TEST(KvCache, ATextIsTakenBackAsFarAsItsWindowsReach) {
  KvCache cache = *KvCache::make(windowed_shape());
  for (uint64_t length = 500; length <= 5'000; length += 500) {
    ASSERT_TRUE(cache.reserve(length));
    cache.set_length(length);
  }
  cache.truncate(4'600);
  EXPECT_EQ(cache.length(), 4'600U);
  ASSERT_GT(cache.first(1), 0U);
  cache.truncate(1'000);
  EXPECT_EQ(cache.length(), 0U) << "what position 1000 sees is gone";
  EXPECT_EQ(cache.first(1), 0U);
}

TEST(KvCache, RefusesTypesAndShapesThatHoldNothing) {
  EXPECT_FALSE(KvCache::make(small_shape(DType::kI32)));
  EXPECT_FALSE(KvCache::make({.layers = 0, .kv_heads = 1, .head_dim = 1, .most_positions = 1}));
  KvCacheShape windows = small_shape();
  windows.windows = {1};
  EXPECT_FALSE(KvCache::make(windows)) << "two layers";
  KvCacheShape huge = small_shape();
  huge.most_positions = uint64_t{1} << 60;
  const auto cache = KvCache::make(huge, uint64_t{1} << 60);
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace ballast
