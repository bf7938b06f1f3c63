#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/formats/format.h"

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

}  // namespace
}  // namespace ballast::testing
