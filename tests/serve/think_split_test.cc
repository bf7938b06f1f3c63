#include "ballast/serve/think_split.h"

#include <gtest/gtest.h>

namespace ballast::serve {
namespace {

// The text in pieces of so many bytes.
SplitText split_in(std::string_view text, size_t piece, bool begins_inside = false, bool knows_marks = true) {
  ThinkSplit splitter(knows_marks, begins_inside);
  SplitText whole;
  const auto add = [&](const SplitText& more) {
    whole.reasoning += more.reasoning;
    whole.content += more.content;
  };
  for (size_t at = 0; at < text.size(); at += piece) add(splitter.next(text.substr(at, piece)));
  add(splitter.finish());
  return whole;
}

TEST(ThinkSplit, HoweverTheTextIsCut) {
  for (size_t piece = 1; piece < 40; ++piece) {
    const SplitText both = split_in("\n<think>\nI < </thin so\n\n</think>\n\n42 <think>", piece);
    EXPECT_EQ(both.reasoning, "I < </thin so");
    EXPECT_EQ(both.content, "42 <think>");
    const SplitText inside = split_in("so it is\n</think>42", piece, true);
    EXPECT_EQ(inside.reasoning, "so it is");
    EXPECT_EQ(inside.content, "42");
    const SplitText none = split_in(" <thing> is no mark", piece);
    EXPECT_EQ(none.reasoning, "");
    EXPECT_EQ(none.content, " <thing> is no mark");
    const SplitText unfinished = split_in("<think>so it", piece);
    EXPECT_EQ(unfinished.reasoning, "so it");
    EXPECT_EQ(unfinished.content, "");
    const SplitText other_family = split_in("<think>so</think>it", piece, false, false);
    EXPECT_EQ(other_family.content, "<think>so</think>it");
  }
}

}  // namespace
}  // namespace ballast::serve
