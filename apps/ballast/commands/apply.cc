#include "ballast/edit/apply.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/edit_flags.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/output_format.h"
#include "apps/ballast/output/remedy_text.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/archive/convert.h"
#include "ballast/archive/open.h"

namespace ballast::cli {

namespace {

struct ApplyFlags {
  std::string weights;
  std::string model;
  std::string destination;
  std::vector<std::string> only;
  std::vector<std::string> exclude;
  bool allow_partial = false;
  bool no_validate = false;
  bool cast = false;
  bool keep_ids = false;
  bool all = false;
  bool json = false;
  EditFlags edits;
  ConvertOptions convert;
  std::shared_ptr<CastLog> casts = std::make_shared<CastLog>();
  std::shared_ptr<ApplyResult> result = std::make_shared<ApplyResult>();
};

// ---------------------------------------------------------------- doing it

Result<PathFilter> make_filter(const ApplyFlags& flags) {
  if (flags.only.empty() && flags.edits.exact.empty()) return PathFilter::all();
  PathFilter filter;
  for (const std::string& expression : flags.only) BALLAST_CHECK(filter.add_pattern(expression));
  for (const std::string& name : flags.edits.exact) filter.add_path(name);
  return filter;
}

Result<ApplyOptions> make_options(const ApplyFlags& flags, const Command& command) {
  ApplyOptions options;
  BALLAST_TRY(options.filter, make_filter(flags));
  for (const std::string& expression : flags.exclude) BALLAST_CHECK(options.exclude.add_pattern(expression));
  options.adapt = adapt_options(flags.edits);
  if (flags.edits.adapters.size() > 1) {
    return make_error(ErrorCode::kInvalidArgument, "apply accepts one --adapt; for more, convert the weights first");
  }
  if (!flags.edits.adapters.empty()) {
    BALLAST_CHECK(assign(options.adapter, choose_adapter(flags.edits.adapters.front())));
  }
  BALLAST_TRY(options.edits, make_edits(command, flags.edits, options.adapt, flags.casts, EditScope::kNames));
  options.allow_partial = flags.allow_partial;
  options.validate = !flags.no_validate;
  options.skip_enum_variants = flags.edits.skip_enum_variants;
  options.restore_ids = !flags.keep_ids;
  options.cast_to_target = flags.cast;
  options.casts = flags.casts;
  return options;
}

Result<const FormatDriver*> format_of(const ApplyFlags& flags, const Archive& model) {
  const std::string file_name = std::filesystem::path(flags.destination).filename().string();
  if (const FormatDriver* format = format_for_extension(file_name)) return format;
  return choose_format(model.description().format, flags.destination);
}

Result<ConvertReport> apply(ApplyFlags& flags, const Command& command, Console& console) {
  BALLAST_TRY(ApplyOptions options, make_options(flags, command));
  if (is_stream(flags.destination)) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "apply cannot write to standard output; write a file, then use `ballast convert FILE - --to FORMAT`");
  }
  BALLAST_CHECK(refuse_repeated_stream({flags.model, flags.weights}));
  BALLAST_TRY(const Archive model, open_input(flags.model, FileAccess::kPositional));
  BALLAST_TRY(const Archive weights, open_input(flags.weights, FileAccess::kPositional));
  BALLAST_TRY(const FormatDriver* format, format_of(flags, model));
  ProgressBar bar(console.errors());
  flags.convert.write.progress = bar.callback();
  // Ids may travel in an origin.
  std::vector<std::string> notes;
  WritePlan source = make_plan(weights);
  BALLAST_CHECK(restore_origin(source, notes, 0, flags.convert.write.progress));
  flags.convert.edits = {apply_weights(std::move(source), std::move(options), flags.result)};
  BALLAST_TRY(ConvertReport report, convert_archive(model, flags.destination, *format, flags.convert));
  for (const std::string& note : notes) report.notes.push_back("weights: " + note);
  return report;
}

// ---------------------------------------------------------------- what came of it

void add_names(JsonWriter& json, std::string_view key, const std::vector<std::string>& names) {
  json.key(key).begin_array();
  for (const std::string& name : names) json.string(json_text(name));
  json.end_array();
}

std::string apply_json(const ApplyFlags& flags, const Result<ConvertReport>& report) {
  const ApplyResult& result = *flags.result;
  JsonWriter json;
  json.begin_object();
  if (!report) add_error(json, "error", report.error());
  add_text(json, "weights", flags.weights);
  add_text(json, "model", flags.model);
  add_text(json, "destination", flags.destination);
  add_boolean(json, "dry_run", flags.convert.dry_run);
  add_names(json, "applied", result.applied);
  add_names(json, "skipped", result.skipped);
  add_names(json, "missing", result.missing);
  add_names(json, "unused", result.unused);
  json.key("errors").begin_array();
  for (const ApplyError& error : result.errors) {
    json.begin_object();
    add_text(json, "tensor", error.name);
    add_text(json, "message", error.message);
    json.end_object();
  }
  json.end_array().key("near_misses").begin_array();
  for (const NearMiss& miss : result.near_misses) {
    json.begin_object();
    add_text(json, "missing", miss.missing);
    add_text(json, "candidate", miss.candidate);
    json.key("similarity").real(miss.similarity);
    json.end_object();
  }
  json.end_array();
  add_names(json, "notes", report ? report->notes : result.notes);
  if (report) {
    add_text(json, "format", report->target_format);
    add_names(json, "files", report->written.files);
    add_number(json, "bytes", report->written.bytes);
  }
  add_casts(json, *flags.casts);
  json.end_object();
  return json.take() + '\n';
}

void print_list(Console& console, std::string_view title, Paint paint, const std::vector<std::string>& names,
                const std::function<std::string(const std::string&)>& remark = {}) {
  if (names.empty()) return;
  Table table({name_column(""), {""}});
  for (const std::string& name : names) {
    table.add_row(Cell(printable(name), paint), remark ? Cell(remark(name), Paint::kDim) : Cell(""));
  }
  console.heading(title);
  table.append_to(console.out(), console.output());
}

void print_result(const ApplyFlags& flags, Console& console) {
  const ApplyResult& result = *flags.result;
  if (flags.all) {
    print_list(console, "applied", Paint::kGreen, result.applied);
    print_list(console, "skipped by the filter", Paint::kDim, result.skipped);
  }
  auto miss = result.near_misses.begin();
  print_list(console, "missing from the weights", Paint::kYellow, result.missing, [&](const std::string& name) {
    if (miss == result.near_misses.end() || miss->missing != name) return std::string();
    return fmt::format("did you mean {}?", printable((miss++)->candidate));
  });
  print_list(console, "unused weights", Paint::kYellow, result.unused);
  std::vector<std::string> names;
  for (const ApplyError& error : result.errors) names.push_back(error.name);
  auto error = result.errors.begin();
  print_list(console, "do not fit", Paint::kRed, names,
             [&](const std::string&) { return printable((error++)->message); });
  if (!console.out().empty()) console.out() += '\n';
  console.out() += fmt::format("{} applied, {} skipped, {} missing, {} unused, {}\n", grouped(result.applied.size()),
                               grouped(result.skipped.size()), grouped(result.missing.size()),
                               grouped(result.unused.size()), counted(result.errors.size(), "misfit"));
}

void print_apply(const ApplyFlags& flags, const ConvertReport& report, Console& console) {
  print_result(flags, console);
  for (const std::string& note : report.notes) print_note(console, Paint::kDim, note);
  for (const Loss& loss : report.losses)
    print_line(console, Paint::kYellow, flags.convert.dry_run ? "would be lost:" : "lost:", loss_text(loss));
  if (flags.convert.dry_run) print_line(console, Paint::kBold, "would write", flags.destination);
  for (const std::string& file : report.written.files) print_line(console, Paint::kGreen, "wrote", file);
  print_casts(*flags.casts, console);
}

// The tables have said which tensors; this says what to do.
std::string refusal(const ApplyFlags& flags) {
  const ApplyResult& result = *flags.result;
  if (!flags.no_validate && !result.errors.empty()) {
    return fmt::format("{}, so nothing was written; --no-validate keeps MODEL's values for such tensors",
                       counted(result.errors.size(), "misfit"));
  }
  return fmt::format(
      "{} missing from the weights, so nothing was written; --allow-partial keeps MODEL's values for them",
      counted(result.missing.size(), "tensor"));
}

constexpr const char* kApplyAbout =
    "Replaces the tensors of MODEL with those of the same name in WEIGHTS. OUT has MODEL's names, order, metadata\n"
    "and format (or the format of its own extension). A dtype of the same kind is accepted and kept; --cast converts\n"
    "to MODEL's. If WEIGHTS lacks a tensor or has one that does not fit, the command stops with exit code 2 before\n"
    "writing anything, unless --allow-partial or --no-validate lets MODEL's values stay.\n";

constexpr const char* kApplyExamples =
    "Examples:\n"
    "  ballast apply finetuned.safetensors --to model.bpk -o new.bpk\n"
    "  ballast apply torch.safetensors --to model.bpk -o new.bpk --adapt pytorch-to-burn --rename '^net\\.='\n"
    "  ballast apply backbone.safetensors --to model.bpk -o new.bpk --only '^encoder\\.' --allow-partial\n"
    "  ballast apply weights.npz --to model.safetensors -o new.safetensors --dry-run --json | jq .missing\n";

}  // namespace

RunCommand add_apply(CLI::App& program, Console& console) {
  Command command(program, "apply", "Load weights into a model where names and shapes match");
  auto flags = std::make_shared<ApplyFlags>();
  command.path("WEIGHTS", flags->weights, "File with the new values");
  command.text("--to", "MODEL", flags->model, "Model that receives the values").required();
  command.text("-o,--output", "OUT", flags->destination, "Output file").required();
  command.patterns("--only", flags->only, "Set only tensors of MODEL whose name matches; may be repeated");
  command.patterns("--exclude", flags->exclude, "Skip tensors of MODEL whose name matches; may be repeated");
  add_exact_option(command, flags->edits);
  add_name_flags(command, flags->edits);
  add_adapt_flags(command, flags->edits);
  command.flag("--skip-enum-variants", flags->edits.skip_enum_variants,
               "MODEL's a.BaseConv.weight takes a.weight of WEIGHTS");
  command.flag("--allow-partial", flags->allow_partial, "Keep the value of tensors that WEIGHTS lacks");
  command.flag("--no-validate", flags->no_validate, "Keep the value of tensors that do not fit");
  command.flag("--cast", flags->cast, "Convert values to the dtype of MODEL");
  command.flag("--keep-ids", flags->keep_ids, "Keep MODEL's parameter ids even if WEIGHTS has its own");
  command.flag("--dry-run", flags->convert.dry_run, "Report what would be applied without writing");
  command.flag("--overwrite", flags->convert.write.commit.overwrite, "Replace an existing OUT");
  command.flag("--all", flags->all, "Also list tensors that were applied or skipped");
  command.json(flags->json);
  command.footer(fmt::format("{}\n{}{}", kApplyAbout, adapters_text(), kApplyExamples));
  return [flags, command, &console] {
    const Result<ConvertReport> report = apply(*flags, command, console);
    if (report) {
      if (flags->json) console.out() += apply_json(*flags, report);
      else print_apply(*flags, *report, console);
      return kExitYes;
    }
    if (!flags->result->refused) return console.fail(report.error(), flags->json);
    if (flags->json) {
      console.complain(error_text(report.error()));
      console.out() += apply_json(*flags, report);
    } else {
      print_result(*flags, console);
      console.complain(refusal(*flags));
    }
    return exit_code_for(report.error().code);
  };
}

}  // namespace ballast::cli
