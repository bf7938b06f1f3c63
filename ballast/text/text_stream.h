// The text of tokens that arrive one after the other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ballast/text/stop_text.h"
#include "ballast/text/tokenizer.h"

namespace ballast {

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
