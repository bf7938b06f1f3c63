#include "ballast/io/staging_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "ballast/io/file.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::ballast::testing::FaultyFileSystem;
using ::ballast::testing::read_text_file;
using ::ballast::testing::TempFolder;
using ::ballast::testing::WaitingChild;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

void put(const std::string& path, std::string_view text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

bool is_weights(std::string_view inside) { return inside.ends_with("weights"); }

StagingOptions replacing(const FileSystem* files = nullptr) {
  StagingOptions options;
  options.replaces = is_weights;
  options.sync = false;
  options.file_system = files;
  return options;
}

Status write_folder(const std::string& path, std::string_view text, StagingOptions options) {
  BALLAST_TRY(StagingFolder staging, StagingFolder::create(path, std::move(options)));
  put(staging.path() + "/weights", text);
  return staging.publish();
}

void make_old(const TempFolder& folder) {
  put(folder.path("out/weights"), "old");
  put(folder.path("out/1/weights"), "old too");
  put(folder.path("out/1/deep/notes"), "mine");
  put(folder.path("out/readme"), "mine too");
}

void expect_new(const TempFolder& folder) {
  EXPECT_EQ(read_text_file(folder.path("out/weights")), "new");
  EXPECT_FALSE(fs::exists(folder.path("out/1/weights")));
  EXPECT_EQ(read_text_file(folder.path("out/1/deep/notes")), "mine");
  EXPECT_EQ(read_text_file(folder.path("out/readme")), "mine too");
  EXPECT_THAT(folder.names(), ElementsAre("out"));
}

TEST(StagingFolder, AppearsWholeOrNotAtAll) {
  const TempFolder folder;
  {
    auto staging = StagingFolder::create(folder.path("out/"));
    ASSERT_TRUE(staging) << staging.error().message;
    put(staging->path() + "/weights", "dropped");
    EXPECT_FALSE(fs::exists(folder.path("out")));
  }
  EXPECT_THAT(folder.names(), ElementsAre());
  ASSERT_TRUE(write_folder(folder.path("out"), "new", {}));
  EXPECT_EQ(read_text_file(folder.path("out/weights")), "new");
  EXPECT_THAT(folder.names(), ElementsAre("out"));
}

TEST(StagingFolder, ErrorsOfWhatIsWrittenIntoItNameTheDestinationAsItWasGiven) {
  const TempFolder folder;
  const auto staging = StagingFolder::create(folder.path("out/"));
  ASSERT_TRUE(staging) << staging.error().message;
  const std::string inside = staging->path() + "/weights";
  const Error error = staging->meant(make_error(ErrorCode::kIo, inside + ": the disk is full; " + inside + " is gone"));
  const std::string shown = folder.path("out/weights");
  EXPECT_EQ(error.message, shown + ": the disk is full; " + shown + " is gone");
  EXPECT_EQ(error.code, ErrorCode::kIo);
}

TEST(StagingFolder, AFolderWithFilesNeedsLeaveToOverwrite) {
  const TempFolder folder;
  make_old(folder);
  const Status status = write_folder(folder.path("out"), "new", {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kExists);
  EXPECT_EQ(status.error().remedies, Remedy::kAllowOverwrite);
  EXPECT_EQ(read_text_file(folder.path("out/weights")), "old");
}

TEST(StagingFolder, ReplacesItsOwnFilesAndKeepsAllOthers) {
  const TempFolder folder;
  make_old(folder);
  fs::create_directory_symlink("out", folder.path("link"));
  const Status status = write_folder(folder.path("link/"), "new", replacing());
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_TRUE(fs::is_symlink(folder.path("link"))) << "a link stays one";
  fs::remove(folder.path("link"));
  expect_new(folder);
}

TEST(StagingFolder, ReplacesWhereFoldersCannotBeExchanged) {
  const TempFolder folder;
  make_old(folder);
  const FaultyFileSystem system(FaultyFileSystem::fail_every("exchange_at", EINVAL));
  const Status status = write_folder(folder.path("out"), "new", replacing(&system));
  ASSERT_TRUE(status) << status.error().message;
  expect_new(folder);
}

TEST(StagingFolder, AFailureOfAnyCallLeavesTheOldFolderOrTheNewOne) {
  for (const int error_number : {EIO, ENOSPC, EACCES}) {
    int failures = 0;
    for (int n = 1;; ++n) {
      const TempFolder folder;
      make_old(folder);
      const FaultyFileSystem system(FaultyFileSystem::fail_call(n, error_number));
      const Status status = write_folder(folder.path("out"), "new", replacing(&system));
      failures += !status;
      const std::string now = read_text_file(folder.path("out/weights"));
      EXPECT_EQ(read_text_file(folder.path("out/readme")), "mine too") << n;
      if (status) EXPECT_EQ(now, "new") << n;
      else EXPECT_TRUE(now == "old" || now == "new") << n;
      if (system.calls() < n) break;
    }
    EXPECT_GT(failures, 10);
  }
}

TEST(StagingFolder, ADiskThatDoesNotAnswerIsAnErrorAndNotAnAbsentFolder) {
  const TempFolder folder;
  make_old(folder);
  const FaultyFileSystem system(FaultyFileSystem::fail_every("stat_at", EIO));
  const Status status = write_folder(folder.path("out"), "new", replacing(&system));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  const auto absent = is_file(system, folder.path("out/weights"));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kIo);
  const auto missing = is_file(os_file_system(), folder.path("nothing"));
  ASSERT_TRUE(missing);
  EXPECT_FALSE(*missing);
}

TEST(StagingFolder, LeftoversOfTheDeadAreRemovedAndThoseOfTheLivingAreNot) {
  const TempFolder folder;
  {
    WaitingChild dead([&] {
      auto staging = StagingFolder::create(folder.path("out"));
      if (!staging) return;
      put(staging->path() + "/weights", "half");
      new StagingFolder(std::move(*staging));  // never destroyed: the process is killed with the folder in place
    });
    dead.end(SIGKILL);
  }
  EXPECT_EQ(folder.names().size(), 1U);
  const auto living = StagingFolder::create(folder.path("out"));
  ASSERT_TRUE(living) << living.error().message;
  EXPECT_EQ(folder.names().size(), 1U) << "only the living one's";
  ASSERT_TRUE(write_folder(folder.path("out"), "new", {}));
  EXPECT_TRUE(fs::exists(living->path()));
}

TEST(StagingFolder, ASignalHandlerRemovesItWithEverythingInIt) {
  const TempFolder folder;
  auto staging = StagingFolder::create(folder.path("out"));
  ASSERT_TRUE(staging) << staging.error().message;
  StagingFolder moved = std::move(*staging);
  // More names than one look at a folder returns.
  for (int i = 0; i < 300; ++i) put(fmt::format("{}/a_long_name_of_a_file_{}", moved.path(), i), "half");
  put(moved.path() + "/1/2/3/weights", "half");
  fs::create_symlink("/", moved.path() + "/1/link");
  remove_temporaries_on_signal();
  EXPECT_THAT(folder.names(), ElementsAre());
  EXPECT_TRUE(fs::exists("/")) << "links are removed, not followed";
  EXPECT_FALSE(moved.publish());
}

TEST(StagingFolder, ASignalHandlerLeavesWhatWasPublishedAndWhatAForkedParentWrites) {
  const TempFolder folder;
  auto staging = StagingFolder::create(folder.path("out"));
  ASSERT_TRUE(staging) << staging.error().message;
  put(staging->path() + "/weights", "new");
  WaitingChild child([] { remove_temporaries_on_signal(); });
  child.end(SIGKILL);
  ASSERT_TRUE(staging->publish());
  remove_temporaries_on_signal();
  EXPECT_EQ(read_text_file(folder.path("out/weights")), "new");
  make_old(folder);
  ASSERT_TRUE(write_folder(folder.path("out"), "new", replacing()));
  remove_temporaries_on_signal();
  expect_new(folder);
}

TEST(StagingFolder, AFolderThatAppearsMeanwhileStaysAndIsNamed) {
  const TempFolder folder;
  auto staging = StagingFolder::create(folder.path("out"));
  ASSERT_TRUE(staging) << staging.error().message;
  put(staging->path() + "/weights", "new");
  put(folder.path("out/weights"), "of another");
  const Status status = staging->publish();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kExists);
  EXPECT_EQ(status.error().remedies, Remedy::kAllowOverwrite);
  EXPECT_THAT(status.error().message, HasSubstr("out: appeared while it was being written"));
  EXPECT_EQ(read_text_file(folder.path("out/weights")), "of another");
}

TEST(StagingFolder, TheFolderThatTheProgramRunsInIsRefused) {
  const TempFolder folder;
  make_old(folder);
  const std::string before = fs::current_path();
  fs::current_path(folder.path("out"));
  const Status status = write_folder(".", "new", replacing());
  fs::current_path(before);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("runs in"));
}

}  // namespace
}  // namespace ballast
