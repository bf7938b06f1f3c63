#include "apps/ballast/flags/edit_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "ballast/edit/quantize.h"
#include "ballast/edit/rename.h"
#include "ballast/edit/renumber.h"

namespace ballast::cli {

namespace {

constexpr size_t kCastsShown = 10;

std::vector<std::string_view> adapter_names() {
  std::vector<std::string_view> names;
  for (const Adapter& adapter : all_adapters()) names.push_back(adapter.name);
  return names;
}

Result<std::vector<ModuleKind>> parse_modules(const std::vector<std::string>& names) {
  std::vector<ModuleKind> kinds;
  for (const std::string& name : names) {
    const auto kind = parse_module_kind(name);
    if (!kind) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("unknown kind of module \"{}\"; known kinds: {}", name,
                                                                 fmt::join(module_kind_names(), ", ")));
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

// Walks the command line and turns each flag into an edit.
class EditMaker {
 public:
  EditMaker(const EditFlags& flags, const AdaptOptions& adapt, const std::shared_ptr<CastLog>& casts, EditScope scope)
      : flags_(flags), adapt_(adapt), casts_(casts), scope_(scope) {}

  Status take(const std::string& option) {
    if (option == "--rename") return take_rename();
    close_renames();
    if (option == "--renumber") edits_.push_back(renumber_tensors({flags_.renumber_except}));
    if (scope_ == EditScope::kNames) return {};
    if (option == "--skip-enum-variants") edits_.push_back(skip_enum_variants());
    else if (option == "--adapt") return take_adapter();
    else if (option == "--dtype") edits_.push_back(cast_floats({*flags_.dtype, flags_.keep}, casts_));
    else if (option == "--dequantize") edits_.push_back(dequantize_tensors(*flags_.dequantize, casts_));
    else if (option == "--half" || option == "--unhalf") return take_half();
    return {};
  }

  std::vector<PlanEdit> finish() {
    close_renames();
    return std::move(edits_);
  }

 private:
  Status take_rename() {
    auto rule = parse_rename_rule(flags_.renames[renames_taken_++]);
    if (!rule) return std::move(rule).error().with_context("--rename");
    rules_.push_back(*std::move(rule));
    return {};
  }

  void close_renames() {
    if (!rules_.empty()) edits_.push_back(rename_tensors(std::exchange(rules_, {})));
  }

  Status take_adapter() {
    BALLAST_TRY(const Adapter* adapter, choose_adapter(flags_.adapters[adapters_taken_++]));
    edits_.push_back(adapt_with(*adapter, adapt_));
    return {};
  }

  // --half and --unhalf together mean both ways at once, not one after the other.
  Status take_half() {
    if (std::exchange(half_taken_, true)) return {};
    HalfOptions half;
    if (!flags_.unhalf) half.direction = HalfDirection::kToHalf;
    else if (!flags_.half) half.direction = HalfDirection::kToFull;
    BALLAST_TRY(half.with, parse_modules(flags_.half_modules));
    BALLAST_TRY(half.without, parse_modules(flags_.half_skips));
    half.keep = flags_.keep;
    half.hints = flags_.hints;
    half.ambiguous = adapt_.ambiguous;
    edits_.push_back(cast_half(std::move(half), casts_));
    return {};
  }

  const EditFlags& flags_;
  const AdaptOptions& adapt_;
  const std::shared_ptr<CastLog>& casts_;
  EditScope scope_;
  bool half_taken_ = false;
  size_t renames_taken_ = 0;
  size_t adapters_taken_ = 0;
  std::vector<RenameRule> rules_;
  std::vector<PlanEdit> edits_;
};

Status check_modifiers(const EditFlags& flags) {
  const auto needs = [](bool given, std::string_view flag, bool has, std::string_view other) -> Status {
    if (!given || has) return {};
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} requires {}", flag, other));
  };
  const bool half = flags.half || flags.unhalf;
  const bool classifies = half || !flags.adapters.empty();
  BALLAST_CHECK(needs(!flags.renumber_except.empty(), "--renumber-except", flags.renumber, "--renumber"));
  BALLAST_CHECK(needs(!flags.half_modules.empty(), "--half-module", half, "--half or --unhalf"));
  BALLAST_CHECK(needs(!flags.half_skips.empty(), "--half-skip", half, "--half or --unhalf"));
  BALLAST_CHECK(needs(!flags.keep.empty(), "--keep", half || flags.dtype.has_value(), "--dtype, --half or --unhalf"));
  BALLAST_CHECK(needs(!flags.hints.linear.empty(), "--linear", classifies, "--adapt or --half"));
  BALLAST_CHECK(needs(!flags.hints.not_linear.empty(), "--not-linear", classifies, "--adapt or --half"));
  BALLAST_CHECK(needs(!flags.hints.norm.empty(), "--norm", classifies, "--adapt or --half"));
  return needs(flags.ambiguous.has_value(), "--ambiguous", classifies, "--adapt or --half");
}

}  // namespace

void add_exact_option(Command& command, EditFlags& flags) {
  command.texts("--exact", "NAME", flags.exact,
                "Select the tensor with this exact name; may be repeated, adds to --only");
}

void add_name_flags(Command& command, EditFlags& flags) {
  command.texts("--rename", "REGEX=NEW", flags.renames,
                "Replace every match in every name; $1, ${name} are groups; may be repeated");
  command.flag("--renumber", flags.renumber, "Close gaps in layer numbers: 0, 2, 4 become 0, 1, 2");
  command.patterns("--renumber-except", flags.renumber_except, "Keep the numbers after matching paths");
}

void add_adapt_flags(Command& command, EditFlags& flags) {
  command.texts("--adapt", "ADAPTER", flags.adapters, "Translate names and layouts to another framework's; see below");
  command.patterns("--linear", flags.hints.linear, "Treat matching matrices as Linear weights");
  command.patterns("--not-linear", flags.hints.not_linear, "Treat matching matrices as not Linear");
  command.patterns("--norm", flags.hints.norm, "Treat matching tensors as scales of a norm");
  command.choice<std::optional<Ambiguous>>("--ambiguous", "WHAT", flags.ambiguous,
                                           {{"keep", Ambiguous::kKeep}, {"linear", Ambiguous::kLinear}},
                                           "Treat undecided matrices this way instead of stopping: keep or linear");
}

void add_cast_flags(Command& command, EditFlags& flags) {
  command.choice<std::optional<DType>>(
      "--dtype", "DTYPE", flags.dtype,
      {{"f16", DType::kF16}, {"bf16", DType::kBF16}, {"f32", DType::kF32}, {"f64", DType::kF64}},
      "Cast floating tensors: f16, bf16, f32 or f64");
  command.choice<std::optional<DType>>("--dequantize", "DTYPE", flags.dequantize,
                                       {{"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}},
                                       "Dequantise tensors (q4_0, q6_k, ...) to f32 (exact), f16 or bf16");
  command.flag("--half", flags.half, "Cast f32 to f16, except in BatchNorm and unknown modules");
  command.flag("--unhalf", flags.unhalf, "Cast f16 to f32; with --half, swap both");
  command.texts("--half-module", "KIND", flags.half_modules,
                "Apply --half to this kind of module too: BatchNorm, Other");
  command.texts("--half-skip", "KIND", flags.half_skips,
                "Do not apply --half to this kind of module: Linear, LayerNorm");
  command.patterns("--keep", flags.keep, "Do not cast matching tensors; may be repeated");
}

std::string adapters_text() {
  std::string text = "Adapters (--adapt):\n";
  for (const Adapter& adapter : all_adapters()) text += fmt::format("  {:<22} {}\n", adapter.name, adapter.summary);
  return text + "\n";
}

AdaptOptions adapt_options(const EditFlags& flags) {
  AdaptOptions options;
  options.hints = flags.hints;
  options.ambiguous = flags.ambiguous.value_or(Ambiguous::kRefuse);
  return options;
}

Result<const Adapter*> choose_adapter(const std::string& name) {
  if (const Adapter* adapter = find_adapter(name)) return adapter;
  const std::vector<std::string_view> names = adapter_names();
  const std::string_view meant = nearest(name, names);
  return make_error(ErrorCode::kInvalidArgument,
                    meant.empty()
                        ? fmt::format("there is no adapter \"{}\"; there are: {}", name, fmt::join(names, ", "))
                        : fmt::format("there is no adapter \"{}\"; did you mean \"{}\"?", name, meant));
}

Result<std::vector<PlanEdit>> make_edits(const Command& command, const EditFlags& flags, const AdaptOptions& adapt,
                                         const std::shared_ptr<CastLog>& casts, EditScope scope) {
  BALLAST_CHECK(check_modifiers(flags));
  EditMaker maker(flags, adapt, casts, scope);
  for (const std::string& name : command.given()) BALLAST_CHECK(maker.take(name));
  return maker.finish();
}

// ---------------------------------------------------------------- what casting cost

void add_casts(JsonWriter& json, const CastLog& casts) {
  const std::vector<TensorCast> entries = casts.casts();
  json.key("casts").begin_array();
  bool drawn = !entries.empty();
  for (const TensorCast& cast : entries) {
    json.begin_object();
    add_text(json, "tensor", cast.name);
    add_text(json, "from", dtype_name(cast.from));
    add_text(json, "to", dtype_name(cast.to));
    if (cast.report) json.key("max_abs_error").real(cast.report->max_abs_error);
    else add_null(json, "max_abs_error");
    add_number(json, "overflowed", cast.report ? cast.report->overflowed : 0);
    json.end_object();
    drawn = drawn && cast.report;
  }
  json.end_array();
  const CastReport total = casts.total();
  if (drawn) json.key("max_abs_error").real(total.max_abs_error);
  else add_null(json, "max_abs_error");
  add_number(json, "overflowed", total.overflowed);
}

void print_casts(const CastLog& casts, Console& console) {
  std::vector<TensorCast> entries = casts.casts();
  std::erase_if(entries, [](const TensorCast& cast) { return !cast.report; });
  if (entries.empty()) return;
  const CastReport total = casts.total();
  const size_t cast = entries.size();
  std::erase_if(entries, [](const TensorCast& entry) { return entry.report->max_abs_error == 0; });
  std::ranges::stable_sort(entries, std::ranges::greater{},
                           [](const TensorCast& entry) { return entry.report->max_abs_error; });
  Table table({name_column("cast"), {"from"}, {"to"}, {"max error", Align::kRight}, {""}});
  for (size_t i = 0; i < std::min(entries.size(), kCastsShown); ++i) {
    const CastReport& report = *entries[i].report;
    const bool over = report.overflowed != 0;
    table.add_row(printable(entries[i].name), dtype_name(entries[i].from), dtype_name(entries[i].to),
                  Cell(fmt::format("{:.3g}", report.max_abs_error), over ? Paint::kRed : Paint::kPlain),
                  Cell(over ? counted(report.overflowed, "value") + " became infinite" : "", Paint::kRed));
  }
  std::string& out = console.out();
  if (!table.empty()) table.append_to(out, console.output());
  if (entries.size() > kCastsShown) {
    out += fmt::format("  and {} with smaller errors\n", counted(entries.size() - kCastsShown, "tensor"));
  }
  append_painted(out, console.output(), Paint::kBold, "maximum error:");
  out += fmt::format(" {:.6g} over {} cast\n", total.max_abs_error, counted(cast, "tensor"));
  if (total.overflowed == 0) return;
  append_painted(out, console.output(), Paint::kRed, "OVERFLOW:");
  out += fmt::format(
      " {} too large for the new type became infinite; exclude tensors with --keep, or use bf16, which has the range "
      "of f32\n",
      counted(total.overflowed, "value"));
}

}  // namespace ballast::cli
