#include "apps/ballast/terminal/markdown_stream.h"

#include <algorithm>
#include <utility>

#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }
bool is_sign(char c) { return c == '*' || c == '_' || c == '`'; }
bool is_word_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

bool all_same(std::string_view text) { return text.find_first_not_of(text[0]) == std::string_view::npos; }

}  // namespace

std::string MarkdownStream::next(std::string_view text) {
  for (const char c : without_controls(text)) {
    if (terminal_.colours) take(c);
    else take_plain(c);
  }
  return wrap_.take();
}

std::string MarkdownStream::finish() {
  if (terminal_.colours) {
    if (at_start_ && !start_.empty()) decide_start();
    release_signs('\n');
    style_ = {};
    put("");
    at_start_ = true;
  }
  wrap_.finish();
  return wrap_.take();
}

// Without colours every sign stays; only the lines of fenced code must be known.
void MarkdownStream::take_plain(char c) {
  if (c == '\n') start_.clear();
  else if (start_.size() < 3) start_.push_back(c);
  if (start_ == "```" && c == '`') {
    style_.fence = !style_.fence;
    start_.push_back(c);  // once a line
  }
  wrap_.text(std::string_view(&c, 1), style_.fence);
}

// Changes the terminal's style where it is another one, then prints.
void MarkdownStream::put(std::string_view text) {
  if (!(style_ == shown_)) {
    wrap_.mark("\x1b[0m");
    if (style_.heading || style_.bold) wrap_.mark("\x1b[1m");
    if (style_.italic) wrap_.mark("\x1b[3m");
    if (style_.dim) wrap_.mark("\x1b[2m");
    if (style_.code || style_.fence) wrap_.mark("\x1b[36m");
    shown_ = style_;
  }
  wrap_.text(text, style_.fence);
  if (!text.empty()) last_ = text.back();
}

void MarkdownStream::take(char c) {
  if (info_line_) {
    if (c == '\n') {
      info_line_ = false;
      end_line();
    } else {
      put(std::string_view(&c, 1));
    }
    return;
  }
  if (at_start_) return take_start(c);
  if (c == '\n') return end_line();
  inline_char(c);
}

void MarkdownStream::end_line() {
  release_signs('\n');
  style_.heading = style_.dim = false;
  put("\n");
  at_start_ = true;
}

// ---------------------------------------------------------------- the beginning of a line

void MarkdownStream::take_start(char c) {
  if (c != '\n') {
    start_.push_back(c);
    if (!start_undecided()) decide_start();
    return;
  }
  if (start_.find_first_not_of(' ') == std::string::npos && !style_.fence) {
    style_ = {};  // an empty line ends what was never closed
  }
  if (!start_.empty()) decide_start();
  end_line();
}

bool MarkdownStream::start_undecided() const {
  const size_t begin = start_.find_first_not_of(' ');
  if (begin == std::string::npos) return true;
  const std::string_view rest = std::string_view(start_).substr(begin);
  if (rest[0] == '`') return rest.size() < 3 && all_same(rest);
  if (style_.fence) return false;
  if (rest[0] == '#') return rest.size() <= 6 && all_same(rest);
  return (rest[0] == '-' || rest[0] == '*' || rest[0] == '+') && rest.size() == 1;
}

void MarkdownStream::decide_start() {
  const std::string start = std::exchange(start_, {});
  at_start_ = false;
  const size_t begin = std::min(start.find_first_not_of(' '), start.size());
  const std::string_view rest = std::string_view(start).substr(begin);
  if (rest.starts_with("```")) return take_fence_line();
  if (style_.fence) return put(start);
  put(std::string_view(start).substr(0, begin));
  if (rest.starts_with('#') && rest.ends_with(' ') && all_same(rest.substr(0, rest.size() - 1))) {
    style_.heading = true;
    return;
  }
  if (rest == "- " || rest == "* " || rest == "+ ") return put("• ");
  for (const char c : rest) inline_char(c);
}

// The line of a ``` says at most the name of a language, which stays on it.
void MarkdownStream::take_fence_line() {
  style_ = {.fence = !style_.fence};
  style_.dim = style_.fence;
  info_line_ = true;
}

// ---------------------------------------------------------------- inside of a line

void MarkdownStream::inline_char(char c) {
  if (style_.fence) return put(std::string_view(&c, 1));
  const bool sign = style_.code ? c == '`' : is_sign(c);
  if (sign && (signs_.empty() || signs_[0] == c)) {
    if (signs_.empty()) before_signs_ = last_;
    signs_.push_back(c);
    return;
  }
  release_signs(c);
  if (sign) {
    before_signs_ = last_;
    signs_.push_back(c);
    return;
  }
  put(std::string_view(&c, 1));
}

// Signs open something before a character and close it behind one; between blanks, and underscores inside of a word,
// they are just signs.
void MarkdownStream::release_signs(char following) {
  if (signs_.empty()) return;
  const std::string signs = std::exchange(signs_, {});
  if (signs[0] == '`') {
    if (!style_.code && following == '\n') return put(signs);
    style_.code = !style_.code;
    return;
  }
  const bool opens = !is_blank(following);
  const bool closes = !is_blank(before_signs_);
  const bool in_word = signs[0] == '_' && is_word_byte(before_signs_) && is_word_byte(following);
  const bool bold = signs.size() >= 2;
  const bool italic = signs.size() != 2;
  const bool active = (!bold || style_.bold) && (!italic || style_.italic);
  if (in_word || signs.size() > 3 || !(active ? closes : opens)) return put(signs);
  if (bold) style_.bold = !style_.bold;
  if (italic) style_.italic = !style_.italic;
}

}  // namespace ballast::cli
