// Files as sources of bytes.
#include "ballast/io/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <thread>

#include "ballast/io/file_system.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::ballast::testing::FaultyFileSystem;
using ::ballast::testing::run_unprivileged;
using ::ballast::testing::TempFolder;
using ::testing::HasSubstr;

using Source = std::shared_ptr<const ByteSource>;

std::string read_text(const ByteSource& source, uint64_t offset, uint64_t length) {
  auto bytes = read_bytes(source, offset, length);
  return bytes ? std::string(as_text(*bytes)) : "error: " + bytes.error().message;
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// "code: message" of an open that must fail.
std::string open_failure(const std::string& path, FileAccess access) {
  auto source = open_file(path, access);
  if (source) return "opened";
  return std::string(error_code_name(source.error().code)) + ": " + source.error().message;
}

class File : public ::testing::TestWithParam<FileAccess> {
 protected:
  Source open(const std::string& path) {
    auto source = open_file(path, GetParam());
    EXPECT_TRUE(source) << source.error().message;
    return source ? *source : nullptr;
  }
  std::string failure(const std::string& path) { return open_failure(path, GetParam()); }

  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Access, File, ::testing::Values(FileAccess::kMapped, FileAccess::kPositional),
                         [](const auto& instance) {
                           return instance.param == FileAccess::kMapped ? "Mapped" : "Positional";
                         });

TEST_P(File, ReadsAnyRange) {
  const Source source = open(folder_.write("a", "0123456789"));
  EXPECT_EQ(source->size(), 10U);
  EXPECT_EQ(source->name(), folder_.path("a"));
  EXPECT_EQ(read_text(*source, 0, 10), "0123456789");
  EXPECT_EQ(read_text(*source, 3, 4), "3456");
  EXPECT_EQ(read_text(*source, 10, 0), "");
}

TEST_P(File, RefusesRangesPastTheEndAndNamesTheFile) {
  const Source source = open(folder_.write("a", "0123456789"));
  std::byte buffer[8];
  for (const uint64_t offset : {uint64_t{3}, uint64_t{10}, uint64_t{11}, std::numeric_limits<uint64_t>::max() - 3}) {
    const Status status = source->read_at(offset, buffer);
    ASSERT_FALSE(status) << offset;
    EXPECT_THAT(status.error().message, HasSubstr(folder_.path("a")));
    EXPECT_FALSE(source->view(offset, 8)) << offset;
  }
}

TEST_P(File, OpensAnEmptyFile) {
  const Source source = open(folder_.write("empty", ""));
  EXPECT_EQ(source->size(), 0U);
  EXPECT_EQ(source->name(), folder_.path("empty"));
  EXPECT_EQ(read_text(*source, 0, 0), "");
  std::byte one[1];
  EXPECT_FALSE(source->read_at(0, one));
}

TEST_P(File, TakesAnyPrefetchAsAHint) {
  const Source source = open(folder_.write("a", std::string(100'000, 'x')));
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  const std::pair<uint64_t, uint64_t> ranges[] = {{0, 0},       {0, 100'000}, {5000, 17},     {99'999, kHuge},
                                                  {100'000, 1}, {kHuge, 1},   {kHuge, kHuge}, {0, kHuge}};
  for (const auto& [offset, length] : ranges) source->prefetch(offset, length);
  EXPECT_EQ(read_text(*source, 99'998, 2), "xx");
}

TEST_P(File, ReadsBeyondFourGibibytes) {
  constexpr uint64_t kOffset = (uint64_t{5} << 30) + 7;
  const std::string path = folder_.write("sparse", "");
  const int fd = ::open(path.c_str(), O_WRONLY);
  const bool written = ::pwrite(fd, "end", 3, kOffset) == 3;
  ::close(fd);
  if (!written) GTEST_SKIP() << "this file system has no files of that size";
  const Source source = open(path);
  EXPECT_EQ(source->size(), kOffset + 3);
  EXPECT_EQ(read_text(*source, kOffset, 3), "end");
  EXPECT_EQ(read_text(*source, kOffset - 2, 2), std::string(2, '\0'));
}

TEST_P(File, KeepsItsContentWhenAnotherIsRenamedOverIt) {
  const std::string path = folder_.write("a", "old content");
  const Source source = open(path);
  ASSERT_EQ(::rename(folder_.write("b", "new").c_str(), path.c_str()), 0);
  EXPECT_EQ(read_text(*source, 0, 11), "old content");
}

TEST_P(File, IsReadByManyThreadsAtOnce) {
  std::string content(1 << 20, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + i / 251);
  const Source source = open(folder_.write("a", content));
  std::vector<std::thread> threads;
  std::vector<std::string> results(4);
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t offset = t; offset + 1000 <= content.size(); offset += 1000) {
        results[t] += read_text(*source, offset, 1000);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t t = 0; t < results.size(); ++t) EXPECT_EQ(results[t], content.substr(t, results[t].size()));
}

TEST_P(File, FollowsASymbolicLink) {
  folder_.write("real", "content");
  ASSERT_EQ(::symlink("real", folder_.path("link").c_str()), 0);
  EXPECT_EQ(read_text(*open(folder_.path("link")), 0, 7), "content");
}

TEST_P(File, SaysThatAFileIsMissing) {
  folder_.write("a", "x");
  ASSERT_EQ(::symlink("nowhere", folder_.path("dangling").c_str()), 0);
  for (const std::string& path : {folder_.path("missing"), folder_.path("a/b"), folder_.path("no/such/folder"),
                                  folder_.path("dangling"), std::string()}) {
    EXPECT_THAT(failure(path), ::testing::StartsWith("not_found: " + path + ": cannot open: ")) << path;
  }
}

TEST_P(File, RefusesWhatIsNotARegularFile) {
  EXPECT_THAT(failure(folder_.path()), HasSubstr("invalid_argument: " + folder_.path() + ": is a folder"));
  EXPECT_THAT(failure("/dev/null"), HasSubstr("is a device"));

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket_path = folder_.path("s");
  ASSERT_LT(socket_path.size(), sizeof address.sun_path);
  socket_path.copy(address.sun_path, socket_path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(failure(socket_path), HasSubstr("is a socket"));
  ::close(fd);
}

TEST_P(File, RefusesANamedPipeWithoutWaitingForAWriter) {
  ASSERT_EQ(::mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  ::alarm(60);  // a wait ends the test program
  EXPECT_THAT(failure(folder_.path("pipe")),
              HasSubstr("invalid_argument: " + folder_.path("pipe") + ": is a named pipe"));
  ::alarm(0);
}

// The path is a file when it is looked at and a pipe when it is opened.
class SwappingFileSystem final : public FileSystem {
 public:
  SwappingFileSystem(std::string before, std::string after) : before_(std::move(before)), after_(std::move(after)) {}
  int stat_at(int folder, const char*, int flags, struct stat* out) const override {
    return FileSystem::stat_at(folder, before_.c_str(), flags, out);
  }
  int open_at(int folder, const char*, int flags, mode_t mode) const override {
    return FileSystem::open_at(folder, after_.c_str(), flags, mode);
  }

 private:
  std::string before_, after_;
};

TEST_P(File, RefusesANamedPipeThatTookTheFilesPlaceMeanwhile) {
  ASSERT_EQ(::mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  const SwappingFileSystem files(folder_.write("a", "x"), folder_.path("pipe"));
  ::alarm(60);
  const auto source = open_file(folder_.path("a"), GetParam(), &files);
  ::alarm(0);
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, HasSubstr("is a named pipe"));
}

TEST_P(File, RefusesPathsThatCannotBe) {
  ASSERT_EQ(::symlink("loop", folder_.path("loop").c_str()), 0);
  EXPECT_THAT(failure(folder_.path("loop")), HasSubstr("invalid_argument: "));
  EXPECT_THAT(failure(folder_.path(std::string(300, 'n'))), HasSubstr("invalid_argument: "));
  const std::string path = folder_.write("a", "x") + std::string("\0.bin", 5);
  EXPECT_THAT(failure(path), HasSubstr("zero byte"));
}

TEST_P(File, SaysThatAFileMayNotBeRead) {
  const std::string path = folder_.write("secret", "x");
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(path.c_str(), 0);
  EXPECT_THAT(run_unprivileged([&] { return failure(path); }),
              ::testing::StartsWith("io: " + path + ": cannot open: "));
}

TEST(CopyOnWrite, WhatIsWrittenStaysInThisProcess) {
  const TempFolder folder;
  const std::string path = folder.write("a", "0123456789");
  const auto source = open_file(path, FileAccess::kCopyOnWrite);
  ASSERT_TRUE(source);
  const ByteSpan view = (*source)->view(2, 3).value();
  const_cast<std::byte*>(view.data())[0] = std::byte{'x'};
  EXPECT_EQ(as_text(view), "x34");
  EXPECT_EQ(read_text(**source, 0, 10), "01x3456789");
  EXPECT_EQ(read_text(**open_file(path, FileAccess::kPositional), 0, 10), "0123456789");
}

TEST(MappedFile, IsViewedWithoutACopy) {
  const TempFolder folder;
  const auto source = open_file(folder.write("a", "0123456789"), FileAccess::kMapped);
  ASSERT_TRUE(source);
  const auto all = (*source)->view(0, 10);
  const auto part = (*source)->view(4, 3);
  ASSERT_TRUE(all && part);
  EXPECT_EQ(as_text(*part), "456");
  EXPECT_EQ(part->data(), all->data() + 4);
  EXPECT_TRUE((*source)->view(10, 0));
}

TEST(MappedFile, HoldsNoDescriptor) {
  const TempFolder folder;
  const std::string path = folder.write("a", "0123456789");
  const size_t before = open_descriptors();
  const auto source = open_file(path, FileAccess::kMapped);
  ASSERT_TRUE(source);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(MappedFile, IsReadInsteadWhereItCannotBeMapped) {
  const TempFolder folder;
  const std::string path = folder.write("a", "0123456789");
  const size_t before = open_descriptors();
  {
    const FaultyFileSystem files(FaultyFileSystem::fail_every("map", ENODEV));
    const auto source = open_file(path, FileAccess::kMapped, &files);
    ASSERT_TRUE(source);
    EXPECT_FALSE((*source)->view(0, 10));
    EXPECT_EQ(read_text(**source, 2, 3), "234");
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(PositionalFile, HasNoView) {
  const TempFolder folder;
  const auto source = open_file(folder.write("a", "0123456789"), FileAccess::kPositional);
  ASSERT_TRUE(source);
  EXPECT_FALSE((*source)->view(0, 10));
}

TEST(PositionalFile, NamesBothSizesWhenTheFileShrank) {
  const TempFolder folder;
  const std::string path = folder.write("a", std::string(5000, 'x'));
  const auto source = open_file(path, FileAccess::kPositional);
  ASSERT_TRUE(source);
  ASSERT_EQ(::truncate(path.c_str(), 1234), 0);
  EXPECT_EQ(read_text(**source, 0, 1234), std::string(1234, 'x'));
  std::byte buffer[100];
  const Status status = (*source)->read_at(1200, buffer);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, HasSubstr(path + ": had 5000 bytes when it was opened and has 1234 now"));
}

TEST(PositionalFile, IgnoresThatTheFileGrew) {
  const TempFolder folder;
  const std::string path = folder.write("a", "0123456789");
  const auto source = open_file(path, FileAccess::kPositional);
  ASSERT_TRUE(source);
  folder.write("a", "0123456789 and more");
  EXPECT_EQ((*source)->size(), 10U);
  std::byte buffer[11];
  EXPECT_FALSE((*source)->read_at(0, buffer));
}

// Every other read is interrupted, and none gives more than three bytes.
class StutteringReads final : public FileSystem {
 public:
  ssize_t read_at(int fd, void* out, size_t length, off_t offset) const override {
    if (++reads_ % 2 == 1) {
      errno = EINTR;
      return -1;
    }
    return FileSystem::read_at(fd, out, std::min<size_t>(length, 3), offset);
  }

 private:
  mutable int reads_ = 0;
};

TEST(PositionalFile, PutsInterruptedAndShortReadsTogether) {
  const TempFolder folder;
  const StutteringReads files;
  const auto source = open_file(folder.write("a", "0123456789"), FileAccess::kPositional, &files);
  ASSERT_TRUE(source);
  EXPECT_EQ(read_text(**source, 1, 8), "12345678");
}

TEST(PositionalFile, NamesOffsetAndReasonWhenTheDiskFails) {
  const TempFolder folder;
  const FaultyFileSystem files(FaultyFileSystem::fail_every("read_at", EIO));
  const auto source = open_file(folder.write("a", "0123456789"), FileAccess::kPositional, &files);
  ASSERT_TRUE(source);
  EXPECT_THAT(read_text(**source, 4, 3),
              HasSubstr(folder.path("a") + ": cannot read 3 bytes at offset 4: Input/output error"));
}

TEST(PositionalFile, ReportsEveryCallThatFailsWhileOpening) {
  const TempFolder folder;
  const std::string path = folder.write("a", "0123456789");
  const size_t before = open_descriptors();
  for (int n = 1;; ++n) {
    const FaultyFileSystem files(FaultyFileSystem::fail_call(n, EIO));
    const auto source = open_file(path, FileAccess::kPositional, &files);
    if (files.calls() < n) {
      EXPECT_TRUE(source);
      EXPECT_GT(n, 3);
      break;
    }
    ASSERT_FALSE(source) << files.log().back();
    EXPECT_EQ(source.error().code, ErrorCode::kIo);
    EXPECT_THAT(source.error().message, HasSubstr(path));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(FolderSiblings, OpensAFileBesideTheGivenOne) {
  const TempFolder folder;
  folder.write("shard-1", "one");
  for (const FileAccess access : {FileAccess::kMapped, FileAccess::kPositional}) {
    const auto siblings = make_folder_siblings(folder.path("index.json"), access);
    const auto source = siblings->open_sibling("shard-1");
    ASSERT_TRUE(source);
    EXPECT_EQ(read_text(**source, 0, 3), "one");
    EXPECT_EQ((*source)->name(), folder.path("shard-1"));
    EXPECT_EQ((*source)->view(0, 3).has_value(), access == FileAccess::kMapped);
  }
}

TEST(FolderSiblings, OpensBesideAPathWithoutAFolder) {
  const TempFolder folder;
  folder.write("shard-1", "one");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto source = make_folder_siblings("index.json", FileAccess::kMapped)->open_sibling("shard-1");
  std::filesystem::current_path(before);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->name(), "shard-1");
}

TEST(FolderSiblings, LooksBesideALinkNotBesideItsTarget) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path("blobs"));
  folder.write("blobs/1234", "{}");
  folder.write("shard-1", "one");
  ASSERT_EQ(::symlink("blobs/1234", folder.path("index.json").c_str()), 0);
  EXPECT_TRUE(make_folder_siblings(folder.path("index.json"), FileAccess::kMapped)->open_sibling("shard-1"));
}

TEST(FolderSiblings, RefusesEverythingButPlainNames) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path("sub"));
  folder.write("sub/inner", "x");
  folder.write("outer", "x");
  const auto siblings = make_folder_siblings(folder.path("sub/index.json"), FileAccess::kMapped);
  const std::string bad[] = {"",
                             ".",
                             "..",
                             "../outer",
                             "sub/inner",
                             "./inner",
                             folder.path("outer"),
                             "..\\outer",
                             "a\\inner",
                             "/",
                             "inner/",
                             std::string("inner\0", 6)};
  for (const std::string& name : bad) {
    const auto source = siblings->open_sibling(name);
    ASSERT_FALSE(source) << name;
    EXPECT_EQ(source.error().code, ErrorCode::kCorrupt) << name;
    EXPECT_THAT(source.error().message, HasSubstr(folder.path("sub/index.json") + ": names the file \"" + name));
    EXPECT_THAT(source.error().message, HasSubstr("outside its folder"));
  }
  EXPECT_TRUE(siblings->open_sibling("inner"));
}

TEST(FolderSiblings, SaysWhichFileIsMissing) {
  const TempFolder folder;
  const auto source = make_folder_siblings(folder.path("index.json"), FileAccess::kMapped)->open_sibling("shard-2");
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(source.error().message, HasSubstr(folder.path("shard-2")));
}

}  // namespace
}  // namespace ballast
