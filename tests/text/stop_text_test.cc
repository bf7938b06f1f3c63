#include <gtest/gtest.h>

#include "ballast/text/text_stream.h"

namespace ballast::testing {
namespace {

TEST(StopText, LetsEverythingThroughWithoutStops) {
  StopText text({});
  EXPECT_EQ(text.next("any"), "any");
  EXPECT_EQ(text.next("thing"), "thing");
  EXPECT_FALSE(text.found());
  EXPECT_EQ(text.finish(), "");
}

TEST(StopText, EndsBeforeTheStopString) {
  StopText text({"END"});
  EXPECT_EQ(text.next("the END of it"), "the ");
  EXPECT_TRUE(text.found());
  EXPECT_EQ(text.next("more"), "");
  EXPECT_EQ(text.finish(), "");
}

TEST(StopText, HoldsBackWhatMayBecomeAStopString) {
  StopText text({"\n\n"});
  EXPECT_EQ(text.next("one\n"), "one");
  EXPECT_EQ(text.next("two\n"), "\ntwo");
  EXPECT_EQ(text.next("\nthree"), "");
  EXPECT_TRUE(text.found());
}

TEST(StopText, GivesBackWhatItHeldWhenNothingMoreComes) {
  StopText text({"END"});
  EXPECT_EQ(text.next("the EN"), "the ");
  EXPECT_EQ(text.finish(), "EN");
}

TEST(StopText, FindsAStopStringThatComesInPieces) {
  StopText text({"abab"});
  EXPECT_EQ(text.next("xab"), "x");
  EXPECT_EQ(text.next("a"), "");
  EXPECT_EQ(text.next("cab"), "abac");
  EXPECT_EQ(text.next("ab"), "");
  EXPECT_TRUE(text.found());
}

TEST(StopText, TakesTheFirstOfSeveral) {
  StopText text({"zz", "", "yy"});
  EXPECT_EQ(text.next("a yy b zz"), "a ");
  EXPECT_TRUE(text.found());
}

}  // namespace
}  // namespace ballast::testing
