#include "ballast/archive/stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/memory_archive.h"
#include "tests/support/memory_meter.h"

namespace ballast::testing {
namespace {

std::vector<size_t> all_of(const Archive& archive) {
  std::vector<size_t> all(archive.tensors().size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

ArchiveStatistics measure_all(const Archive& archive, unsigned threads = 2) {
  auto measured = measure_archive(archive, all_of(archive), {.threads = threads, .progress = {}});
  EXPECT_TRUE(measured) << (measured ? "" : measured.error().message);
  return measured ? *measured : ArchiveStatistics{};
}

F32 waves(size_t count) {
  F32 values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i)) + static_cast<float>(i % 97);
  return values;
}

TEST(Stats, PerTensorAndInTotal) {
  const Archive archive = MemoryArchive()
                              .add("a", DType::kF32, {3}, F32{1, 2, 3})
                              .add("b", DType::kI32, {2}, std::vector<int32_t>{-7, 0})
                              .build();
  const ArchiveStatistics found = measure_all(archive);
  ASSERT_EQ(found.tensors.size(), 2U);
  EXPECT_TRUE(found.tensors[0].measured);
  EXPECT_EQ(found.tensors[0].statistics.mean, 2);
  EXPECT_EQ(found.tensors[1].statistics.min, -7);
  EXPECT_EQ(found.total.statistics.count, 5U);
  EXPECT_EQ(found.total.statistics.min, -7);
  EXPECT_EQ(found.total.statistics.max, 3);
  EXPECT_EQ(found.total.statistics.zeros, 1U);
  EXPECT_NEAR(found.total.statistics.mean, -0.2, 1e-12);
}

TEST(Stats, TypesWithoutArithmeticAreNotMeasured) {
  TensorInfo opaque = make_info("text", DType::kOpaque, {2});
  const Archive archive =
      MemoryArchive().add_bytes(opaque, counting_bytes(8)).add("a", DType::kF32, {1}, F32{1}).build();
  const ArchiveStatistics found = measure_all(archive);
  EXPECT_FALSE(found.tensors[0].measured);
  EXPECT_TRUE(found.tensors[1].measured);
  EXPECT_EQ(found.total.statistics.count, 1U);
}

TEST(Stats, OnlyTheTensorsAskedForInTheirOrder) {
  const Archive archive = MemoryArchive()
                              .add("a", DType::kF32, {1}, F32{1})
                              .add("b", DType::kF32, {1}, F32{2})
                              .add("c", DType::kF32, {1}, F32{3})
                              .build();
  const auto found = measure_archive(archive, std::vector<size_t>{2, 0});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->tensors.size(), 2U);
  EXPECT_EQ(found->tensors[0].statistics.mean, 3);
  EXPECT_EQ(found->tensors[1].statistics.mean, 1);
  EXPECT_EQ(found->total.statistics.count, 2U);
}

// Compares every bit, also of the moments.
void expect_same(const TensorStatistics& a, const TensorStatistics& b) {
  EXPECT_EQ(a.statistics.mean, b.statistics.mean);
  EXPECT_EQ(a.statistics.squared_deviations, b.statistics.squared_deviations);
  EXPECT_EQ(a.statistics.count, b.statistics.count);
  EXPECT_EQ(a.histogram.counts, b.histogram.counts);
  EXPECT_EQ(a.histogram.low, b.histogram.low);
}

TEST(Stats, AreTheSameForAnyNumberOfThreadsAndAnyForm) {
  const F32 values = waves(2'000'001);
  MemoryArchive tensors;
  tensors.add("a", DType::kF32, {values.size()}, values).add("b", DType::kF32, {3}, F32{1, 5, 9});
  const ArchiveStatistics one = measure_all(tensors.build(), 1);
  const ArchiveStatistics many = measure_all(tensors.build(), 5);
  const ArchiveStatistics read = measure_all(tensors.build_unviewable(), 3);
  const ArchiveStatistics swapped =
      measure_all(MemoryArchive().add("a", DType::kF32, {values.size()}, values).make_big_endian().build(), 2);
  for (size_t i = 0; i < 2; ++i) {
    expect_same(one.tensors[i], many.tensors[i]);
    expect_same(one.tensors[i], read.tensors[i]);
  }
  expect_same(one.total, many.total);
  expect_same(one.tensors[0], swapped.tensors[0]);
}

TEST(Stats, MemoryDoesNotFollowTheTensors) {
  const size_t count = size_t{24} << 20;
  const Archive archive =
      MemoryArchive().add_bytes(make_info("big", DType::kU8, {count}), ByteVector(count)).build_unviewable();
  const MemoryMeter meter;
  EXPECT_TRUE(measure_all(archive, 2).tensors[0].statistics.all_zero());
  EXPECT_LT(meter.peak(), uint64_t{8} << 20);
}

TEST(Stats, CanBeCancelled) {
  const Archive archive = MemoryArchive().add("a", DType::kF32, {1}, F32{1}).build();
  const auto found = measure_archive(archive, all_of(archive),
                                     {.threads = 1, .progress = [](const ProgressUpdate&) { return false; }});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kCancelled);
}

TEST(Stats, EmptyTensorsAndEmptyArchives) {
  const Archive archive = MemoryArchive().add("e", DType::kF32, {0, 3}, F32{}).build();
  const ArchiveStatistics found = measure_all(archive);
  EXPECT_TRUE(found.tensors[0].measured);
  EXPECT_EQ(found.tensors[0].statistics.count, 0U);
  EXPECT_EQ(measure_all(MemoryArchive().build()).total.statistics.count, 0U);
}

}  // namespace
}  // namespace ballast::testing
