#include "ballast/base/near_miss.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ballast {
namespace {

TEST(NearMiss, CountsLettersThatDiffer) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("same", "same"), 0U);
}

TEST(NearMiss, FindsWhatWasMeant) {
  const std::vector<std::string_view> words = {"verify", "convert", "digest", "lm_head"};
  EXPECT_EQ(nearest("convrt", words), "convert");
  EXPECT_EQ(nearest("ver", words), "verify");  // a beginning
  EXPECT_EQ(nearest("lm_haed", words), "lm_head");
  EXPECT_EQ(nearest("something", words), "");
  EXPECT_EQ(nearest("", words), "");
}

TEST(NearMiss, LongNamesCostNothing) {
  const std::vector<std::string> names(200, std::string(1 << 20, 'x'));
  EXPECT_EQ(nearest("weight", names), "");
}

}  // namespace
}  // namespace ballast
