// The flags that say what the text must look like, for every command that writes text.
#pragma once

#include <optional>
#include <string>

#include "apps/ballast/flags/flags.h"
#include "ballast/runtime/text_model.h"

namespace ballast::cli {

struct ConstraintFlags {
  bool json_object = false;
  std::string schema;  // files
  std::string grammar;
  std::string regex;
};

// What the flags set must live until the command has run.
void add_constraint_flags(Command& command, ConstraintFlags& flags);

// nullopt where no flag asks for one.
Result<std::optional<Constraint>> read_constraint(const ConstraintFlags& flags);

}  // namespace ballast::cli
