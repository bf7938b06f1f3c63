// Regular expressions over tensor names, with limits, so that no pattern can hang or overflow the stack.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

class Pattern {
 public:
  // PCRE2 syntax, UTF-8, unanchored. A bad expression is kInvalidArgument with the position of the fault.
  static Result<Pattern> compile(const std::string& expression);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  static Result<std::vector<Pattern>> compile_all(const std::vector<std::string>& expressions);

  Result<bool> found_in(std::string_view text) const;
  // What the expression's first group matched, or all of the match where it has no group; nullopt without a match.
  Result<std::optional<std::string>> first_group(std::string_view text) const;

  // `text` with every match replaced. In `replacement` $1, ${1}, $name and ${name} stand for groups, $$ for a dollar
  // sign. A group that the expression does not have, or a result of more than kMaxReplaced bytes, is kInvalidArgument.
  static constexpr size_t kMaxReplaced = size_t{1} << 20;
  struct Replaced {
    std::string text;
    size_t matches = 0;
  };
  Result<Replaced> replace_all(std::string_view text, const std::string& replacement) const;

  const std::string& expression() const;

 private:
  struct State;
  explicit Pattern(std::unique_ptr<State> state);
  Error gave_up(std::string_view text, int code) const;
  Error cannot_replace(std::string_view text, const std::string& replacement, int code, size_t length) const;
  std::unique_ptr<State> state_;
};

Result<bool> any_found(const std::vector<Pattern>& patterns, std::string_view text);
// The expression that finds exactly this text.
std::string exactly(std::string_view text);

}  // namespace ballast
