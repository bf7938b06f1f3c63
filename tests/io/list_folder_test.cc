#include "ballast/io/list_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "tests/support/faulty_file_system.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> paths_of(const std::vector<FolderFile>& files) {
  std::vector<std::string> paths;
  for (const FolderFile& file : files) paths.push_back(file.path);
  return paths;
}

// b, a/inner, a/deep/last, a link to b, a link to nothing, a link to the folder itself.
void fill(const TempFolder& folder) {
  folder.write("b", "12345");
  std::filesystem::create_directories(folder.path("a/deep"));
  folder.write("a/inner", "123");
  folder.write("a/deep/last", "1");
  std::filesystem::create_symlink("b", folder.path("link"));
  std::filesystem::create_symlink("nowhere", folder.path("dangling"));
  std::filesystem::create_symlink(".", folder.path("loop"));
}

TEST(ListFolder, NamesAreSorted) {
  const TempFolder folder;
  fill(folder);
  EXPECT_THAT(*names_in_folder(folder.path()), ElementsAre("a", "b", "dangling", "link", "loop"));
}

TEST(ListFolder, FilesBelowAreTheRealOnesAndEndInNoLoop) {
  const TempFolder folder;
  fill(folder);
  const auto found = files_below(folder.path());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(paths_of(*found), ElementsAre("a/deep/last", "a/inner", "b", "link"));
  EXPECT_EQ(found->front().bytes, 1U);
  EXPECT_EQ(*bytes_below(folder.path("a")), 4U);
  EXPECT_EQ(*bytes_below(folder.path("b")), 5U);
  EXPECT_EQ(*bytes_below(folder.path("none")), 0U);
}

TEST(ListFolder, WhatIsNotThereIsNotFound) {
  const TempFolder folder;
  for (const std::string& path : {folder.path("none"), folder.write("file", "")}) {
    const auto names = names_in_folder(path);
    ASSERT_FALSE(names);
    EXPECT_EQ(names.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(names.error().message, HasSubstr("cannot list the folder"));
  }
}

// A disk that does not answer must not pass for an empty folder.
TEST(ListFolder, EveryFailedCallIsAnError) {
  const TempFolder folder;
  fill(folder);
  const FaultyFileSystem counting(FaultyFileSystem::none());
  ASSERT_TRUE(files_below(folder.path(), counting));
  for (int call = 1; call <= counting.calls(); ++call) {
    if (counting.log()[static_cast<size_t>(call) - 1] == "close") continue;
    const FaultyFileSystem failing(FaultyFileSystem::fail_call(call, EIO));
    const auto found = files_below(folder.path(), failing);
    ASSERT_FALSE(found) << "call " << call;
    EXPECT_EQ(found.error().code, ErrorCode::kIo);
  }
}

// std::filesystem::directory_iterator would end the process here.
TEST(ListFolder, RunningOutOfMemoryInsideCanBeCaught) {
  class Exhausted : public FileSystem {
    int list(int, const std::function<void(std::string_view)>&) const override { throw std::bad_alloc(); }
  };
  const TempFolder folder;
  EXPECT_THROW(static_cast<void>(names_in_folder(folder.path(), Exhausted())), std::bad_alloc);
}

}  // namespace
}  // namespace ballast::testing
