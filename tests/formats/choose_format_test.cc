#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/formats/drivers.h"
#include "tests/support/format_testing.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

TEST(ChooseFormat, TheNameDecidesThenTheExtension) {
  EXPECT_EQ((*choose_format("gguf", "a.npz"))->name, "gguf");
  EXPECT_EQ((*choose_format("", "a.npz"))->name, "npz");
  EXPECT_EQ((*choose_format("npz"))->name, "npz");
}

TEST(ChooseFormat, AnErrorSaysWhichThereAre) {
  const auto unknown = choose_format("zarr", "a.npz");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, HasSubstr("there is no format \"zarr\"; there are: gptrs"));
  EXPECT_THAT(choose_format("", "a.zarr").error().message, HasSubstr("a.zarr: unknown extension"));
  EXPECT_THAT(choose_format("").error().message, HasSubstr("say which format to write; there are: "));
}

TEST(OpenArchive, TakesTheReadersOfAListAndNoOthers) {
  const ByteVector file = read_test_data("burnpack/0.20.1/module.bpk");
  const OpenRequest request{.source = MemorySource::borrowing(file), .file_name = ""};
  const FormatReader* const npy[] = {&kNpyReader};
  const auto refused = open_archive(request, npy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnknownFormat);
  EXPECT_THAT(refused.error().message, ::testing::EndsWith("known formats: npy"));
  const FormatReader* const both[] = {&kNpyReader, &kBurnpackReader};
  const auto opened = open_archive(request, both);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->description().format, "burnpack");
}

}  // namespace
}  // namespace ballast::testing
