// The text of tokens that arrive one after the other.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/text/tokenizer.h"

namespace ballast {

// Lets text through until one of the stop strings appears, and holds back what may be the beginning of one.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops);

  // What can be shown of what has come so far. Nothing more once a stop string was found.
  std::string next(std::string_view text);
  bool found() const { return found_; }
  // What was held back, when no more text comes.
  std::string finish();

 private:
  std::vector<std::string> stops_;  // without empty ones
  std::string pending_;
  bool found_ = false;
};

// Whole characters, up to a stop string.
class TextStream {
 public:
  // Without a tokenizer (null) the text is the tokens' numbers, and stop strings do not count. It must outlive this.
  TextStream(const Tokenizer* tokenizer, std::vector<std::string> stops);

  // What can be shown now that `id` has come.
  Result<std::string> next(TokenId id);
  // A stop string has come: nothing more can be shown.
  bool stopped() const { return stops_.found(); }
  // What was held back, when no more tokens come.
  Result<std::string> finish();

 private:
  std::optional<StreamDecoder> decoder_;
  StopText stops_;
};

}  // namespace ballast
