#include "ballast/io/work_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/faulty_file_system.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::ballast::testing::FaultyFileSystem;
using ::ballast::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WorkFolder, MakesTheFoldersThatAreMissingAndSyncsEachParent) {
  const TempFolder folder;
  const FaultyFileSystem files(FaultyFileSystem::none());
  const auto made = WorkFolder::create(folder.path("a/b/"), files);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(std::filesystem::is_directory(folder.path("a/b")));
  EXPECT_EQ(made->path(), folder.path("a/b"));
  std::vector<std::string> changes;
  for (const std::string& call : files.log()) {
    if (call == "make_folder_at" || call == "sync") changes.push_back(call);
  }
  EXPECT_THAT(changes, ElementsAre("make_folder_at", "sync", "make_folder_at", "sync"));
}

TEST(WorkFolder, AFolderThatIsThereIsSyncedAgain) {
  const TempFolder folder;
  const FaultyFileSystem files(FaultyFileSystem::none());
  ASSERT_TRUE(WorkFolder::create(folder.path(), files));
  EXPECT_THAT(files.log(), ::testing::Contains("sync"));
}

TEST(WorkFolder, OpeningOneThatIsMissingIsNotFound) {
  const TempFolder folder;
  const auto opened = WorkFolder::open(folder.path("none"), os_file_system());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kNotFound);
}

TEST(WorkFolder, AFileInTheWayIsAnError) {
  const TempFolder folder;
  folder.write("file", "");
  EXPECT_FALSE(WorkFolder::create(folder.path("file/run"), os_file_system()));
  EXPECT_FALSE(WorkFolder::create(folder.path("file"), os_file_system()));
}

TEST(WorkFolder, ListsSizesAndRemoves) {
  const TempFolder folder;
  folder.write("b", "12345");
  folder.write("a", "");
  const auto opened = WorkFolder::open(folder.path(), os_file_system());
  ASSERT_TRUE(opened);
  EXPECT_THAT(*opened->list(), ElementsAre("a", "b"));
  EXPECT_EQ(*opened->size_of("b"), 5U);
  EXPECT_EQ(*opened->size_of("c"), std::nullopt);
  EXPECT_TRUE(opened->remove("b"));
  EXPECT_TRUE(opened->remove("b"));
  EXPECT_THAT(*opened->list(), ElementsAre("a"));
}

TEST(WorkFolder, TheLockIsHeldUntilItIsDropped) {
  const TempFolder folder;
  const auto opened = WorkFolder::open(folder.path(), os_file_system());
  ASSERT_TRUE(opened);
  {
    const auto lock = FolderLock::take(*opened, "lock");
    ASSERT_TRUE(lock);
    const auto second = FolderLock::take(*opened, "lock");
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr(std::to_string(::getpid())));
  }
  EXPECT_TRUE(FolderLock::take(*opened, "lock"));
}

TEST(WorkFolder, AFileSystemWithoutLocksIsNoHindrance) {
  const TempFolder folder;
  const FaultyFileSystem files(FaultyFileSystem::fail_every("lock", ENOLCK));
  const auto opened = WorkFolder::open(folder.path(), files);
  ASSERT_TRUE(opened);
  EXPECT_TRUE(FolderLock::take(*opened, "lock"));
}

}  // namespace
}  // namespace ballast
