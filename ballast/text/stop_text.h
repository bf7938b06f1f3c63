// Stop strings in text that arrives piece by piece.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

}  // namespace ballast
