#include "ballast/params/use_order.h"

#include <gtest/gtest.h>

#include <string_view>

namespace ballast {
namespace {

PieceId piece(char letter) { return {static_cast<uint32_t>(letter), 0, 0}; }

void record_all(UseOrder& order, std::string_view letters) {
  for (const char letter : letters) order.record(piece(letter));
}

std::string next_letters(const UseOrder& order, uint64_t count) {
  std::string letters;
  for (uint64_t steps = 1; steps <= count; ++steps) letters += static_cast<char>(order.ahead(steps).param);
  return letters;
}

TEST(UseOrder, KnowsNothingInTheFirstPass) {
  UseOrder order;
  EXPECT_FALSE(order.is_known());
  record_all(order, "abcd");
  EXPECT_FALSE(order.is_known());
  EXPECT_EQ(order.next_use(piece('a')), std::nullopt);
}

TEST(UseOrder, ForetellsThePassFromItsFirstUse) {
  UseOrder order;
  record_all(order, "abcda");
  ASSERT_TRUE(order.is_known());
  EXPECT_EQ(next_letters(order, 9), "bcdabcdab");
  EXPECT_EQ(order.next_use(piece('b')), 1U);
  EXPECT_EQ(order.next_use(piece('d')), 3U);
  EXPECT_EQ(order.next_use(piece('a')), 4U);
  EXPECT_EQ(order.next_use(piece('x')), std::nullopt);
}

TEST(UseOrder, TellsApartTwoUsesOfOnePieceInAPass) {
  UseOrder order;
  record_all(order, "abacabac");
  record_all(order, "ab");  // the third pass
  EXPECT_EQ(next_letters(order, 6), "acabac");
  EXPECT_EQ(order.next_use(piece('a')), 1U);
  EXPECT_EQ(order.next_use(piece('c')), 2U);
}

TEST(UseOrder, TheSamePieceAgainAtOnceIsOneUse) {
  UseOrder order;
  record_all(order, "aabbbcca");
  EXPECT_EQ(next_letters(order, 3), "bca");
}

TEST(UseOrder, LearnsAnotherOrder) {
  UseOrder order;
  record_all(order, "abcdabcd");
  record_all(order, "adcbadcb");
  record_all(order, "a");
  EXPECT_EQ(next_letters(order, 4), "dcba");
  EXPECT_EQ(order.next_use(piece('b')), 3U);
}

TEST(UseOrder, ForgetsPiecesThatAreNoLongerUsed) {
  UseOrder order;
  record_all(order, "abxcab");
  EXPECT_EQ(order.next_use(piece('x')), 1U);
  record_all(order, "c");
  EXPECT_EQ(order.next_use(piece('x')), std::nullopt);
  EXPECT_EQ(next_letters(order, 3), "abc");
  record_all(order, "abxc");
  EXPECT_EQ(order.next_use(piece('x')), 6U);  // and it may come back
}

TEST(UseOrder, KeepsLongCyclesAndLittleElse) {
  UseOrder order;
  constexpr uint32_t kPieces = 30000;
  for (int pass = 0; pass < 5; ++pass) {
    for (uint32_t i = 0; i < kPieces; ++i) order.record({i, 0, 0});
  }
  ASSERT_TRUE(order.is_known());
  EXPECT_EQ(order.ahead(1).param, 0U);
  EXPECT_EQ(order.ahead(kPieces).param, kPieces - 1);
  EXPECT_EQ(order.next_use({17, 0, 0}), 18U);
  // A short cycle after it: the long one is forgotten.
  for (int pass = 0; pass < 20000; ++pass) {
    for (uint32_t i = 0; i < 8; ++i) order.record({i, 0, 0});
  }
  EXPECT_EQ(order.next_use({7, 0, 0}), 8U);
  EXPECT_EQ(order.next_use({9, 0, 0}), std::nullopt);
}

}  // namespace
}  // namespace ballast
