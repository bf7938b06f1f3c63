// A line while it is typed: its text, the place of the cursor, and what keys do to both.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::cli {

// The text is valid UTF-8; the cursor stands between characters, never inside one or before a combining mark.
class LineBuffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // in bytes
  std::string take();
  void set(std::string text);  // cursor at the end

  // What is no UTF-8 is left out; line breaks stay, other control characters become spaces.
  void insert(std::string_view text);
  void left();
  void right();
  void home() { cursor_ = 0; }
  void end() { cursor_ = text_.size(); }
  void word_left();
  void word_right();
  void erase_before();       // Backspace
  void erase_at();           // Delete
  void erase_to_end();       // Ctrl-K
  void erase_to_start();     // Ctrl-U
  void erase_word_before();  // Ctrl-W

 private:
  size_t previous(size_t at) const;
  size_t next(size_t at) const;

  std::string text_;
  size_t cursor_ = 0;
};

}  // namespace ballast::cli
