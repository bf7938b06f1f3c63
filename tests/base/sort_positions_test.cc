#include "ballast/base/sort_positions.h"

#include <gtest/gtest.h>

#include <string>

namespace ballast {
namespace {

using Positions = std::vector<uint32_t>;

TEST(SortPositions, PutsThemInOrderAndKeepsThatOfEqualOnes) {
  const std::string letters = "dacab";
  Positions positions = all_positions(letters.size());
  EXPECT_EQ(positions, (Positions{0, 1, 2, 3, 4}));
  EXPECT_TRUE(sort_positions(positions, [&](uint32_t a, uint32_t b) { return letters[a] < letters[b]; }));
  EXPECT_EQ(positions, (Positions{1, 3, 4, 2, 0}));
}

TEST(SortPositions, SaysWhereNothingMoved) {
  const std::string letters = "aabc";
  const auto by_letter = [&](uint32_t a, uint32_t b) { return letters[a] < letters[b]; };
  Positions all = all_positions(letters.size()), some = {0, 3}, none;
  EXPECT_FALSE(sort_positions(all, by_letter));
  EXPECT_FALSE(sort_positions(some, by_letter));
  EXPECT_FALSE(sort_positions(none, by_letter));
  EXPECT_EQ(all, (Positions{0, 1, 2, 3}));
  EXPECT_EQ(some, (Positions{0, 3}));
}

}  // namespace
}  // namespace ballast
