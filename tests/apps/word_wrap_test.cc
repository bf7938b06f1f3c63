#include "apps/ballast/terminal/word_wrap.h"

#include <gtest/gtest.h>

namespace ballast::testing {
namespace {

// Byte by byte, as a model's pieces may come.
std::string wrapped(std::string_view text, size_t width, bool keep = false) {
  cli::WordWrap wrap(width);
  std::string out;
  for (const char& byte : text) {
    wrap.text({&byte, 1}, keep);
    out += wrap.take();
  }
  wrap.finish();
  return out + wrap.take();
}

TEST(WordWrap, BreaksBetweenWords) {
  EXPECT_EQ(wrapped("one two three four", 9), "one two\nthree\nfour");
  EXPECT_EQ(wrapped("one two\nthree four", 10), "one two\nthree four");
  EXPECT_EQ(wrapped("123456789 x", 9), "123456789\nx");
  EXPECT_EQ(wrapped("a  b   ", 80), "a  b");
  EXPECT_EQ(wrapped("  indented", 80), "  indented");
  EXPECT_EQ(wrapped("no width at all, whatever comes", 0), "no width at all, whatever comes");
}

TEST(WordWrap, LeavesWhatIsTooLongAndWhatHasLinesOfItsOwn) {
  EXPECT_EQ(wrapped("a 0123456789abc b", 8), "a\n0123456789abc\nb");
  EXPECT_EQ(wrapped("int main() { return 0; }", 8, /*keep=*/true), "int main() { return 0; }");
}

TEST(WordWrap, CountsColumnsAndNotBytes) {
  EXPECT_EQ(wrapped("äöü äöü äöü", 7), "äöü äöü\näöü");
  EXPECT_EQ(wrapped("你好世界", 4), "你好\n世界");
}

TEST(WordWrap, ColoursTakeNoRoom) {
  cli::WordWrap wrap(7);
  wrap.text("one ", false);
  wrap.mark("\x1b[1m");
  wrap.text("two", false);
  wrap.mark("\x1b[0m");
  wrap.text(" x", false);
  wrap.finish();
  EXPECT_EQ(wrap.take(), "one \x1b[1mtwo\x1b[0m\nx");
}

TEST(WordWrap, HoldsBackNoMoreThanAWord) {
  cli::WordWrap wrap(20);
  wrap.text("one two th", false);
  EXPECT_EQ(wrap.take(), "one two");
}

}  // namespace
}  // namespace ballast::testing
