#include "ballast/archive/tied.h"

#include <gtest/gtest.h>

#include "tests/support/memory_archive.h"

namespace ballast::testing {
namespace {

using Members = std::vector<size_t>;

std::vector<TiedGroup> by_content(const Archive& archive, unsigned threads = 2) {
  auto groups = tied_by_content(archive, threads);
  EXPECT_TRUE(groups) << (groups ? "" : groups.error().message);
  return groups ? *groups : std::vector<TiedGroup>{};
}

// Two tensors of one extent, the second with the shape and type given.
Archive sharing(const Shape& shape, DType dtype) {
  Description description;
  description.tensors = {make_info("a", DType::kF32, {2, 2}), make_info("b", dtype, shape)};
  const std::vector<StoredExtent> extents(2, {.offset = 0, .length = 16});
  return Archive(description, extents, {MemorySource::owning(counting_bytes(16))});
}

TEST(Tied, OneExtentUnderTwoNamesIsTiedWithoutReading) {
  const auto groups = tied_by_extent(sharing({2, 2}, DType::kF32));
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].tensors, (Members{0, 1}));
  EXPECT_TRUE(groups[0].same_extent);
}

TEST(Tied, AnotherShapeOrTypeOverTheSameBytesIsAnotherTensor) {
  EXPECT_TRUE(tied_by_extent(sharing({4}, DType::kF32)).empty());
  EXPECT_TRUE(tied_by_extent(sharing({2, 2}, DType::kI32)).empty());
  EXPECT_TRUE(by_content(sharing({4}, DType::kF32)).empty());
}

TEST(Tied, ASharedExtentIsFoundByContentToo) {
  const auto groups = by_content(sharing({2, 2}, DType::kF32));
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].tensors, (Members{0, 1}));
  EXPECT_TRUE(groups[0].same_extent);
}

TEST(Tied, BytesStoredTwiceAreFoundByContentOnly) {
  const Archive archive = MemoryArchive()
                              .add("x", DType::kF32, {2}, F32{1, 2})
                              .add("y", DType::kF32, {2}, F32{3, 4})
                              .add("z", DType::kF32, {2}, F32{3, 4})
                              .add("v", DType::kF32, {2}, F32{1, 2})
                              .build();
  EXPECT_TRUE(tied_by_extent(archive).empty());
  const auto groups = by_content(archive);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].tensors, (Members{0, 3}));
  EXPECT_EQ(groups[1].tensors, (Members{1, 2}));
  EXPECT_FALSE(groups[0].same_extent);
}

TEST(Tied, TensorsWithoutBytesAreNeverTied) {
  const Archive archive = MemoryArchive().add("x", DType::kF32, {0}, F32{}).add("y", DType::kF32, {0}, F32{}).build();
  EXPECT_TRUE(tied_by_extent(archive).empty());
  EXPECT_TRUE(by_content(archive).empty());
  EXPECT_TRUE(tied_by_digest(archive, *digest_tensors(archive)).empty());
}

TEST(Tied, EqualSamplesAreNotEnough) {
  F32 values(10'000, 1);
  MemoryArchive archive;
  archive.add("x", DType::kF32, {values.size()}, values);
  values[1'234] = 2;  // between the samples
  archive.add("y", DType::kF32, {values.size()}, values);
  EXPECT_TRUE(by_content(archive.build()).empty());
}

TEST(Tied, StoredFormsDoNotMatter) {
  const Archive archive = MemoryArchive()
                              .add("x", DType::kF32, {2}, F32{1, 2})
                              .add("y", DType::kF32, {2}, F32{1, 2})
                              .make_big_endian()
                              .build();
  const auto groups = by_content(archive);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].tensors, (Members{0, 1}));
  EXPECT_FALSE(groups[0].same_extent);
}

TEST(Tied, DigestsGiveTheSameGroupsForAnyNumberOfThreads) {
  MemoryArchive tensors;
  for (int i = 0; i < 200; ++i) {
    tensors.add("t" + std::to_string(i), DType::kF32, {2}, F32{static_cast<float>(i % 7), 1});
  }
  const Archive archive = tensors.build_unviewable();
  const auto expected = tied_by_digest(archive, *digest_tensors(archive));
  ASSERT_EQ(expected.size(), 7U);
  for (const unsigned threads : {1U, 3U}) {
    const auto groups = by_content(archive, threads);
    ASSERT_EQ(groups.size(), expected.size());
    for (size_t i = 0; i < groups.size(); ++i) EXPECT_EQ(groups[i].tensors, expected[i].tensors);
  }
}

TEST(Tied, OnlyTensorsThatMayBeEqualAreRead) {
  uint64_t total = 0;
  const Progress progress = [&](const ProgressUpdate& update) {
    total = update.total;
    return true;
  };
  const Archive archive = MemoryArchive()
                              .add("x", DType::kF32, {2}, F32{1, 2})
                              .add("y", DType::kF32, {2}, F32{1, 3})
                              .add("z", DType::kF32, {1, 3}, F32{1, 2, 3})
                              .add("v", DType::kF32, {1, 3}, F32{1, 2, 3})
                              .build();
  ASSERT_TRUE(tied_by_content(archive, 1, progress));
  EXPECT_EQ(total, 24U);
}

TEST(Tied, CanBeCancelled) {
  const Archive archive = MemoryArchive().add("x", DType::kF32, {1}, F32{1}).add("y", DType::kF32, {1}, F32{1}).build();
  const auto groups = tied_by_content(archive, 1, [](const ProgressUpdate&) { return false; });
  ASSERT_FALSE(groups);
  EXPECT_EQ(groups.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace ballast::testing
