// New names for tensors, by regular expressions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/archive/convert.h"

namespace ballast {

struct RenameRule {
  std::string expression;   // PCRE2, unanchored
  std::string replacement;  // $1, ${1}, ${name} stand for groups, $$ for a dollar sign
};

// "REGEX=REPLACEMENT": the first = without a backslash splits; \= is a plain one on either side.
Result<RenameRule> parse_rename_rule(std::string_view text);

// Rules in order, each on the result of the one before, each replacing every match.
class Renamer {
 public:
  static Result<Renamer> compile(std::vector<RenameRule> rules);
  ~Renamer();
  Renamer(Renamer&&) noexcept;
  Renamer& operator=(Renamer&&) noexcept;

  // Fails with kInvalidArgument when the result is empty or absurdly long.
  Result<std::string> rename(std::string_view name);
  // Rules that have matched nothing so far.
  std::vector<RenameRule> unmatched() const;

 private:
  struct State;
  explicit Renamer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// For ConvertOptions::edits. Two tensors that would get the same name are an error that says which.
PlanEdit rename_tensors(std::vector<RenameRule> rules);

// Gives the plan's tensors these names, one each. Fails, and changes nothing, when two are the same or one is empty.
// Gives the number of names that changed.
Result<size_t> set_names(WritePlan& plan, std::vector<std::string> names);

// Names without the components that are variants of a Rust enum (a capital letter first): "a.BaseConv.weight" becomes
// "a.weight".
std::string without_enum_variants(std::string_view name);
PlanEdit skip_enum_variants();

}  // namespace ballast
