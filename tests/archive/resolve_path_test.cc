#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/archive/open.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

std::string format_of(const std::string& path) {
  const auto archive = open_archive(path);
  return archive ? archive->description().format : archive.error().message;
}

void copy(const TempFolder& folder, const std::string& from, const std::string& to) {
  std::filesystem::copy_file(test_file_path(from), folder.path(to));
}

TEST(ResolvePath, FindsAPairByItsPrefixOrItsJson) {
  EXPECT_EQ(format_of(test_file_path("netcl/old_0_1_3")), "netcl-legacy");
  EXPECT_EQ(format_of(test_file_path("netcl/ckpt_adam")), "netcl-checkpoint");
  EXPECT_EQ(format_of(test_file_path("netcl/ckpt_adam.json")), "netcl-checkpoint");
  EXPECT_EQ(format_of(test_file_path("netcl/ckpt_adam.npz")), "npz");
}

TEST(ResolvePath, FindsTheSplitPairOfADottedName) {
  const auto archive = open_archive(test_file_path("netcl/run.1"));
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->description().format, "netcl-checkpoint");
  EXPECT_FALSE(archive->tensors().empty());
}

TEST(ResolvePath, AddsTheNetclSuffixLast) { EXPECT_EQ(format_of(test_file_path("netcl/mlp_basic")), "netcl"); }

TEST(ResolvePath, OpensTheOnlyArchiveOfAFolder) {
  const TempFolder folder;
  folder.write("notes.txt", "nothing");
  EXPECT_NE(format_of(folder.path()).find("neither"), std::string::npos);
  copy(folder, "netcl/mlp_basic.netcl", "a.netcl");
  EXPECT_EQ(format_of(folder.path()), "netcl");
  copy(folder, "safetensors/reference.safetensors", "b.safetensors");
  const std::string message = format_of(folder.path());
  EXPECT_NE(message.find("a.netcl"), std::string::npos) << message;
  EXPECT_NE(message.find("b.safetensors"), std::string::npos) << message;
}

TEST(ResolvePath, GoesByContentNotByExtension) {
  const TempFolder folder;
  copy(folder, "burnpack/0.22.1/shapes.bpk", "model.safetensors");
  EXPECT_EQ(format_of(folder.path("model.safetensors")), "burnpack");
}

TEST(ResolvePath, SaysWhatTheSystemSaysOfAMissingFile) {
  const auto archive = open_archive("/no/such/file");
  ASSERT_FALSE(archive);
  EXPECT_EQ(archive.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ballast::testing
