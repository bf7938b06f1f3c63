// Whatever fails, and whenever the process dies: each destination is what it was or the whole new file.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "ballast/io/file.h"
#include "ballast/io/temporary_file.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::ballast::testing::FaultyFileSystem;
using ::ballast::testing::read_text_file;
using ::ballast::testing::run_in_child;
using ::ballast::testing::TempFolder;
using ::ballast::testing::WaitingChild;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kSet = {"data-1", "data-2", "index"};

std::string new_content(const std::string& name) { return name + " new " + std::string(140'000, 'n'); }
std::string old_content(const std::string& name) { return name + " old"; }

// Every kind of call that a writer makes: small and large writes, a patch, a reservation that is too large.
Status write_set(const TempFolder& folder, const std::vector<std::string>& names, bool overwrite,
                 const FileSystem* system) {
  AtomicFiles files({.overwrite = overwrite, .file_system = system});
  for (const std::string& name : names) {
    BALLAST_TRY(ByteSink * sink, files.add(folder.path(name), 200'000));
    const std::string content = new_content(name);
    BALLAST_CHECK(sink->write(as_bytes("X" + content.substr(1, 9))));
    BALLAST_CHECK(sink->write(as_bytes(std::string_view(content).substr(10))));
    BALLAST_CHECK(sink->patch(0, as_bytes(content.substr(0, 1))));
  }
  return files.commit();
}

void write_old(const TempFolder& folder) {
  for (const std::string& name : kSet) folder.write(name, old_content(name));
}

std::vector<std::string> temporaries(const TempFolder& folder) {
  std::vector<std::string> found;
  for (const std::string& name : folder.names()) {
    if (name.starts_with(".")) found.push_back(name);
  }
  return found;
}

// Number of files of the set that are new; every one must be whole, old or (where that is allowed) absent.
size_t count_new(const TempFolder& folder, bool may_be_absent) {
  size_t fresh = 0;
  bool earlier_are_new = true;
  for (const std::string& name : kSet) {
    if (may_be_absent && !std::filesystem::exists(folder.path(name))) {
      earlier_are_new = false;
      continue;
    }
    const std::string content = read_text_file(folder.path(name));
    const bool is_new = content == new_content(name);
    if (is_new) {
      EXPECT_TRUE(earlier_are_new) << name << " is visible before what precedes it";
      ++fresh;
    } else {
      EXPECT_EQ(content, old_content(name));
      EXPECT_FALSE(may_be_absent);
      earlier_are_new = false;
    }
  }
  return fresh;
}

constexpr int kErrors[] = {EIO, ENOSPC, EACCES};

TEST(AtomicFault, OfAnyCallLeavesEachOldFileOrTheWholeNewOne) {
  for (const int error_number : kErrors) {
    int failures = 0;
    for (int n = 1;; ++n) {
      const TempFolder folder;
      write_old(folder);
      const FaultyFileSystem system(FaultyFileSystem::fail_call(n, error_number));
      const Status status = write_set(folder, kSet, true, &system);
      EXPECT_THAT(temporaries(folder), IsEmpty()) << n;
      const size_t fresh = count_new(folder, false);
      if (status) {
        EXPECT_EQ(fresh, kSet.size()) << n;
      } else {
        ++failures;
        EXPECT_THAT(status.error().message, HasSubstr(folder.path())) << n;
        // What has happened already is told.
        if (fresh > 0) {
          EXPECT_THAT(status.error().message, HasSubstr("in place")) << n;
        }
      }
      if (system.calls() < n) break;
    }
    EXPECT_GT(failures, 20);
  }
}

TEST(AtomicFault, OfAnyCallLeavesNothingOfANewSet) {
  for (const int error_number : kErrors) {
    for (int n = 1;; ++n) {
      const TempFolder folder;
      const FaultyFileSystem system(FaultyFileSystem::fail_call(n, error_number));
      const Status status = write_set(folder, kSet, false, &system);
      EXPECT_THAT(temporaries(folder), IsEmpty()) << n;
      const size_t fresh = count_new(folder, true);
      if (status || fresh == kSet.size()) {
        EXPECT_EQ(fresh, kSet.size()) << n;
        if (!status) {
          EXPECT_THAT(status.error().message, HasSubstr("everything is in place, but may not survive"));
        }
      } else {
        EXPECT_EQ(fresh, 0U) << n << ": " << status.error().message;
      }
      if (system.calls() < n) break;
    }
  }
}

TEST(AtomicFault, OfRemovingATemporaryIsMadeUpForByTheNextWriter) {
  const TempFolder folder;
  const FaultyFileSystem no_removal(FaultyFileSystem::fail_every("unlink_at", EIO));
  {
    AtomicFiles files({.file_system = &no_removal});
    ASSERT_TRUE(files.add(folder.path("index"), 0));
  }
  EXPECT_EQ(temporaries(folder).size(), 1U);
  ASSERT_TRUE(write_set(folder, kSet, false, nullptr));
  EXPECT_THAT(folder.names(), ElementsAre("data-1", "data-2", "index"));
}

TEST(AtomicFault, InAnyWriteMakesTheCommitFailToo) {
  const TempFolder folder;
  folder.write("index", "old");
  const FaultyFileSystem system(FaultyFileSystem::fail_every("write_at", ENOSPC));
  AtomicFiles files({.overwrite = true, .file_system = &system});
  const auto sink = files.add(folder.path("index"), 0);
  ASSERT_TRUE(sink);
  EXPECT_FALSE((*sink)->write(as_bytes(std::string(1 << 20, 'x'))));
  const Status status = files.commit();  // by a caller who did not look
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("no space left"));
  EXPECT_EQ(read_text_file(folder.path("index")), "old");
  EXPECT_THAT(folder.names(), ElementsAre("index"));
}

TEST(AtomicFault, OfALaterRenameNamesWhatWasAlreadyReplaced) {
  const TempFolder folder;
  write_old(folder);
  int renames = 0;
  const FaultyFileSystem system(
      [&](const std::string& call, int) { return call == "rename_at" && ++renames == 3 ? EIO : 0; });
  const Status status = write_set(folder, kSet, true, &system);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, HasSubstr(folder.path("index") + ": cannot give it its final name"));
  EXPECT_THAT(status.error().message,
              HasSubstr("already in place and new: " + folder.path("data-1") + ", " + folder.path("data-2")));
  EXPECT_EQ(count_new(folder, false), 2U);
}

TEST(AtomicFault, OfASetDoesNotTakeBackWhatSomebodyElsePutThere) {
  const TempFolder folder;
  int renames = 0;
  const FaultyFileSystem system([&](const std::string& call, int) {
    if (call != "rename_new_at" || ++renames < 2) return 0;
    // Another program replaces the first file just before the second is published.
    std::filesystem::rename(folder.write("theirs", "theirs"), folder.path("data-1"));
    return EIO;
  });
  ASSERT_FALSE(write_set(folder, kSet, false, &system));
  EXPECT_THAT(folder.names(), ElementsAre("data-1"));
  EXPECT_EQ(read_text_file(folder.path("data-1")), "theirs");
}

// ---------------------------------------------------------------- death of the process

TEST(AtomicDeath, AtAnyCallLeavesEachOldFileOrTheWholeNewOneAndTheNextWriterTidiesUp) {
  int deaths = 0;
  for (const bool overwrite : {true, false}) {
    for (int n = 1;; ++n) {
      const TempFolder folder;
      if (overwrite) write_old(folder);
      const pid_t child = ::fork();
      if (child == 0) {
        const FaultyFileSystem system(FaultyFileSystem::kill_at(n));
        const Status status = write_set(folder, kSet, overwrite, &system);
        ::_exit(status ? 0 : 1);
      }
      int outcome = 0;
      ASSERT_EQ(::waitpid(child, &outcome, 0), child);
      const size_t fresh = count_new(folder, !overwrite);
      if (WIFEXITED(outcome)) {
        EXPECT_EQ(WEXITSTATUS(outcome), 0);
        EXPECT_EQ(fresh, kSet.size());
        break;
      }
      ++deaths;
      ASSERT_EQ(WTERMSIG(outcome), SIGKILL);
      const FaultyFileSystem sound(FaultyFileSystem::none());
      const Status next = write_set(folder, kSet, true, &sound);
      EXPECT_TRUE(next) << next.error().message;
      EXPECT_EQ(count_new(folder, false), kSet.size());
      EXPECT_THAT(temporaries(folder), IsEmpty()) << n;
    }
  }
  EXPECT_GT(deaths, 60);
}

// Starts a file and stops in the middle of it.
void start_writing(const std::string& path) {
  auto* files = new AtomicFiles({.overwrite = true});  // outlives the call: its process is to be killed
  const auto sink = files->add(path, 4 << 20);
  if (!sink || !(*sink)->write(as_bytes(std::string(2 << 20, 'h')))) ::_exit(1);
}

TEST(AtomicDeath, LeavesATemporaryThatTheNextWriterRemovesOnlyOnceItsWriterIsDead) {
  const TempFolder folder;
  const std::string path = folder.write("a", "old");
  WaitingChild writer([&] { start_writing(path); });
  ASSERT_EQ(temporaries(folder).size(), 1U);
  const std::string theirs = temporaries(folder).front();
  EXPECT_TRUE(is_temporary_of(theirs, "a"));

  const auto write_again = [&] {
    AtomicFiles files({.overwrite = true});
    const auto sink = files.add(path, 0);
    return sink && (*sink)->write_text("mine") && files.commit();
  };
  EXPECT_TRUE(write_again());
  EXPECT_THAT(folder.names(), ElementsAre(theirs, "a")) << "a living writer's file was taken away";

  writer.end(SIGKILL);
  EXPECT_EQ(read_text_file(path), "mine");
  EXPECT_THAT(folder.names(), ElementsAre(theirs, "a"));
  EXPECT_TRUE(write_again());
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(AtomicDeath, LeavesOtherDestinationsTemporariesToTheirOwnNextWriter) {
  const TempFolder folder;
  const std::string stale_b = temporary_name("b", 1, 2);
  folder.write(temporary_name("a", 1, 2), "stale");
  folder.write(stale_b, "stale");
  folder.write(".a.note.ballast-tmp", "not ours");
  ASSERT_EQ(::symlink("b", folder.path(temporary_name("a", 3, 4)).c_str()), 0);
  AtomicFiles files({});
  ASSERT_TRUE(files.add(folder.path("a"), 0));
  ASSERT_TRUE(files.commit());
  EXPECT_THAT(folder.names(), ElementsAre(temporary_name("a", 3, 4), ".a.note.ballast-tmp", stale_b, "a"));
}

TEST(AtomicDeath, BySignalRemovesTemporariesInTheHandler) {
  const TempFolder folder;
  const std::string path = folder.write("a", "old");
  WaitingChild writer([&] {
    ::signal(SIGTERM, [](int) {
      remove_temporaries_on_signal();
      ::_exit(130);
    });
    start_writing(path);
    start_writing(folder.path("b"));
  });
  ASSERT_EQ(temporaries(folder).size(), 2U);
  const int outcome = writer.end(SIGTERM);
  EXPECT_TRUE(WIFEXITED(outcome));
  EXPECT_EQ(WEXITSTATUS(outcome), 130);
  EXPECT_THAT(folder.names(), ElementsAre("a"));
  EXPECT_EQ(read_text_file(path), "old");
}

TEST(SignalHandler, OfAChildSparesTheParentsTemporaries) {
  const TempFolder folder;
  AtomicFiles files({});
  ASSERT_TRUE(files.add(folder.path("a"), 0));
  run_in_child([] {
    remove_temporaries_on_signal();
    return std::string();
  });
  EXPECT_TRUE(files.commit());
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(SignalHandler, ThatReturnsMakesTheCommitFailAndLaterWritesWork) {
  const TempFolder folder;
  for (int round = 0; round < 3; ++round) {
    AtomicFiles files({});
    ASSERT_TRUE(files.add(folder.path("a"), 0));
    errno = 77;
    remove_temporaries_on_signal();
    EXPECT_EQ(errno, 77);
    EXPECT_THAT(folder.names(), IsEmpty());
    const Status status = files.commit();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
  }
  EXPECT_TRUE(write_set(folder, {"a"}, false, nullptr));
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

// ---------------------------------------------------------------- limits of the machine

TEST(FullDisk, IsToldBeforeAnythingIsWrittenWhenTheSizeIsKnown) {
  const TempFolder folder;
  const std::string said = run_in_child([&]() -> std::string {
    // A disk of 1 MiB that only this process sees.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      return "skip";
    }
    folder.write("a", "old");
    AtomicFiles files({.overwrite = true});
    const auto early = files.add(folder.path("a"), 2 << 20);
    if (early) return "a reservation of 2 MiB succeeded";
    const auto sink = files.add(folder.path("a"), 0);
    if (!sink) return sink.error().message;
    const Status late = (*sink)->write(as_bytes(std::string(2 << 20, 'x')));
    if (late || files.commit()) return "2 MiB were written";
    if (read_text_file(folder.path("a")) != "old") return "the old file is damaged";
    if (folder.names().size() != 1) return "a temporary is left";
    return early.error().message + "\n" + late.error().message;
  });
  if (said == "skip") GTEST_SKIP() << "no right to mount a small disk";
  EXPECT_THAT(said, ::testing::MatchesRegex(".*/a: no space left: needs 2097152 more bytes, [0-9]+ are free on that "
                                            "disk\n.*/a: no space left: needs [0-9]+ more bytes, [0-9]+ are free.*"));
}

TEST(FileSizeLimit, IsAnErrorThatLeavesTheOldFile) {
  const TempFolder folder;
  folder.write("a", "old");
  const std::string said = run_in_child([&]() -> std::string {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    AtomicFiles files({.overwrite = true});
    const auto sink = files.add(folder.path("a"), 0);
    if (!sink) return sink.error().message;
    const Status status = (*sink)->write(as_bytes(std::string(3 << 20, 'x')));
    if (status || files.commit()) return "3 MiB were written";
    return status.error().message;
  });
  EXPECT_THAT(said, HasSubstr(folder.path("a") + ": cannot write 2097152 bytes at offset 1048576: File too large"));
  EXPECT_EQ(read_text_file(folder.path("a")), "old");
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

}  // namespace
}  // namespace ballast
