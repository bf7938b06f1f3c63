// Markdown, shown while it is being written.
#pragma once

#include <string>
#include <string_view>

#include "apps/ballast/terminal/terminal.h"
#include "apps/ballast/terminal/word_wrap.h"

namespace ballast::cli {

// On a terminal that takes colours: headings and **bold** in bold, *emphasis* in italics, `code` and fenced code in
// colour, bullets as dots, without the signs that say so. Elsewhere the text as it is. Only what may still become
// something else is held back: the beginning of a line, a star or two, a word that may not fit its line. Lines are
// broken between words at the terminal's width, except in fenced code. Control characters never come through.
class MarkdownStream {
 public:
  explicit MarkdownStream(const Terminal& terminal) : terminal_(terminal), wrap_(terminal.width) {}

  std::string next(std::string_view text);
  // What was held back, and all colours off.
  std::string finish();

 private:
  struct Style {
    bool heading = false, bold = false, italic = false, code = false, fence = false, dim = false;
    friend bool operator==(const Style&, const Style&) = default;
  };

  void take(char c);
  void take_plain(char c);
  void take_start(char c);
  bool start_undecided() const;
  void decide_start();
  void take_fence_line();
  void end_line();
  void inline_char(char c);
  void put(std::string_view text);
  void release_signs(char following);

  Terminal terminal_;
  WordWrap wrap_;
  Style style_;        // as the text says
  Style shown_;        // as the terminal has it
  std::string start_;  // of a line, while it may be a sign
  bool at_start_ = true;
  bool info_line_ = false;  // behind the ``` that begins code: the name of its language
  std::string signs_;       // stars, underscores or backticks, until the next character says what they are
  char before_signs_ = ' ';
  char last_ = ' ';  // shown last
};

}  // namespace ballast::cli
