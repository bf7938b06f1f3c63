#include "apps/ballast/terminal/line_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ballast::cli {
namespace {

using ::testing::ElementsAre;

// ---------------------------------------------------------------- keys

TEST(KeyDecoder, KnowsTheKeysOfTerminals) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.next("a\x1b[D\x1bOC\x1b[3~\x01\x05\x0b\x15\x17\x7f\r"),
              ElementsAre(Key{KeyKind::kText, "a"}, Key{KeyKind::kLeft}, Key{KeyKind::kRight}, Key{KeyKind::kDelete},
                          Key{KeyKind::kHome}, Key{KeyKind::kEnd}, Key{KeyKind::kKillToEnd}, Key{KeyKind::kKillToStart},
                          Key{KeyKind::kKillWord}, Key{KeyKind::kBackspace}, Key{KeyKind::kEnter}));
}

TEST(KeyDecoder, WaitsForTheRestOfWhatCameInPieces) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.next("\xe6\x97"), ElementsAre());
  EXPECT_THAT(decoder.next("\xa5\x1b"), ElementsAre(Key{KeyKind::kText, "日"}));
  EXPECT_THAT(decoder.next("["), ElementsAre());
  EXPECT_THAT(decoder.next("A"), ElementsAre(Key{KeyKind::kUp}));
}

TEST(KeyDecoder, AnEscapeAloneTakesNothingWithIt) {
  KeyDecoder decoder;
  decoder.next("a\x1b");
  ASSERT_TRUE(decoder.holds_escape());
  decoder.drop_escape();
  EXPECT_THAT(decoder.next("b"), ElementsAre(Key{KeyKind::kText, "b"}));
  decoder.next("\x1b[");
  EXPECT_FALSE(decoder.holds_escape());
}

TEST(KeyDecoder, APasteIsOneKeyLineBreaksIncluded) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.next("\x1b[200~one\rtwo\x1b[201~x"),
              ElementsAre(Key{KeyKind::kPaste, "one\rtwo"}, Key{KeyKind::kText, "x"}));
}

TEST(KeyDecoder, PassesOverWhatMeansNothing) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.next("\x1b[24~\x1b[1;2P\x1bx\x1c\xff"
                           "b"),
              ElementsAre(Key{KeyKind::kText, "b"}));
}

// ---------------------------------------------------------------- the line

LineBuffer typed(std::string_view text) {
  LineBuffer line;
  line.insert(text);
  return line;
}

TEST(LineBuffer, MovesByCharactersWithTheirMarks) {
  LineBuffer line = typed("ae\u0301日");
  line.left();
  EXPECT_EQ(line.cursor(), 4U);
  line.left();
  EXPECT_EQ(line.cursor(), 1U);
  line.erase_at();
  EXPECT_EQ(line.text(), "a日");
  line.right();
  line.erase_before();
  EXPECT_EQ(line.text(), "a");
  line.left();
  line.left();
  EXPECT_EQ(line.cursor(), 0U);
  line.erase_before();
  EXPECT_EQ(line.text(), "a");
}

TEST(LineBuffer, ErasesWordsAndEnds) {
  LineBuffer line = typed("one two  three");
  line.erase_word_before();
  EXPECT_EQ(line.text(), "one two  ");
  line.erase_word_before();
  EXPECT_EQ(line.text(), "one ");
  line.home();
  line.word_right();
  EXPECT_EQ(line.cursor(), 3U);
  line.erase_to_end();
  EXPECT_EQ(line.text(), "one");
  line.left();
  line.erase_to_start();
  EXPECT_EQ(line.text(), "e");
}

TEST(LineBuffer, TakesNeitherControlsNorBrokenText) {
  EXPECT_EQ(typed("a\x1b[31m\tb\xff\r\nc\rd").text(), "a [31m b\nc\nd");
}

TEST(LineEditing, BrowsesTheHistoryAndComesBackToWhatWasTyped) {
  LineEditing editing;
  const auto type = [&](std::string text) { editing.press({KeyKind::kText, std::move(text)}); };
  for (const char* text : {"first", "second", "second"}) {
    type(text);
    EXPECT_EQ(editing.press({KeyKind::kEnter}), LineEvent::kLine);
    editing.take_line();
  }
  type("third");
  editing.press({KeyKind::kUp});
  EXPECT_EQ(editing.line().text(), "second");
  editing.press({KeyKind::kUp});
  editing.press({KeyKind::kUp});
  EXPECT_EQ(editing.line().text(), "first");
  editing.press({KeyKind::kDown});
  editing.press({KeyKind::kDown});
  EXPECT_EQ(editing.line().text(), "third");
}

TEST(LineEditing, CtrlDEndsAnEmptyLineOnly) {
  LineEditing editing;
  EXPECT_EQ(editing.press({KeyKind::kEndOfInput}), LineEvent::kEndOfInput);
  editing.press({KeyKind::kText, "x"});
  EXPECT_EQ(editing.press({KeyKind::kEndOfInput}), std::nullopt);
  EXPECT_EQ(editing.press({KeyKind::kInterrupt}), LineEvent::kInterrupted);
}

// ---------------------------------------------------------------- drawing

TEST(DrawLine, WrapsWideCharactersWhereTheyDoNotFit) {
  const DrawnLine drawn = draw_line("> ", typed("ab日日"), 7);
  EXPECT_EQ(drawn.text, "> ab日\r\n日");
  EXPECT_EQ(drawn.rows, 1U);
  EXPECT_EQ(drawn.cursor_row, 1U);
  EXPECT_EQ(drawn.cursor_column, 2U);
}

TEST(DrawLine, TheCursorBehindAFullRowStandsOnTheNext) {
  const DrawnLine drawn = draw_line("> ", typed("abcd"), 6);
  EXPECT_EQ(drawn.text, "> abcd\r\n");
  EXPECT_EQ(drawn.cursor_row, 1U);
  EXPECT_EQ(drawn.cursor_column, 0U);
}

TEST(DrawLine, ShowsLineBreaksOfAPaste) {
  LineBuffer line = typed("one\ntwo");
  line.home();
  const DrawnLine drawn = draw_line("> ", line, 80);
  EXPECT_EQ(drawn.text, "> one\r\ntwo");
  EXPECT_EQ(drawn.rows, 1U);
  EXPECT_EQ(drawn.cursor_row, 0U);
  EXPECT_EQ(drawn.cursor_column, 2U);
}

TEST(DrawLine, ShowsTheRowsAroundTheCursorWhereTheTerminalIsLow) {
  LineBuffer line = typed("1\n2\n3\n4");
  const DrawnLine end = fit_height(draw_line("> ", line, 80), 2);
  EXPECT_EQ(end.text, "3\r\n4");
  EXPECT_EQ(end.rows, 1U);
  EXPECT_EQ(end.cursor_row, 1U);
  line.home();
  const DrawnLine start = fit_height(draw_line("> ", line, 80), 2);
  EXPECT_EQ(start.text, "> 1\r\n2");
  EXPECT_EQ(start.cursor_row, 0U);
  EXPECT_EQ(fit_height(draw_line("> ", line, 80), 4).text, "> 1\r\n2\r\n3\r\n4");
  EXPECT_EQ(fit_height(draw_line("> ", line, 80), 0).rows, 3U);
}

}  // namespace
}  // namespace ballast::cli
