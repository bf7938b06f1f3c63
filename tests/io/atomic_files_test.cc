// Files that appear whole or not at all: what the user sees when all goes well, and when the destination is unfit.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "ballast/io/file.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::ballast::testing::FaultyFileSystem;
using ::ballast::testing::read_text_file;
using ::ballast::testing::run_unprivileged;
using ::ballast::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr CommitOptions kOverwrite{.overwrite = true};

Status write_file(const std::string& path, std::string_view content, CommitOptions options = {},
                  uint64_t expected_size = 0) {
  AtomicFiles files(options);
  BALLAST_TRY(ByteSink * sink, files.add(path, expected_size));
  BALLAST_CHECK(sink->write(as_bytes(content)));
  return files.commit();
}

// "code: message", or "ok".
std::string outcome(const Status& status) {
  return status ? "ok" : std::string(error_code_name(status.error().code)) + ": " + status.error().message;
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

class AtomicFile : public ::testing::Test {
 protected:
  TempFolder folder_;
};

TEST_F(AtomicFile, MadeFromAnotherReplacesThatVersionOnly) {
  const std::string path = folder_.write("a", "old");
  const auto version = version_of(path);
  ASSERT_TRUE(version) << version.error().message;
  const CommitOptions made_from{.overwrite = true, .replaced = *version};
  std::filesystem::remove(path);
  folder_.write("a", "changed meanwhile");
  EXPECT_THAT(outcome(write_file(path, "new", made_from)),
              HasSubstr("a: was changed by another program while the new version was being written"));
  EXPECT_EQ(read_text_file(path), "changed meanwhile");
  const CommitOptions made_from_it{.overwrite = true, .replaced = *version_of(path)};
  EXPECT_EQ(outcome(write_file(path, "new", made_from_it)), "ok");
  EXPECT_EQ(read_text_file(path), "new");
  EXPECT_THAT(folder_.names(), ElementsAre("a"));
}

TEST_F(AtomicFile, AppearsOnlyWithTheCommit) {
  AtomicFiles files({});
  const auto sink = files.add(folder_.path("a"), 0);
  ASSERT_TRUE(sink) << sink.error().message;
  ASSERT_TRUE((*sink)->write_text("content"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("a")));
  ASSERT_TRUE(files.commit());
  EXPECT_EQ(read_text_file(folder_.path("a")), "content");
  EXPECT_THAT(folder_.names(), ElementsAre("a"));
}

TEST_F(AtomicFile, MayBeEmpty) {
  ASSERT_TRUE(write_file(folder_.path("a"), ""));
  EXPECT_EQ(read_text_file(folder_.path("a")), "");
}

TEST_F(AtomicFile, LeavesNothingWhenDropped) {
  {
    AtomicFiles files({});
    ASSERT_TRUE(files.add(folder_.path("a"), 1000));
    ASSERT_TRUE(files.add(folder_.path("b"), 0));
    EXPECT_EQ(folder_.names().size(), 2U);
  }
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(AtomicFile, ReplacesAnExistingFileOnlyWhenAskedTo) {
  const std::string path = folder_.write("a", "old");
  EXPECT_THAT(outcome(write_file(path, "new")), StartsWith("exists: " + path + ": exists already"));
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_THAT(folder_.names(), ElementsAre("a"));
  EXPECT_EQ(outcome(write_file(path, "new", kOverwrite)), "ok");
  EXPECT_EQ(read_text_file(path), "new");
  EXPECT_THAT(folder_.names(), ElementsAre("a"));
}

TEST_F(AtomicFile, DoesNotReplaceAFileThatAppearedMeanwhile) {
  AtomicFiles files({});
  ASSERT_TRUE(files.add(folder_.path("a"), 0));
  folder_.write("a", "theirs");
  EXPECT_THAT(outcome(files.commit()), StartsWith("exists: "));
  EXPECT_EQ(read_text_file(folder_.path("a")), "theirs");
  EXPECT_THAT(folder_.names(), ElementsAre("a"));
}

TEST_F(AtomicFile, DoesNotReplaceAFileWhereOnlyLinksCanTell) {
  const FaultyFileSystem system(FaultyFileSystem::fail_every("rename_new_at", EINVAL));
  EXPECT_EQ(outcome(write_file(folder_.path("a"), "ours", {.file_system = &system})), "ok");
  EXPECT_EQ(read_text_file(folder_.path("a")), "ours");
  EXPECT_THAT(folder_.names(), ElementsAre("a"));

  AtomicFiles files({.file_system = &system});
  ASSERT_TRUE(files.add(folder_.path("b"), 0));
  folder_.write("b", "theirs");
  EXPECT_THAT(outcome(files.commit()), StartsWith("exists: "));
  EXPECT_EQ(read_text_file(folder_.path("b")), "theirs");
  EXPECT_THAT(folder_.names(), ElementsAre("a", "b"));
}

TEST_F(AtomicFile, IsNotPublishedWhereNewAndOldCannotBeToldApart) {
  const FaultyFileSystem system([](const std::string& call, int) {
    return call == "rename_new_at" ? ENOSYS : call == "link_at" ? EPERM : 0;
  });
  EXPECT_THAT(outcome(write_file(folder_.path("a"), "x", {.file_system = &system})), StartsWith("io: "));
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(AtomicFile, CannotBeCommittedTwiceNorExtendedAfterwards) {
  AtomicFiles files({});
  ASSERT_TRUE(files.add(folder_.path("a"), 0));
  ASSERT_TRUE(files.commit());
  EXPECT_THAT(outcome(files.commit()), StartsWith("invalid_argument: "));
  const auto late = files.add(folder_.path("b"), 0);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(folder_.names(), ElementsAre("a"));
}

TEST_F(AtomicFile, IsWrittenOnceInASet) {
  ASSERT_EQ(::symlink("a", folder_.path("link").c_str()), 0);
  AtomicFiles files({});
  ASSERT_TRUE(files.add(folder_.path("a"), 0));
  for (const std::string& again : {folder_.path("a"), folder_.path("./a"), folder_.path("link")}) {
    const auto sink = files.add(again, 0);
    ASSERT_FALSE(sink) << again;
    EXPECT_EQ(sink.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(sink.error().message, HasSubstr("twice"));
  }
}

TEST_F(AtomicFile, ReplacesTheFileItIsReadFrom) {
  std::string old(3 << 20, '\0');
  for (size_t i = 0; i < old.size(); ++i) old[i] = static_cast<char>(i / 7);
  const std::string path = folder_.write("a", old);
  for (const FileAccess access : {FileAccess::kMapped, FileAccess::kPositional}) {
    const auto source = open_file(path, access);
    ASSERT_TRUE(source);
    AtomicFiles files(kOverwrite);
    const auto sink = files.add(path, 0);
    ASSERT_TRUE(sink);
    ASSERT_TRUE((*sink)->write_text("head "));
    const auto bytes = BytesOrView::of(**source, 0, old.size());
    ASSERT_TRUE(bytes);
    ASSERT_TRUE((*sink)->write(bytes->bytes()));
    ASSERT_TRUE(files.commit());
    EXPECT_TRUE(read_text_file(path) == "head " + old);
    const auto still = read_bytes(**source, 0, old.size());
    ASSERT_TRUE(still);
    EXPECT_TRUE(as_text(*still) == old);
    old = "head " + old;
  }
}

// ---------------------------------------------------------------- the destination

TEST_F(AtomicFile, RefusesAFolder) {
  std::filesystem::create_directory(folder_.path("sub"));
  for (const std::string& path : {folder_.path("sub"), folder_.path("sub/"), folder_.path("new/"), folder_.path("."),
                                  folder_.path(".."), std::string("."), std::string("/")}) {
    for (const CommitOptions& options : {CommitOptions{}, kOverwrite}) {
      EXPECT_THAT(outcome(write_file(path, "x", options)), StartsWith("invalid_argument: " + path + ": is a folder"));
    }
  }
  EXPECT_THAT(folder_.names(), ElementsAre("sub"));
}

TEST_F(AtomicFile, RefusesDevicesAndPipes) {
  ASSERT_EQ(::mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  ::alarm(60);
  EXPECT_THAT(outcome(write_file(folder_.path("pipe"), "x", kOverwrite)),
              StartsWith("invalid_argument: " + folder_.path("pipe") + ": is a named pipe"));
  EXPECT_THAT(outcome(write_file("/dev/full", "x", kOverwrite)),
              StartsWith("invalid_argument: /dev/full: is a device"));
  ::alarm(0);
  EXPECT_THAT(folder_.names(), ElementsAre("pipe"));
}

TEST_F(AtomicFile, SaysThatItsFolderDoesNotExist) {
  const std::string path = folder_.path("no/such/a");
  EXPECT_THAT(outcome(write_file(path, "x")),
              StartsWith("not_found: " + path + ": its folder " + folder_.path("no/such") + " does not exist"));
  folder_.write("file", "x");
  EXPECT_THAT(outcome(write_file(folder_.path("file/a"), "x")), StartsWith("not_found: "));
  EXPECT_THAT(folder_.names(), ElementsAre("file"));
}

TEST_F(AtomicFile, RefusesPathsThatCannotBe) {
  EXPECT_THAT(outcome(write_file("", "x")), StartsWith("invalid_argument: "));
  EXPECT_THAT(outcome(write_file(folder_.path(std::string("a\0b", 3)), "x")), StartsWith("invalid_argument: "));
  EXPECT_THAT(outcome(write_file(folder_.path(std::string(256, 'n')), "x")), StartsWith("invalid_argument: "));
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(AtomicFile, MayHaveTheLongestNameThereIs) {
  const std::string name(255, 'n');
  EXPECT_EQ(outcome(write_file(folder_.path(name), "x")), "ok");
  EXPECT_THAT(folder_.names(), ElementsAre(name));
}

TEST_F(AtomicFile, IsRefusedInAFolderThatCannotBeWritten) {
  ::chmod(folder_.path().c_str(), 0555);
  const std::string path = folder_.path("a");
  EXPECT_THAT(run_unprivileged([&] { return outcome(write_file(path, "x")); }),
              StartsWith("io: " + path + ": cannot create a file in its folder: Permission denied"));
  ::chmod(folder_.path().c_str(), 0755);
}

TEST_F(AtomicFile, DoesNotReplaceAWriteProtectedFile) {
  ::chmod(folder_.path().c_str(), 0777);
  const std::string path = folder_.write("a", "old");
  ::chmod(path.c_str(), 0444);
  EXPECT_THAT(run_unprivileged([&] { return outcome(write_file(path, "x", kOverwrite)); }),
              StartsWith("io: " + path + ": cannot replace it: Permission denied"));
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_THAT(folder_.names(), ElementsAre("a"));
}

TEST_F(AtomicFile, MayBeNamedRelativeToAFolderThatIsLeftMeanwhile) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  AtomicFiles files({});
  const auto sink = files.add("a", 0);
  std::filesystem::current_path(before);
  ASSERT_TRUE(sink);
  ASSERT_TRUE((*sink)->write_text("x"));
  EXPECT_EQ(outcome(files.commit()), "ok");
  EXPECT_EQ(read_text_file(folder_.path("a")), "x");
}

// ---------------------------------------------------------------- links, permissions, size

TEST_F(AtomicFile, ReplacesTheTargetOfALinkAndKeepsTheLink) {
  std::filesystem::create_directory(folder_.path("sub"));
  folder_.write("sub/real", "old");
  ASSERT_EQ(::symlink("sub/second", folder_.path("first").c_str()), 0);
  ASSERT_EQ(::symlink(folder_.path("sub/real").c_str(), folder_.path("sub/second").c_str()), 0);
  EXPECT_THAT(outcome(write_file(folder_.path("first"), "new")), StartsWith("exists: "));
  EXPECT_EQ(outcome(write_file(folder_.path("first"), "new", kOverwrite)), "ok");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.path("first")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.path("sub/second")));
  EXPECT_FALSE(std::filesystem::is_symlink(folder_.path("sub/real")));
  EXPECT_EQ(read_text_file(folder_.path("sub/real")), "new");
  EXPECT_THAT(folder_.names(), ElementsAre("first", "sub"));
}

TEST_F(AtomicFile, CreatesTheMissingTargetOfALink) {
  ASSERT_EQ(::symlink("real", folder_.path("link").c_str()), 0);
  EXPECT_EQ(outcome(write_file(folder_.path("link"), "new")), "ok");
  EXPECT_EQ(read_text_file(folder_.path("real")), "new");
  EXPECT_THAT(folder_.names(), ElementsAre("link", "real"));
}

TEST_F(AtomicFile, RefusesALinkThatLeadsNowhereOrRound) {
  ASSERT_EQ(::symlink("loop", folder_.path("loop").c_str()), 0);
  ASSERT_EQ(::symlink("no/such", folder_.path("lost").c_str()), 0);
  ASSERT_EQ(::symlink(".", folder_.path("here").c_str()), 0);
  EXPECT_THAT(outcome(write_file(folder_.path("loop"), "x", kOverwrite)), StartsWith("invalid_argument: "));
  EXPECT_THAT(outcome(write_file(folder_.path("lost"), "x", kOverwrite)), StartsWith("not_found: "));
  EXPECT_THAT(outcome(write_file(folder_.path("here"), "x", kOverwrite)), StartsWith("invalid_argument: "));
}

TEST_F(AtomicFile, LeavesOtherHardLinksTheOldContent) {
  const std::string path = folder_.write("a", "old");
  ASSERT_EQ(::link(path.c_str(), folder_.path("b").c_str()), 0);
  ASSERT_TRUE(write_file(path, "new", kOverwrite));
  EXPECT_EQ(read_text_file(path), "new");
  EXPECT_EQ(read_text_file(folder_.path("b")), "old");
}

TEST_F(AtomicFile, GetsThePermissionsThatTheUmaskAllows) {
  const mode_t before = ::umask(027);
  const Status status = write_file(folder_.path("a"), "x");
  ::umask(before);
  ASSERT_TRUE(status);
  EXPECT_EQ(mode_of(folder_.path("a")), 0640U);
}

TEST_F(AtomicFile, KeepsThePermissionsOfTheFileItReplaces) {
  for (const mode_t mode : {mode_t{0600}, mode_t{0604}, mode_t{0666}, mode_t{0755}}) {
    const std::string path = folder_.write("a", "old");
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    ASSERT_TRUE(write_file(path, "new", kOverwrite));
    EXPECT_EQ(mode_of(path), mode);
  }
}

TEST_F(AtomicFile, IsNeverReadableByMoreThanTheFileItReplaces) {
  const std::string path = folder_.write("a", "secret");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  AtomicFiles files(kOverwrite);
  ASSERT_TRUE(files.add(path, 0));
  for (const std::string& name : folder_.names()) EXPECT_EQ(mode_of(folder_.path(name)), 0600U) << name;
}

TEST_F(AtomicFile, KeepsTheOwnerOfTheFileItReplaces) {
  const std::string path = folder_.write("a", "old");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown(path.c_str(), 4321, 8765), 0);
  ASSERT_TRUE(write_file(path, "new", kOverwrite));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 4321U);
  EXPECT_EQ(info.st_gid, 8765U);
}

TEST_F(AtomicFile, GivesBackWhatWasReservedTooMuch) {
  ASSERT_TRUE(write_file(folder_.path("a"), "short", {}, 8 << 20));
  struct stat info {};
  ASSERT_EQ(::stat(folder_.path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 5);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

TEST_F(AtomicFile, MayBecomeLargerThanExpected) {
  const std::string content(100'000, 'x');
  ASSERT_TRUE(write_file(folder_.path("a"), content, {}, 10));
  EXPECT_EQ(read_text_file(folder_.path("a")), content);
}

TEST_F(AtomicFile, RefusesASizeNoDiskHas) {
  EXPECT_THAT(outcome(write_file(folder_.path("a"), "x", {}, UINT64_MAX)), StartsWith("invalid_argument: "));
  EXPECT_THAT(outcome(write_file(folder_.path("a"), "x", {}, uint64_t{1} << 62)), StartsWith("io: "));
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(AtomicFile, NeedsNoReservationWhereTheFileSystemHasNone) {
  const FaultyFileSystem system(FaultyFileSystem::fail_every("reserve", EOPNOTSUPP));
  EXPECT_EQ(outcome(write_file(folder_.path("a"), "x", {.file_system = &system}, 1000)), "ok");
}

TEST_F(AtomicFile, NeedsNoLocksWhereTheFileSystemHasNone) {
  const FaultyFileSystem system(FaultyFileSystem::fail_every("lock", ENOLCK));
  AtomicFiles first({.overwrite = true, .file_system = &system});
  ASSERT_TRUE(first.add(folder_.path("a"), 0));
  // Without locks nobody can say that the first temporary is stale.
  EXPECT_EQ(outcome(write_file(folder_.path("a"), "x", {.overwrite = true, .file_system = &system})), "ok");
  EXPECT_EQ(outcome(first.commit()), "ok");
}

// ---------------------------------------------------------------- sets, order, durability

TEST_F(AtomicFile, IsPublishedInTheOrderOfCreationWithTheLastOneAsTheCommit) {
  const FaultyFileSystem system(FaultyFileSystem::none());
  AtomicFiles files({.file_system = &system});
  for (const char* name : {"data-1", "data-2", "index"}) {
    const auto sink = files.add(folder_.path(name), 0);
    ASSERT_TRUE(sink);
    ASSERT_TRUE((*sink)->write_text(name));
  }
  const size_t before = system.log().size();
  ASSERT_TRUE(files.commit());
  std::vector<std::string> steps;
  for (size_t i = before; i < system.log().size(); ++i) {
    if (system.log()[i] != "close") steps.push_back(system.log()[i]);
  }
  EXPECT_THAT(steps, ElementsAre("write_at", "sync", "write_at", "sync", "write_at", "sync", "rename_new_at",
                                 "rename_new_at", "sync", "rename_new_at", "sync"));
  EXPECT_THAT(folder_.names(), ElementsAre("data-1", "data-2", "index"));
  for (const std::string& name : folder_.names()) EXPECT_EQ(read_text_file(folder_.path(name)), name);
}

TEST_F(AtomicFile, SyncsEveryFolderOfTheSet) {
  std::filesystem::create_directory(folder_.path("x"));
  std::filesystem::create_directory(folder_.path("y"));
  const FaultyFileSystem system(FaultyFileSystem::none());
  AtomicFiles files({.file_system = &system});
  for (const char* name : {"x/1", "y/2", "x/3"}) ASSERT_TRUE(files.add(folder_.path(name), 0));
  ASSERT_TRUE(files.commit());
  // Three files; both folders before the commit and after it.
  EXPECT_GE(std::ranges::count(system.log(), "sync"), 3 + 2 + 2);
}

TEST_F(AtomicFile, IsNotSyncedWhenThatIsNotWanted) {
  const FaultyFileSystem system(FaultyFileSystem::none());
  ASSERT_TRUE(write_file(folder_.path("a"), "x", {.sync = false, .file_system = &system}));
  EXPECT_EQ(std::ranges::count(system.log(), "sync"), 0);
  EXPECT_EQ(std::ranges::count(system.log(), "check_writes"), 1);
  EXPECT_EQ(read_text_file(folder_.path("a")), "x");
}

TEST_F(AtomicFile, MayBeWrittenBesideOthersFromSeveralThreads) {
  constexpr int kFiles = 6;
  AtomicFiles files({});
  std::vector<ByteSink*> sinks;
  for (int i = 0; i < kFiles; ++i) {
    const auto sink = files.add(folder_.path(std::to_string(i)), 0);
    ASSERT_TRUE(sink);
    sinks.push_back(*sink);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kFiles; ++i) {
    threads.emplace_back([i, sink = sinks[static_cast<size_t>(i)]] {
      for (int k = 0; k < 1000; ++k) EXPECT_TRUE(sink->write_text(std::string(300, static_cast<char>('a' + i))));
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(files.commit());
  for (int i = 0; i < kFiles; ++i) {
    EXPECT_TRUE(read_text_file(folder_.path(std::to_string(i))) == std::string(300'000, static_cast<char>('a' + i)));
  }
}

TEST_F(AtomicFile, SurvivesManyWritersToOneDestination) {
  constexpr int kWriters = 4;
  const std::string path = folder_.path("a");
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([&, i] {
      const std::string content(200'000, static_cast<char>('a' + i));
      for (int k = 0; k < 25; ++k) {
        EXPECT_EQ(outcome(write_file(path, content, {.overwrite = true, .sync = false})), "ok");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const std::string content = read_text_file(path);
  ASSERT_EQ(content.size(), 200'000U);
  EXPECT_EQ(content, std::string(200'000, content[0]));
  EXPECT_THAT(folder_.names(), ElementsAre("a"));
}

TEST_F(AtomicFile, HasOneWinnerWhenManyCreateIt) {
  constexpr int kWriters = 4;
  for (int round = 0; round < 10; ++round) {
    const std::string path = folder_.path("a" + std::to_string(round));
    std::vector<std::string> outcomes(kWriters);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kWriters; ++i) {
      threads.emplace_back(
          [&, i] { outcomes[i] = outcome(write_file(path, "writer " + std::to_string(i), {.sync = false})); });
    }
    for (auto& thread : threads) thread.join();
    size_t winners = 0;
    for (size_t i = 0; i < kWriters; ++i) {
      if (outcomes[i] == "ok") {
        ++winners;
        EXPECT_EQ(read_text_file(path), "writer " + std::to_string(i));
      } else {
        EXPECT_THAT(outcomes[i], StartsWith("exists: "));
      }
    }
    EXPECT_EQ(winners, 1U);
  }
  EXPECT_EQ(folder_.names().size(), 10U);
}

}  // namespace
}  // namespace ballast
