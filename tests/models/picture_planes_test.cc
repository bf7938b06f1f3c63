#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/models/model_input.h"

namespace ballast {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

std::vector<float> planes(const Picture& picture, uint64_t channels, uint64_t height, uint64_t width) {
  std::vector<float> out(channels * height * width);
  const Status status = picture_to_planes(picture, channels, height, width, out);
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  return out;
}

TEST(PicturePlanes, APictureOfTheRightSizeStaysAsItIs) {
  const Picture picture{2, 1, {10, 20, 30, 40, 50, 60}};
  EXPECT_THAT(planes(picture, 3, 1, 2), ElementsAre(10, 40, 20, 50, 30, 60));
}

TEST(PicturePlanes, GreyWeighsColoursAndKeepsGrey) {
  EXPECT_THAT(planes({1, 1, {77, 77, 77}}, 1, 1, 1), ElementsAre(77));
  EXPECT_THAT(planes({1, 1, {255, 0, 0}}, 1, 1, 1), ElementsAre(FloatNear(76.245F, 1e-3F)));
}

TEST(PicturePlanes, TheMiddleOfALongPictureIsTaken) {
  Picture picture{6, 2, {}};
  for (int y = 0; y < 2; ++y) {
    for (const uint8_t value : {0, 0, 9, 9, 0, 0}) picture.pixels.insert(picture.pixels.end(), 3, value);
  }
  EXPECT_THAT(planes(picture, 1, 2, 2), Each(9));
}

TEST(PicturePlanes, ALevelPictureStaysLevelAtAnySize) {
  const Picture picture{7, 5, std::vector<uint8_t>(7 * 5 * 3, 200)};
  for (const uint64_t size : {1U, 3U, 5U, 16U})
    EXPECT_THAT(planes(picture, 3, size, size), Each(FloatNear(200, 1e-3F)));
}

TEST(PicturePlanes, RefusesEmptyPicturesAndOtherNumbersOfPlanes) {
  std::vector<float> out(2);
  EXPECT_FALSE(picture_to_planes({0, 1, {}}, 1, 1, 2, out));
  const Status status = picture_to_planes({1, 1, {1, 2, 3}}, 2, 1, 1, out);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("planes are 1 (grey) or 3 (colours)"));
}

}  // namespace
}  // namespace ballast
