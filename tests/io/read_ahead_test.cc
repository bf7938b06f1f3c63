#include "ballast/io/read_ahead.h"

#include <gtest/gtest.h>

#include <vector>

#include "ballast/io/file.h"
#include "ballast/io/file_system.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Remembers what it was asked for.
class AskedSource final : public ByteSource {
 public:
  explicit AskedSource(uint64_t size) : size_(size) {}

  uint64_t size() const override { return size_; }
  Status read_at(uint64_t, MutableByteSpan) const override { return {}; }
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
  void prefetch(uint64_t offset, uint64_t length) const override {
    EXPECT_EQ(offset < next_ && offset + length > next_, false) << "asked for twice";
    next_ = offset + length;
    total_ += length;
    ++calls_;
  }
  const std::string& name() const override { return name_; }

  uint64_t next() const { return next_; }
  uint64_t total() const { return total_; }
  uint64_t calls() const { return calls_; }

 private:
  uint64_t size_;
  std::string name_ = "asked";
  mutable uint64_t next_ = 0;
  mutable uint64_t total_ = 0;
  mutable uint64_t calls_ = 0;
};

TEST(ReadAhead, AsksForALongRangeAtOnceUpToItsWindow) {
  const AskedSource source(1000 * kMiB);
  ReadAhead ahead(source);
  ahead.reading(0, 4 * kMiB);
  EXPECT_EQ(source.next(), 4 * kMiB);
  ahead.reading(100 * kMiB, 900 * kMiB);
  EXPECT_EQ(source.next(), 100 * kMiB + ReadAhead::kWindow);
}

TEST(ReadAhead, StaysAheadOfAReaderThatGoesThroughTheFile) {
  constexpr uint64_t kTensor = 3 * kMiB;
  const AskedSource source(100 * kTensor);
  ReadAhead ahead(source);
  for (uint64_t begin = 0; begin < source.size(); begin += kTensor) {
    for (uint64_t at = begin; at < begin + kTensor; at += kMiB) {
      ahead.reading(at, begin + kTensor);
      // Half of what was read, until that is the whole window.
      const uint64_t expected = std::min({source.size(), at + at / 2, at + ReadAhead::kWindow - kMiB});
      ASSERT_GE(source.next(), expected);
    }
  }
  EXPECT_EQ(source.total(), source.size()) << "everything once";
}

TEST(ReadAhead, ScatteredReadersCostAtMostHalfMore) {
  const AskedSource source(uint64_t{1} << 40);
  ReadAhead ahead(source);
  constexpr uint64_t kTensor = 16 * kMiB;
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t begin = i * 1000 * kMiB;
    for (uint64_t at = begin; at < begin + kTensor; at += 4 * kMiB) ahead.reading(at, begin + kTensor);
  }
  EXPECT_LE(source.total(), 100 * kTensor * 3 / 2);
}

TEST(ReadAhead, ManySmallRangesMakeFewRequests) {
  const AskedSource source(100 * kMiB);
  ReadAhead ahead(source);
  for (uint64_t at = 0; at < source.size(); at += 64) ahead.reading(at, at + 64);
  EXPECT_EQ(source.total(), source.size());
  EXPECT_LT(source.calls(), 200U);  // while nothing is known yet, each small range is its own request
}

TEST(ReadAhead, TwoReadersSideBySideAreOneStretch) {
  const AskedSource source(400 * kMiB);
  ReadAhead ahead(source);
  for (uint64_t begin = 0; begin < source.size(); begin += 8 * kMiB) {
    for (uint64_t at = 0; at < 4 * kMiB; at += kMiB) {
      ahead.reading(begin + at, begin + 4 * kMiB);
      ahead.reading(begin + 4 * kMiB + at, begin + 8 * kMiB);
    }
  }
  EXPECT_EQ(source.total(), source.size());
}

// Counts the requests that reach the operating system.
class CountingFileSystem final : public FileSystem {
 public:
  void prefetch_mapped(void*, size_t length) const override { asked.push_back(length); }
  void prefetch_file(int, off_t, off_t length) const override { asked.push_back(static_cast<uint64_t>(length)); }
  bool is_resident(void*) const override { return in_memory; }
  bool is_cached(int, off_t) const override { return in_memory; }

  mutable std::vector<uint64_t> asked;
  bool in_memory = false;
};

TEST(ReadAhead, FilesAreAskedForInMebibytesAndOnlyWhereTheyAreNotInMemory) {
  const testing::TempFolder folder;
  const std::string path = folder.write("file", std::string(3 * kMiB + 5, 'x'));
  for (const FileAccess access : {FileAccess::kMapped, FileAccess::kPositional}) {
    CountingFileSystem files;
    const auto source = open_file(path, access, &files);
    ASSERT_TRUE(source);
    (*source)->prefetch(kMiB, 10 * kMiB);
    EXPECT_EQ(files.asked, (std::vector<uint64_t>{kMiB, kMiB, 5}));
    files.in_memory = true;
    (*source)->prefetch(0, 10 * kMiB);
    EXPECT_EQ(files.asked.size(), 3U);
  }
}

}  // namespace
}  // namespace ballast
