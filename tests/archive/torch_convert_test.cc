// PyTorch's checkpoints through everything that archives are good for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/archive/convert.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/open.h"
#include "ballast/archive/tied.h"
#include "ballast/archive/verify.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using namespace ballast::testing;

std::string torch_path(const std::string& name) { return test_file_path("torch_files/files/" + name); }

Archive open_torch_path(const std::string& path) {
  auto archive = open_archive(path);
  EXPECT_TRUE(archive) << archive.error().message;
  return std::move(archive).value();
}

Digest torch_digest(const Archive& archive) {
  return archive_digest(archive.tensors(), digest_tensors(archive).value());
}

TEST(TorchConvert, GivesTheTensorsOfPyTorchsOwnSafetensors) {
  const TempFolder folder;
  const Archive source = open_torch_path(torch_path("pair.pt"));
  const auto report = convert_archive(source, folder.path("pair.safetensors"), *find_format("safetensors"), {});
  ASSERT_TRUE(report) << report.error().message;
  const Archive ours = open_torch_path(folder.path("pair.safetensors"));
  const Archive theirs = open_torch_path(torch_path("pair.safetensors"));
  EXPECT_EQ(torch_digest(ours), torch_digest(theirs));
  EXPECT_EQ(torch_digest(ours), torch_digest(source));
}

TEST(TorchConvert, ViewsAndPlainValuesSurviveTheWayThroughOtherFormats) {
  for (const std::string file : {"views.pt", "legacy_views.pt", "train_adamw.pt", "big_endian.pt", "deflated.pt"}) {
    SCOPED_TRACE(file);
    const TempFolder folder;
    const Archive source = open_torch_path(torch_path(file));
    const auto out = convert_archive(source, folder.path("x.bpk"), *find_format("burnpack"), {});
    ASSERT_TRUE(out) << out.error().message;
    const auto back = convert_archive(open_torch_path(folder.path("x.bpk")), folder.path("x.safetensors"),
                                      *find_format("safetensors"), {});
    ASSERT_TRUE(back) << back.error().message;
    const Archive copy = open_torch_path(folder.path("x.safetensors"));
    ASSERT_EQ(copy.tensors().size(), source.tensors().size());
    for (size_t i = 0; i < source.tensors().size(); ++i) {
      const auto index = copy.find(source.tensors()[i].name);
      ASSERT_TRUE(index) << source.tensors()[i].name;
      EXPECT_EQ(as_text(copy.payload(*index)->bytes()), as_text(source.payload(i)->bytes()));
    }
  }
}

TEST(TorchConvert, IsRefusedAsATarget) {
  const TempFolder folder;
  const auto report =
      convert_archive(open_torch_path(torch_path("pair.pt")), folder.path("x.pt"), *find_format("torch"), {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(report.error().message, "torch files are read but not written");
}

TEST(TorchConvert, TiesAreFoundAndViewsOfOneStorageAreNoTies) {
  const Archive archive = open_torch_path(torch_path("tied.pt"));
  std::vector<std::vector<std::string>> names;
  for (const TiedGroup& group : tied_by_extent(archive)) {
    names.emplace_back();
    for (const size_t i : group.tensors) names.back().push_back(archive.tensors()[i].name);
  }
  EXPECT_THAT(names, ::testing::ElementsAre(::testing::ElementsAre("b", "b_again")));
}

TEST(TorchConvert, TheGenuineFilesAreVerifiedAsSound) {
  for (const std::string file : {"views.pt", "tied.pt", "sd_complex.pt", "sd_fp8.pt", "no_crc.pt", "legacy_train.pt"}) {
    const auto report =
        verify_archive(torch_path(file), {.level = VerifyLevel::kContent, .threads = 1, .progress = {}});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->sound()) << file;
  }
}

}  // namespace
}  // namespace ballast
