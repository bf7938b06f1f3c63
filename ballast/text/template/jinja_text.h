// Strings that remember which of their bytes came from a message.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::jinja {

// Every operation of a template that cuts, joins or rewrites strings is written in terms of append, so the marks travel
// with the bytes and nothing has to be decided again.
class Text {
 public:
  // Bytes [begin, end) came from a message. Runs are in order, not empty, and do not touch.
  struct Run {
    size_t begin;
    size_t end;
  };

  Text() = default;
  explicit Text(std::string bytes, bool from_message = false);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  std::span<const Run> message_runs() const { return runs_; }
  bool from_message(size_t at) const;

  void append(std::string_view bytes, bool from_message = false);
  void append(const Text& text);
  // Bytes [begin, end) of `text`, which may not be this one.
  void append(const Text& text, size_t begin, size_t end);
  Text slice(size_t begin, size_t end) const;
  Text repeated(size_t count) const;  // count * size() is no more than fits into memory

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace ballast::jinja
