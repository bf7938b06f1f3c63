#include "apps/ballast/terminal/line_editor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "apps/ballast/commands/chat_message.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/interrupt.h"
#include "ballast/base/utf8.h"

namespace ballast::cli {

// ---------------------------------------------------------------- editing

std::optional<LineEvent> LineEditing::press(const Key& key) {
  switch (key.kind) {
    case KeyKind::kText:
    case KeyKind::kPaste: line_.insert(key.text); break;
    case KeyKind::kEnter:
      line_.end();  // so that what comes next does not overwrite the rest
      if (!is_unfinished_message(line_.text())) return LineEvent::kLine;
      line_.insert("\n");
      break;
    case KeyKind::kNewLine: line_.insert("\n"); break;
    case KeyKind::kLeft: line_.left(); break;
    case KeyKind::kRight: line_.right(); break;
    case KeyKind::kUp: browse(-1); break;
    case KeyKind::kDown: browse(1); break;
    case KeyKind::kHome: line_.home(); break;
    case KeyKind::kEnd: line_.end(); break;
    case KeyKind::kWordLeft: line_.word_left(); break;
    case KeyKind::kWordRight: line_.word_right(); break;
    case KeyKind::kBackspace: line_.erase_before(); break;
    case KeyKind::kDelete: line_.erase_at(); break;
    case KeyKind::kKillToEnd: line_.erase_to_end(); break;
    case KeyKind::kKillToStart: line_.erase_to_start(); break;
    case KeyKind::kKillWord: line_.erase_word_before(); break;
    case KeyKind::kClearScreen: break;
    case KeyKind::kInterrupt: line_.end(); return LineEvent::kInterrupted;
    case KeyKind::kEndOfInput:
      if (line_.text().empty()) return LineEvent::kEndOfInput;
      line_.erase_at();
      break;
  }
  return std::nullopt;
}

void LineEditing::browse(int step) {
  if ((step < 0 && place_ == 0) || (step > 0 && place_ >= history_.size())) return;
  if (place_ == history_.size()) typed_ = line_.text();
  place_ = step < 0 ? place_ - 1 : place_ + 1;
  line_.set(place_ == history_.size() ? typed_ : history_[place_]);
}

std::string LineEditing::take_line() {
  std::string text = line_.take();
  if (!text.empty() && (history_.empty() || history_.back() != text)) history_.push_back(text);
  place_ = history_.size();
  typed_.clear();
  return text;
}

void LineEditing::set_history(std::vector<std::string> history) {
  history_ = std::move(history);
  place_ = history_.size();
}

// ---------------------------------------------------------------- drawing

DrawnLine draw_line(std::string_view prompt, const LineBuffer& line, size_t width) {
  DrawnLine drawn;
  size_t row = 0;
  size_t column = 0;
  const auto put = [&](std::string_view character) {
    const size_t columns = display_width(character);
    if (width > 0 && column + columns > width) {
      drawn.text += "\r\n";
      ++row;
      column = 0;
    }
    drawn.text += character;
    column += columns;
  };
  const auto put_all = [&](std::string_view text, size_t cursor) {
    for (size_t at = 0; at <= text.size();) {
      if (at == cursor) {
        drawn.cursor_row = row;
        drawn.cursor_column = column;
      }
      if (at == text.size()) break;
      const size_t length = std::max<size_t>(1, utf8_sequence_length(text, at));
      if (text[at] == '\n') {
        drawn.text += "\r\n";
        ++row;
        column = 0;
      } else {
        put(printable(text.substr(at, length)));
      }
      at += length;
    }
  };
  put_all(prompt, std::string_view::npos);
  put_all(line.text(), line.cursor());
  // A cursor behind the last column would stand on the next row.
  if (width > 0 && drawn.cursor_column >= width) {
    if (drawn.cursor_row == row) drawn.text += "\r\n";
    row = std::max(row, drawn.cursor_row + 1);
    ++drawn.cursor_row;
    drawn.cursor_column = 0;
  }
  drawn.rows = row;
  return drawn;
}

DrawnLine fit_height(DrawnLine drawn, size_t height) {
  if (height == 0 || drawn.rows < height) return drawn;
  constexpr std::string_view kBreak = "\r\n";
  const size_t first = std::min(drawn.cursor_row, drawn.rows + 1 - height);
  size_t begin = 0;
  for (size_t row = 0; row < first; ++row) begin = drawn.text.find(kBreak, begin) + kBreak.size();
  size_t end = begin;
  for (size_t row = 0; row < height && end != std::string::npos; ++row) {
    end = drawn.text.find(kBreak, row == 0 ? end : end + kBreak.size());
  }
  drawn.text = drawn.text.substr(begin, end == std::string::npos ? end : end - begin);
  drawn.rows = height - 1;
  drawn.cursor_row -= first;
  return drawn;
}

namespace {

void write_terminal(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

winsize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
  return size;
}

// Whether more comes within the time in which a terminal sends the rest of a key.
bool more_comes_soon() {
  constexpr int kMilliseconds = 50;
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, kMilliseconds) != 0;
}

// Keys come as they are pressed while this lives, and pastes are marked as such.
class RawTerminal {
 public:
  RawTerminal() {
    known_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (!known_) return;
    termios raw = before_;
    raw.c_lflag &= static_cast<tcflag_t>(~(ECHO | ICANON | ISIG | IEXTEN));
    raw.c_iflag &= static_cast<tcflag_t>(~(ICRNL | INLCR | IXON));
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    set_terminal_to_restore(&before_);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    write_terminal("\x1b[?2004h");
  }
  ~RawTerminal() {
    if (!known_) return;
    write_terminal("\x1b[?2004l");
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
    set_terminal_to_restore(nullptr);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
  bool known_;
};

// "" at the end of the input.
std::string read_some() {
  char buffer[4096];
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count >= 0) return std::string(buffer, static_cast<size_t>(count));
    if (errno != EINTR) return "";
  }
}

}  // namespace

QuietTerminal::QuietTerminal(bool wanted) {
  auto before = std::make_unique<termios>();
  if (!wanted || ::tcgetattr(STDIN_FILENO, before.get()) != 0) return;
  termios quiet = *before;
  quiet.c_lflag &= static_cast<tcflag_t>(~(ECHO | ICANON));
  before_ = std::move(before);
  set_terminal_to_restore(before_.get());
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
}

QuietTerminal::~QuietTerminal() {
  if (!before_) return;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, before_.get());
  set_terminal_to_restore(nullptr);
}

// ---------------------------------------------------------------- LineEditor

LineEditor::LineEditor() : interactive_(::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {}

LineEvent LineEditor::read(const std::string& prompt, std::string& line) {
  if (interactive_) return edit(prompt, line);
  if (read_plain(line) == LineEvent::kEndOfInput) return LineEvent::kEndOfInput;
  for (std::string more; is_unfinished_message(line) && read_plain(more) == LineEvent::kLine;) line += '\n' + more;
  return LineEvent::kLine;
}

LineEvent LineEditor::read_plain(std::string& line) {
  for (size_t searched = 0;;) {
    const size_t end = unread_.find('\n', searched);
    if (end != std::string::npos) {
      line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      break;
    }
    searched = unread_.size();
    const std::string more = read_some();
    if (more.empty() && unread_.empty()) return LineEvent::kEndOfInput;
    unread_ += more.empty() ? "\n" : more;
  }
  if (line.ends_with('\r')) line.pop_back();
  return LineEvent::kLine;
}

void LineEditor::redraw(const std::string& prompt, bool whole) {
  const winsize size = terminal_size();
  const DrawnLine drawn = fit_height(draw_line(prompt, editing_.line(), size.ws_col), whole ? 0 : size.ws_row);
  std::string out = "\r";
  if (cursor_row_ > 0) out += fmt::format("\x1b[{}A", cursor_row_);
  out += "\x1b[J" + drawn.text + "\r";
  if (drawn.rows > drawn.cursor_row) out += fmt::format("\x1b[{}A", drawn.rows - drawn.cursor_row);
  if (drawn.cursor_column > 0) out += fmt::format("\x1b[{}C", drawn.cursor_column);
  cursor_row_ = drawn.cursor_row;
  write_terminal(out);
}

LineEvent LineEditor::edit(const std::string& prompt, std::string& line) {
  const RawTerminal raw;
  cursor_row_ = 0;
  for (;;) {
    while (!keys_.empty()) {
      const Key key = std::move(keys_.front());
      keys_.erase(keys_.begin());
      if (key.kind == KeyKind::kClearScreen) {
        write_terminal("\x1b[H\x1b[2J");
        cursor_row_ = 0;
      }
      const auto event = editing_.press(key);
      if (!event) continue;
      redraw(prompt, /*whole=*/true);
      write_terminal("\r\n");
      line = editing_.take_line();
      return *event;
    }
    redraw(prompt);
    const std::string bytes = read_some();
    if (bytes.empty()) return LineEvent::kEndOfInput;
    keys_ = decoder_.next(bytes);
    if (decoder_.holds_escape() && !more_comes_soon()) decoder_.drop_escape();
  }
}

}  // namespace ballast::cli
