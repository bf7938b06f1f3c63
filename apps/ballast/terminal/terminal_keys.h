// The bytes that a terminal sends, as keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ballast::cli {

enum class KeyKind : unsigned char {
  kText,   // characters typed
  kPaste,  // text from elsewhere, line breaks included
  kEnter,
  kNewLine,  // Alt-Enter: a line break in the message
  kLeft,
  kRight,
  kUp,
  kDown,
  kHome,
  kEnd,
  kWordLeft,
  kWordRight,
  kBackspace,
  kDelete,
  kKillToEnd,
  kKillToStart,
  kKillWord,
  kClearScreen,
  kInterrupt,   // Ctrl-C
  kEndOfInput,  // Ctrl-D
};

struct Key {
  KeyKind kind;
  std::string text = {};

  friend bool operator==(const Key&, const Key&) = default;
};

// Bytes come in pieces that know nothing of characters or escape sequences; what is not whole yet waits for more.
class KeyDecoder {
 public:
  std::vector<Key> next(std::string_view bytes);
  // An Escape that may be the beginning of another key; where nothing follows it was Escape, which means nothing.
  bool holds_escape() const { return pending_ == "\x1b"; }
  void drop_escape() { pending_.clear(); }

 private:
  bool take(std::vector<Key>& keys);
  bool take_escape(std::vector<Key>& keys);
  bool take_paste(std::vector<Key>& keys);
  bool take_character(std::vector<Key>& keys);

  std::string pending_;
  bool pasting_ = false;
};

}  // namespace ballast::cli
