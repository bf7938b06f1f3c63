#include "ballast/archive/pattern.h"

#include <gmock/gmock.h>

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

TEST(Pattern, ReplacesEveryMatchAndCountsThem) {
  const auto pattern = Pattern::compile("(a)(b)?");
  ASSERT_TRUE(pattern);
  const auto replaced = pattern->replace_all("ab-a-c", "<$2$1>");
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_EQ(replaced->text, "<ba>-<a>-c");
  EXPECT_EQ(replaced->matches, 2U);
  EXPECT_EQ(pattern->replace_all("xyz", "!")->matches, 0U);
}

TEST(Pattern, GrowsTheResultAsNeededUpToALimit) {
  const auto pattern = Pattern::compile("x");
  const auto grown = pattern->replace_all("xx", std::string(5000, 'y'));
  ASSERT_TRUE(grown) << grown.error().message;
  EXPECT_EQ(grown->text.size(), 10'000U);
  const auto endless = pattern->replace_all(std::string(3, 'x'), std::string(Pattern::kMaxReplaced / 2, 'y'));
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, ErrorCode::kInvalidArgument);
}

TEST(Pattern, ExactlyFindsOneTextOnly) {
  for (const char* text : {"a.b", "a", "(", R"(\Ea\E\Q)", "\\", ""}) {
    const auto pattern = Pattern::compile(exactly(text));
    ASSERT_TRUE(pattern) << text << ": " << pattern.error().message;
    EXPECT_TRUE(*pattern->found_in(text)) << text;
    EXPECT_FALSE(*pattern->found_in(std::string(text) + "x")) << text;
    EXPECT_FALSE(*pattern->found_in(std::string(text) + "\n")) << text;
  }
  EXPECT_FALSE(*Pattern::compile(exactly("a.b"))->found_in("axb"));
}

TEST(Pattern, CompilingSeveralTellsWhichIsWrong) {
  const auto patterns = Pattern::compile_all({"a", "(b"});
  ASSERT_FALSE(patterns);
  EXPECT_THAT(patterns.error().message, HasSubstr("(b"));
}

}  // namespace
}  // namespace ballast::testing
