#include "ballast/formats/payload_order.h"

#include <gtest/gtest.h>

#include "tests/support/bytes_of.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using namespace ballast::testing;

// The elements of a strided view over 0, 1, 2, ..., one byte each.
std::vector<int> gathered(std::vector<uint64_t> dims, std::vector<uint64_t> strides) {
  size_t count = 1;
  for (const uint64_t dim : dims) count *= static_cast<size_t>(dim);
  ByteVector out(count);
  gather_strided(dims, strides, 1, counting_bytes(60, 0), out);
  std::vector<int> values;
  for (const std::byte byte : out) values.push_back(std::to_integer<int>(byte));
  return values;
}

TEST(GatherStrided, TakesElementsWhereTheStridesSay) {
  EXPECT_EQ(gathered({2, 3}, {3, 1}), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(gathered({3, 2}, {1, 3}), (std::vector<int>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(gathered({2, 2}, {10, 3}), (std::vector<int>{0, 3, 10, 13}));
  EXPECT_EQ(gathered({2, 2, 2}, {20, 2, 1}), (std::vector<int>{0, 1, 2, 3, 20, 21, 22, 23}));
}

TEST(GatherStrided, RepeatsAndOverlaps) {
  EXPECT_EQ(gathered({3, 2}, {0, 1}), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(gathered({2, 3}, {1, 1}), (std::vector<int>{0, 1, 2, 1, 2, 3}));
}

TEST(GatherStrided, TheStrideOfASingleElementMeansNothing) {
  EXPECT_EQ(gathered({2, 1, 2}, {2, UINT64_MAX, 1}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(gathered({1, 2}, {UINT64_MAX, 5}), (std::vector<int>{0, 5}));
}

TEST(GatherStrided, KnowsScalarsAndNothing) {
  EXPECT_EQ(gathered({}, {}), std::vector<int>{0});
  EXPECT_EQ(gathered({3, 0, 2}, {7, 1, 1}), std::vector<int>{});
}

TEST(GatherStrided, MovesWholeElements) {
  ByteVector out(8);
  gather_strided(std::vector<uint64_t>{2, 2}, std::vector<uint64_t>{1, 2}, 2, counting_bytes(8, 0), out);
  EXPECT_EQ(out, (ByteVector{std::byte{0}, std::byte{1}, std::byte{4}, std::byte{5}, std::byte{2}, std::byte{3},
                             std::byte{6}, std::byte{7}}));
}

TEST(FlipSigns, TurnsEveryComponentOrTheImaginaryOnes) {
  ByteVector bytes = bytes_of(std::vector<float>{1, -2, 3, 4});
  flip_signs(DType::kF32, SignsOf::kAll, bytes);
  EXPECT_EQ(values_of<float>(bytes), (std::vector<float>{-1, 2, -3, -4}));
  flip_signs(DType::kC64, SignsOf::kImaginary, bytes);
  EXPECT_EQ(values_of<float>(bytes), (std::vector<float>{-1, -2, -3, 4}));
  flip_signs(DType::kC64, SignsOf::kAll, bytes);
  EXPECT_EQ(values_of<float>(bytes), (std::vector<float>{1, 2, 3, -4}));
}

}  // namespace
}  // namespace ballast
