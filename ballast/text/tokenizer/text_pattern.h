// The patterns of tokenizer files: a fixed text or a regular expression, found in time that is bounded by the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

// Copies share what was compiled. Any number of threads may search.
class TextPattern {
 public:
  struct Match {
    size_t begin;
    size_t end;
    bool operator==(const Match&) const = default;
  };

  // Finds the text itself; the empty text is found nowhere.
  static TextPattern exact(std::string text);

  // Oniguruma's syntax, as tokenizer.json has it, where it means the same to PCRE2 or can be said in its words: sets
  // that are cut with && by one set, the meaning of \s, \w and \h. Anything else is kUnsupported, a fault in the
  // expression kCorrupt.
  static Result<TextPattern> expression(const std::string& text);

  // All matches in `text` from left to right, which may be empty but do not overlap. A byte that is no UTF-8 is a
  // character of its own, in no class of Unicode. An expression that takes more steps than a generous multiple of the
  // text's length is kInvalidArgument.
  Result<std::vector<Match>> find_all(std::string_view text) const;

  // `text` with every match replaced, word for word. kInvalidArgument where it would have more than `most` bytes.
  Result<std::string> replace_all(std::string_view text, std::string_view content, size_t most) const;

  // What the file said.
  const std::string& source() const;

  // Of a pattern that is written out by hand, and finds piece after piece; else null (word_split.h).
  size_t (*piece_end() const)(std::string_view text, size_t at);

 private:
  struct State;
  explicit TextPattern(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  Result<std::vector<Match>> find_expression(std::string_view text) const;

  std::shared_ptr<const State> state_;
};

}  // namespace ballast
