#include "ballast/io/stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_reader() { close(0); }
  void close_writer() { close(1); }

 private:
  void close(int end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }
  int ends_[2] = {-1, -1};
};

std::string text_of(const ByteSource& source) {
  const auto bytes = read_bytes(source, 0, source.size());
  EXPECT_TRUE(bytes);
  return bytes ? std::string(as_text(*bytes)) : "";
}

TEST(Spool, GivesBackWhatWasWrittenAndLeavesNothingBehind) {
  const TempFolder folder;
  auto spool = SpoolFile::create(folder.path());
  ASSERT_TRUE(spool) << spool.error().message;
  ASSERT_TRUE(spool->sink().write_text("hello"));
  ASSERT_TRUE(spool->sink().patch(0, as_bytes("J")));
  EXPECT_TRUE(folder.names().empty());
  const auto source = std::move(*spool).to_source("spooled", FileAccess::kMapped);
  ASSERT_TRUE(source);
  EXPECT_EQ(text_of(**source), "Jello");
  EXPECT_EQ((*source)->name(), "spooled");
  EXPECT_TRUE(folder.names().empty());
}

TEST(Spool, SaysWhichFolderIsMissing) {
  const auto spool = SpoolFile::create("/nonexistent/folder");
  ASSERT_FALSE(spool);
  EXPECT_THAT(spool.error().message, HasSubstr("/nonexistent/folder"));
}

TEST(Stream, APipeIsReadToItsEnd) {
  const TempFolder folder;
  Pipe pipe;
  const ByteVector sent = counting_bytes(3'000'000);  // more than a pipe or a piece holds
  std::thread writer([&] {
    PipeSink sink(pipe.writer(), "pipe");
    EXPECT_TRUE(sink.write(sent));
    EXPECT_TRUE(sink.flush());
    EXPECT_EQ(sink.position(), sent.size());
    pipe.close_writer();
  });
  const auto source = open_stream(pipe.reader(), "standard input", folder.path(), FileAccess::kPositional);
  writer.join();
  ASSERT_TRUE(source) << source.error().message;
  const auto received = read_bytes(**source, 0, (*source)->size());
  ASSERT_TRUE(received);
  EXPECT_TRUE(*received == sent);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Stream, AnEmptyPipeIsAnEmptySource) {
  const TempFolder folder;
  Pipe pipe;
  pipe.close_writer();
  const auto source = open_stream(pipe.reader(), "standard input", folder.path(), FileAccess::kMapped);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->size(), 0U);
}

TEST(Stream, ARegularFileIsUsedAsItIs) {
  const TempFolder folder;
  const std::string path = folder.write("a", "content");
  const int fd = ::open(path.c_str(), O_RDONLY);
  // No folder for a temporary file is needed.
  const auto source = open_stream(fd, "standard input", "/nonexistent", FileAccess::kPositional);
  ::close(fd);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(text_of(**source), "content");
}

TEST(Stream, OfARegularFileThatWasReadInPartOnlyTheRestCounts) {
  const TempFolder folder;
  const std::string path = folder.write("a", "content");
  const int fd = ::open(path.c_str(), O_RDONLY);
  ASSERT_EQ(::lseek(fd, 3, SEEK_SET), 3);
  const auto source = open_stream(fd, "standard input", folder.path(), FileAccess::kPositional);
  ::close(fd);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(text_of(**source), "tent");
}

TEST(PipeSink, CannotPatchAndSaysSo) {
  Pipe pipe;
  PipeSink sink(pipe.writer(), "standard output");
  ASSERT_TRUE(sink.write_text("abc"));
  const Status patched = sink.patch(0, as_bytes("x"));
  ASSERT_FALSE(patched);
  EXPECT_EQ(patched.error().code, ErrorCode::kUnsupported);
}

TEST(PipeSink, AReaderThatWentAwayIsRememberedAndTheFailureSticks) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.close_reader();
  PipeSink sink(pipe.writer(), "standard output");
  EXPECT_FALSE(sink.write(counting_bytes(1 << 20)));
  EXPECT_TRUE(sink.reader_is_gone());
  EXPECT_FALSE(sink.flush());
}

TEST(PipeSink, AFullDiskIsAnErrorButNotAReaderThatWentAway) {
  const int fd = ::open("/dev/full", O_WRONLY);
  PipeSink sink(fd, "standard output");
  ASSERT_TRUE(sink.write_text("abc"));
  const Status flushed = sink.flush();
  ::close(fd);
  ASSERT_FALSE(flushed);
  EXPECT_THAT(flushed.error().message, HasSubstr("standard output"));
  EXPECT_FALSE(sink.reader_is_gone());
}

}  // namespace
}  // namespace ballast::testing
