// Lines of a terminal's width, broken between words while the text is still being written.
#pragma once

#include <string>
#include <string_view>

namespace ballast::cli {

// A word is held back until it ends: only then is it known whether it still fits. Characters that take two columns
// (Chinese, Japanese) may be broken anywhere. A word that is wider than the terminal is left to the terminal.
class WordWrap {
 public:
  // 0: lines are left as they are.
  explicit WordWrap(size_t width) : width_(width) {}

  // Bytes of UTF-8, in pieces of any size. `keep`: the text has lines of its own (code), which are not broken.
  void text(std::string_view bytes, bool keep);
  // Takes no room: an escape sequence that changes colours.
  void mark(std::string_view sequence) { word_ += sequence; }
  // What the word at the end was.
  void finish();
  // Everything that is ready.
  std::string take();

 private:
  void character(std::string_view bytes, bool keep);
  void end_word(bool keep = false);

  size_t width_;
  std::string out_;
  std::string partial_;  // of a character
  std::string word_;     // with marks
  size_t word_width_ = 0;
  size_t spaces_ = 0;  // before it
  size_t column_ = 0;
};

}  // namespace ballast::cli
