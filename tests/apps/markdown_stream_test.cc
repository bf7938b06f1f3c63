#include "apps/ballast/terminal/markdown_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/base/utf8.h"

namespace ballast::cli {
namespace {

constexpr Terminal kColours = {.interactive = true, .colours = true, .width = 80};

// With colours as {b}old, {i}talic, {c}ode, {d}im, {/} for the end.
std::string readable(std::string text) {
  const std::pair<std::string_view, std::string_view> kNames[] = {
      {"\x1b[0m", "{/}"}, {"\x1b[1m", "{b}"}, {"\x1b[3m", "{i}"}, {"\x1b[2m", "{d}"}, {"\x1b[36m", "{c}"}};
  for (const auto& [code, name] : kNames) {
    for (size_t at = 0; (at = text.find(code, at)) != std::string::npos;) text.replace(at, code.size(), name);
  }
  return text;
}

std::string markdown_shown(std::string_view text) {
  MarkdownStream stream(kColours);
  std::string out = stream.next(text);
  return readable(out + stream.finish());
}

struct MarkdownCase {
  std::string_view text;
  std::string_view shown;
};

class Markdown : public ::testing::TestWithParam<MarkdownCase> {};

TEST_P(Markdown, IsShownReadably) { EXPECT_EQ(markdown_shown(GetParam().text), GetParam().shown); }

TEST_P(Markdown, IsTheSameCharacterByCharacter) {
  MarkdownStream stream(kColours);
  std::string out;
  const std::string_view text = GetParam().text;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_sequence_length(text, at);
    out += stream.next(text.substr(at, length));
    at += length;
  }
  EXPECT_EQ(readable(out + stream.finish()), GetParam().shown);
}

INSTANTIATE_TEST_SUITE_P(
    Each, Markdown,
    ::testing::Values(MarkdownCase{"plain text\n", "plain text\n"},
                      MarkdownCase{"a **bold** word", "a {/}{b}bold{/} word"},
                      MarkdownCase{"an *emphasised* word", "an {/}{i}emphasised{/} word"},
                      MarkdownCase{"***both***", "{/}{b}{i}both{/}"},
                      MarkdownCase{"use `a*b*c` here", "use {/}{c}a*b*c{/} here"},
                      MarkdownCase{"2 * 3 * 4", "2 * 3 * 4"}, MarkdownCase{"snake_case_name", "snake_case_name"},
                      MarkdownCase{"an _underlined_ word", "an {/}{i}underlined{/} word"},
                      MarkdownCase{"## A heading\nText", "{/}{b}A heading{/}\nText"},
                      MarkdownCase{"#hash and ####### seven", "#hash and ####### seven"},
                      MarkdownCase{"- one\n  * two\n+ three", "• one\n  • two\n• three"},
                      MarkdownCase{"1. one\n-1 is less\n---\n", "1. one\n-1 is less\n---\n"},
                      MarkdownCase{"```cpp\nint *a = **b;\n# no heading\n```\n*x*",
                                   "{/}{d}{c}cpp{/}{c}\nint *a = **b;\n# no heading\n{/}\n{/}{i}x{/}"},
                      MarkdownCase{"**never closed\n\nnext", "{/}{b}never closed\n{/}\nnext"},
                      MarkdownCase{"ends in a star *", "ends in a star *"}, MarkdownCase{"`", "`"},
                      MarkdownCase{"évident **très** bien", "évident {/}{b}très{/} bien"}));

TEST(MarkdownStream, ShowsTextAtOnceAndHoldsOnlySignsAndTheLastWord) {
  MarkdownStream stream(kColours);
  EXPECT_EQ(stream.next("a word "), "a word");
  EXPECT_EQ(stream.next("*"), "");
  EXPECT_EQ(readable(stream.next("*b ")), " {/}{b}b");
  EXPECT_EQ(readable(stream.finish()), "{/}");
}

TEST(MarkdownStream, WrapsWordsButNotCode) {
  const std::string text = "one two three\n```\nint main() {}\n```\nfour five six";
  for (const bool colours : {false, true}) {
    MarkdownStream stream({.interactive = true, .colours = colours, .width = 8});
    std::string out = stream.next(text);
    out += stream.finish();
    EXPECT_NE(out.find("one two\nthree\n"), std::string::npos) << out;
    EXPECT_NE(out.find("int main() {}"), std::string::npos) << out;
    EXPECT_NE(out.find("five six"), std::string::npos) << out;
  }
}

TEST(MarkdownStream, LeavesTheTextAloneWithoutColours) {
  MarkdownStream stream({.interactive = true, .colours = false, .width = 80});
  EXPECT_EQ(stream.next("# a **b**\n"), "# a **b**\n");
  EXPECT_EQ(stream.finish(), "");
}

TEST(MarkdownStream, ControlCharactersNeverReachTheTerminal) {
  for (const bool colours : {false, true}) {
    MarkdownStream stream({.interactive = true, .colours = colours, .width = 80});
    const std::string out = stream.next(
                                "a\x1b[2Jb\x07\x9b"
                                "c\r\n") +
                            stream.finish();
    EXPECT_EQ(out, "a\\x1b[2Jb\\x07\\x9bc\\r\n");
  }
}

}  // namespace
}  // namespace ballast::cli
