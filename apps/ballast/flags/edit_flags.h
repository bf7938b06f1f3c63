// Flags that change tensors on the way, and what is said about it: shared by `convert` and `apply`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/ballast/flags/flags.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/base/json.h"
#include "ballast/edit/cast.h"

namespace ballast::cli {

struct EditFlags {
  std::vector<std::string> exact;
  std::vector<std::string> renames;
  bool renumber = false;
  std::vector<std::string> renumber_except;
  bool skip_enum_variants = false;
  std::vector<std::string> adapters;
  ModuleHints hints;
  std::optional<Ambiguous> ambiguous;
  std::optional<DType> dtype;
  std::optional<DType> dequantize;
  bool half = false;
  bool unhalf = false;
  std::vector<std::string> half_modules;
  std::vector<std::string> half_skips;
  std::vector<std::string> keep;
};

void add_exact_option(Command& command, EditFlags& flags);
// --rename, --renumber, --renumber-except
void add_name_flags(Command& command, EditFlags& flags);
// --adapt, --linear, --not-linear, --norm, --ambiguous
void add_adapt_flags(Command& command, EditFlags& flags);
// --dtype, --dequantize, --half, --unhalf, --half-module, --half-skip, --keep
void add_cast_flags(Command& command, EditFlags& flags);

// The table of adapters, for the text below the flags.
std::string adapters_text();

AdaptOptions adapt_options(const EditFlags& flags);
Result<const Adapter*> choose_adapter(const std::string& name);

enum class EditScope : unsigned char {
  kAll,
  kNames,  // --rename and --renumber only: `apply` has another way with the rest
};

// The edits in the order in which their flags stand on the command line; --rename after --rename is one edit.
Result<std::vector<PlanEdit>> make_edits(const Command& command, const EditFlags& flags, const AdaptOptions& adapt,
                                         const std::shared_ptr<CastLog>& casts, EditScope scope = EditScope::kAll);

// "casts": [...], "max_abs_error", "overflowed": members of the object being written.
void add_casts(JsonWriter& json, const CastLog& casts);
void print_casts(const CastLog& casts, Console& console);

}  // namespace ballast::cli
