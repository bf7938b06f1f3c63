#include "ballast/io/file_sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/faulty_file_system.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::ballast::testing::FaultyFileSystem;
using ::ballast::testing::read_text_file;
using ::ballast::testing::TempFolder;
using ::testing::HasSubstr;

class OpenFile {
 public:
  explicit OpenFile(const TempFolder& folder)
      : path(folder.path("out")),
        fd(os_file_system(), os_file_system().open_at(AT_FDCWD, path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600)) {}
  std::string path;
  OwnedFd fd;
};

std::string random_text(std::mt19937& random, size_t length) {
  std::string text(length, '\0');
  uint32_t value = random();
  for (char& c : text) c = static_cast<char>((value = value * 1664525 + 1013904223) >> 24);
  return text;
}

// Sizes around everything the sink decides by: nothing, small, the buffer (128 KiB) and more.
size_t random_size(std::mt19937& random) {
  constexpr size_t kBuffer = 128 << 10;
  switch (random() % 6) {
    case 0: return 0;
    case 1: return random() % 16;
    case 2: return random() % 5000;
    case 3: return kBuffer - 2 + random() % 5;
    case 4: return random() % (2 * kBuffer);
    default: return random() % (4 * kBuffer);
  }
}

// Drives a FileSink and a MemorySink with the same calls.
void expect_same_as_memory(const FileSystem& files, uint32_t seed) {
  const TempFolder folder;
  const OpenFile file(folder);
  FileSink sink(files, file.fd.get(), file.path, true);
  MemorySink expected;
  std::mt19937 random(seed);
  for (int step = 0; step < 40; ++step) {
    if (random() % 3 == 0 && expected.position() > 0) {
      const uint64_t offset = random() % expected.position();
      const size_t length = std::min<uint64_t>(random_size(random), expected.position() - offset);
      const std::string text = random_text(random, length);
      ASSERT_TRUE(sink.patch(offset, as_bytes(text)));
      ASSERT_TRUE(expected.patch(offset, as_bytes(text)));
    } else {
      const std::string text = random_text(random, random_size(random));
      ASSERT_TRUE(sink.write(as_bytes(text)));
      ASSERT_TRUE(expected.write(as_bytes(text)));
    }
    ASSERT_EQ(sink.position(), expected.position());
  }
  ASSERT_TRUE(sink.flush());
  EXPECT_TRUE(read_text_file(file.path) == as_text(expected.take())) << "seed " << seed;
}

TEST(FileSink, WritesAndPatchesWhatMemoryWould) {
  for (uint32_t seed = 1; seed <= 10; ++seed) expect_same_as_memory(os_file_system(), seed);
}

// Every third write is interrupted, and the others take only part.
class StutteringWrites final : public FileSystem {
 public:
  ssize_t write_at(int fd, const void* bytes, size_t length, off_t offset) const override {
    if (++writes_ % 3 == 1) {
      errno = EINTR;
      return -1;
    }
    return FileSystem::write_at(fd, bytes, length - length / 3, offset);
  }

 private:
  mutable int writes_ = 0;
};

TEST(FileSink, FinishesInterruptedAndShortWrites) {
  for (uint32_t seed = 1; seed <= 5; ++seed) expect_same_as_memory(StutteringWrites(), seed);
}

TEST(FileSink, WritesZeros) {
  const TempFolder folder;
  const OpenFile file(folder);
  FileSink sink(os_file_system(), file.fd.get(), file.path, false);
  ASSERT_TRUE(sink.write_text("head"));
  ASSERT_TRUE(sink.write_zeros(300'000));
  ASSERT_TRUE(sink.flush());
  EXPECT_EQ(read_text_file(file.path), "head" + std::string(300'000, '\0'));
}

TEST(FileSink, RefusesToPatchWhatIsNotWrittenYet) {
  const TempFolder folder;
  const OpenFile file(folder);
  FileSink sink(os_file_system(), file.fd.get(), file.path, false);
  ASSERT_TRUE(sink.write_text("0123456789"));
  for (const uint64_t offset : {uint64_t{8}, uint64_t{11}, UINT64_MAX}) {
    const Status status = sink.patch(offset, as_bytes("abc"));
    ASSERT_FALSE(status) << offset;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  }
  // A mistake of the caller spoils nothing.
  ASSERT_TRUE(sink.patch(7, as_bytes("abc")));
  ASSERT_TRUE(sink.flush());
  EXPECT_EQ(read_text_file(file.path), "0123456abc");
}

TEST(FileSink, StaysFailedAfterAFailure) {
  const TempFolder folder;
  const OpenFile file(folder);
  const FaultyFileSystem files(FaultyFileSystem::fail_call(2, EIO));
  FileSink sink(files, file.fd.get(), file.path, true);
  const std::string large(1 << 20, 'x');
  ASSERT_TRUE(sink.write(as_bytes(large)));
  const Status failed = sink.write(as_bytes(large));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message,
              HasSubstr(file.path + ": cannot write 1048576 bytes at offset 1048576: Input/output error"));
  for (const Status& later : {sink.write(as_bytes("x")), sink.patch(0, as_bytes("x")), sink.flush()}) {
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().message, failed.error().message);
  }
}

TEST(FileSink, SaysHowMuchIsFreeOnAFullDisk) {
  const TempFolder folder;
  const OpenFile file(folder);
  const FaultyFileSystem files(FaultyFileSystem::fail_every("write_at", ENOSPC));
  FileSink sink(files, file.fd.get(), file.path, true);
  ASSERT_TRUE(sink.write_text("0123456789"));
  const Status failed = sink.flush();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_THAT(failed.error().message,
              ::testing::MatchesRegex(".*/out: no space left: needs 10 more bytes, [0-9]+ are free on that disk"));
}

class IdleFileSystem final : public FileSystem {
 public:
  ssize_t write_at(int, const void*, size_t, off_t) const override { return 0; }
};

TEST(FileSink, GivesUpWhenNothingIsEverWritten) {
  const TempFolder folder;
  const OpenFile file(folder);
  const IdleFileSystem files;
  FileSink sink(files, file.fd.get(), file.path, false);
  ASSERT_TRUE(sink.write_text("x"));
  EXPECT_FALSE(sink.flush());
}

}  // namespace
}  // namespace ballast
