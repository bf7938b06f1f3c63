#include "apps/ballast/terminal/line_buffer.h"

#include <optional>
#include <utility>

#include "apps/ballast/output/text.h"
#include "ballast/base/utf8.h"

namespace ballast::cli {

std::string LineBuffer::take() {
  cursor_ = 0;
  return std::exchange(text_, {});
}

void LineBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void LineBuffer::insert(std::string_view text) {
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const std::optional<uint32_t> c = take_code_point(text, at);
    if (!c) ++at;
    else if (*c == '\r') clean.push_back('\n');
    else if (*c == '\n' && begin > 0 && text[begin - 1] == '\r') continue;
    else if (*c != '\n' && (*c < 0x20 || (*c >= 0x7F && *c < 0xA0))) clean.push_back(' ');
    else clean += text.substr(begin, at - begin);
  }
  text_.insert(cursor_, clean);
  cursor_ += clean.size();
}

// The start of the character before `at`, with the marks that belong to it.
size_t LineBuffer::previous(size_t at) const {
  while (at > 0) {
    do --at;
    while (at > 0 && (static_cast<unsigned char>(text_[at]) & 0xC0U) == 0x80U);
    const size_t length = utf8_sequence_length(text_, at);
    if (display_width(std::string_view(text_).substr(at, length)) > 0) break;
  }
  return at;
}

size_t LineBuffer::next(size_t at) const {
  if (at >= text_.size()) return text_.size();
  at += utf8_sequence_length(text_, at);
  while (at < text_.size()) {
    const size_t length = utf8_sequence_length(text_, at);
    if (display_width(std::string_view(text_).substr(at, length)) > 0) break;
    at += length;
  }
  return at;
}

void LineBuffer::left() { cursor_ = previous(cursor_); }
void LineBuffer::right() { cursor_ = next(cursor_); }

void LineBuffer::word_left() {
  while (cursor_ > 0 && text_[cursor_ - 1] == ' ') --cursor_;
  while (cursor_ > 0 && text_[cursor_ - 1] != ' ') cursor_ = previous(cursor_);
}

void LineBuffer::word_right() {
  while (cursor_ < text_.size() && text_[cursor_] == ' ') ++cursor_;
  while (cursor_ < text_.size() && text_[cursor_] != ' ') cursor_ = next(cursor_);
}

void LineBuffer::erase_before() {
  const size_t begin = previous(cursor_);
  text_.erase(begin, cursor_ - begin);
  cursor_ = begin;
}

void LineBuffer::erase_at() { text_.erase(cursor_, next(cursor_) - cursor_); }
void LineBuffer::erase_to_end() { text_.erase(cursor_); }

void LineBuffer::erase_to_start() {
  text_.erase(0, cursor_);
  cursor_ = 0;
}

void LineBuffer::erase_word_before() {
  const size_t end = cursor_;
  word_left();
  text_.erase(cursor_, end - cursor_);
}

}  // namespace ballast::cli
