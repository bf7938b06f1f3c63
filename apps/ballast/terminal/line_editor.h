// Reads lines: with editing and history where a person types them, plainly where they come through a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/ballast/terminal/line_buffer.h"
#include "apps/ballast/terminal/terminal_keys.h"

struct termios;

namespace ballast::cli {

// What a line of input turned out to be.
enum class LineEvent : unsigned char { kLine, kInterrupted, kEndOfInput };

// What keys do to the line and the history; knows no terminal.
class LineEditing {
 public:
  // The event that this key completes, if it does.
  std::optional<LineEvent> press(const Key& key);
  const LineBuffer& line() const { return line_; }
  // The line, which goes into the history and is empty then.
  std::string take_line();
  // What was typed before, the newest last.
  void set_history(std::vector<std::string> history);

 private:
  void browse(int step);

  LineBuffer line_;
  std::vector<std::string> history_;
  size_t place_ = 0;   // in the history; its size: the line being typed
  std::string typed_;  // what was being typed when browsing began
};

// The line as it looks on a terminal of this width, and where its cursor is: rows and columns from its beginning. Line
// breaks of the text appear as such.
struct DrawnLine {
  std::string text;
  size_t rows = 0;  // below the first
  size_t cursor_row = 0;
  size_t cursor_column = 0;
};
DrawnLine draw_line(std::string_view prompt, const LineBuffer& line, size_t width);
// As much of it as fits a terminal of this height, with the row of the cursor: a terminal cannot go back to rows that
// have left it.
DrawnLine fit_height(DrawnLine drawn, size_t height);

class LineEditor {
 public:
  LineEditor();
  // Where standard input is a terminal.
  bool interactive() const { return interactive_; }
  void set_history(std::vector<std::string> history) { editing_.set_history(std::move(history)); }
  // Shows the prompt (on a terminal only) and waits for a message: a line, or several that belong together (see
  // chat_message.h). `line` is set for kLine.
  LineEvent read(const std::string& prompt, std::string& line);

 private:
  LineEvent edit(const std::string& prompt, std::string& line);
  LineEvent read_plain(std::string& line);
  // `whole`: also the rows that the terminal has no room for, which scroll away.
  void redraw(const std::string& prompt, bool whole = false);

  bool interactive_;
  LineEditing editing_;
  KeyDecoder decoder_;
  std::vector<Key> keys_;  // that came behind the end of a line
  std::string unread_;     // of a pipe, behind the last line
  size_t cursor_row_ = 0;  // where the terminal's cursor is, from the first row of the line
};

// While this lives, what is typed on the terminal is not shown and waits for the next prompt; Ctrl-C still is a signal.
class QuietTerminal {
 public:
  // `wanted`: false does nothing.
  explicit QuietTerminal(bool wanted);
  ~QuietTerminal();
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

 private:
  std::unique_ptr<termios> before_;
};

}  // namespace ballast::cli
