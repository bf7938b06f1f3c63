// Regular expressions over tensor names, with limits, so that no pattern can hang or overflow the stack.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

class Pattern {
 public:
  // PCRE2 syntax, UTF-8, unanchored. A bad expression is kInvalidArgument with the position of the fault.
  static Result<Pattern> compile(const std::string& expression);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  Result<bool> found_in(std::string_view text) const;

 private:
  struct State;
  explicit Pattern(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ballast
