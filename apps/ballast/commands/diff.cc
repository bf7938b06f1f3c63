#include "ballast/archive/diff.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/meta_text.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/archive/diff_metadata.h"
#include "ballast/archive/open.h"
#include "ballast/archive/trace.h"
#include "ballast/models/config/config_schema.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kUlpOfNan = std::numeric_limits<uint64_t>::max();

struct DiffFlags {
  std::string a;
  std::string b;
  bool all = false;
  bool trace = false;
  bool ignore_metadata = false;
  bool json = false;
  DiffOptions options;

  // A tolerance or a trace asks about numbers only: metadata is shown there, but decides nothing.
  bool metadata_counts() const { return !ignore_metadata && !trace && options.rtol == 0 && options.atol == 0; }
};

struct Compared {
  DiffReport report;
  MetadataReport metadata;
  bool metadata_counts = true;
  TraceReport trace;  // with --trace

  bool equal() const { return report.equal() && (metadata.equal() || !metadata_counts); }
};

struct Kind {
  DiffKind kind;
  std::string_view key;     // in --json
  std::string_view phrase;  // for people
};

constexpr std::array kKinds = {
    Kind{DiffKind::kSame, "same", "same"},
    Kind{DiffKind::kChanged, "changed", "changed"},
    Kind{DiffKind::kRenamed, "renamed", "renamed"},
    Kind{DiffKind::kTransposed, "transposed", "transposed"},
    Kind{DiffKind::kOnlyInA, "only_in_a", "only in A"},
    Kind{DiffKind::kOnlyInB, "only_in_b", "only in B"},
};

std::string_view key_of(DiffKind kind) {
  for (const Kind& row : kKinds) {
    if (row.kind == kind) return row.key;
  }
  return "";
}

Result<Compared> diff(const DiffFlags& flags, Console& console) {
  BALLAST_CHECK(refuse_repeated_stream({flags.a, flags.b}));
  BALLAST_TRY(const Archive a, open_input(flags.a));
  BALLAST_TRY(const Archive b, open_input(flags.b));
  ProgressBar bar(console.errors());
  DiffOptions options = flags.options;
  options.progress = bar.callback();
  Compared compared;
  BALLAST_CHECK(assign(compared.report, diff_archives(a, b, options)));
  if (flags.trace) compared.trace = order_trace(a, b, compared.report);
  compared.metadata_counts = flags.metadata_counts();
  if (!flags.ignore_metadata && !flags.trace)
    BALLAST_CHECK(assign(compared.metadata, diff_metadata(a, b, kModelConfigKey, options.threads, options.progress)));
  return compared;
}

// ---------------------------------------------------------------- JSON

void add_name(JsonWriter& json, std::string_view key, const DiffEntry& entry, DiffKind absent,
              const std::string& name) {
  if (entry.kind == absent) add_null(json, key);
  else add_text(json, key, name);
}

void add_measures(JsonWriter& json, const ValueChange& change) {
  add_number(json, "differing", change.differing);
  add_number(json, "elements", change.elements);
  json.key("max_abs").real(change.max_abs).key("max_rel").real(change.max_rel);
  if (change.max_ulp == kUlpOfNan) add_null(json, "max_ulp");
  else add_number(json, "max_ulp", change.max_ulp);
}

// In a trace, tensors that are the same have their measures too: the error of a step may be 0.
void add_entry(JsonWriter& json, const DiffEntry& entry, bool traced) {
  json.begin_object();
  add_text(json, "kind", key_of(entry.kind));
  add_name(json, "name_a", entry, DiffKind::kOnlyInB, entry.name_a);
  add_name(json, "name_b", entry, DiffKind::kOnlyInA, entry.name_b);
  if (!entry.note.empty()) add_text(json, "note", entry.note);
  if (entry.kind == DiffKind::kChanged || (traced && entry.kind == DiffKind::kSame)) {
    add_boolean(json, "comparable", entry.change.comparable);
    add_boolean(json, "within_tolerance", entry.change.within_tolerance);
    if (entry.change.comparable) add_measures(json, entry.change);
  }
  json.end_object();
}

void add_step(JsonWriter& json, std::string_view key, const DiffReport& report, std::optional<size_t> entry) {
  if (entry) add_text(json, key, report.entries[*entry].name_a);
  else add_null(json, key);
}

void add_trace(JsonWriter& json, const Compared& compared) {
  json.key("trace").begin_object();
  add_text(json, "order", compared.trace.by_names ? "execution" : "stored");
  add_step(json, "first_beyond", compared.report, compared.trace.first_beyond);
  add_step(json, "largest", compared.report, compared.trace.largest);
  json.key("steps").begin_array();
  for (const size_t i : compared.trace.order) add_entry(json, compared.report.entries[i], true);
  json.end_array().end_object();
}

void add_metadata_changes(JsonWriter& json, const MetadataReport& metadata) {
  json.key("metadata").begin_array();
  for (const MetadataChange& change : metadata.changes) {
    json.begin_object();
    add_text(json, "key", change.key);
    add_meta(json, "a", change.a);
    add_meta(json, "b", change.b);
    json.end_object();
  }
  json.end_array();
  add_boolean(json, "config_differs", metadata.config_differs);
}

std::string diff_json(const DiffFlags& flags, const Compared& compared) {
  const DiffReport& report = compared.report;
  JsonWriter json;
  json.begin_object();
  add_text(json, "a", flags.a);
  add_text(json, "b", flags.b);
  add_boolean(json, "equal", compared.equal());
  add_boolean(json, "tensors_equal", report.equal());
  json.key("counts").begin_object();
  for (const Kind& row : kKinds) add_number(json, row.key, report.count(row.kind));
  json.end_object().key("entries").begin_array();
  for (const DiffEntry& entry : report.entries) {
    if (flags.all || entry.kind != DiffKind::kSame) add_entry(json, entry, false);
  }
  json.end_array();
  if (flags.trace) add_trace(json, compared);
  if (!flags.ignore_metadata && !flags.trace) add_metadata_changes(json, compared.metadata);
  json.end_object();
  return json.take() + '\n';
}

// ---------------------------------------------------------------- text

void print_changed(const DiffReport& report, Console& console) {
  Table table({name_column("name"),
               {"differing", Align::kRight},
               spare_column("of", 3),
               {"max abs", Align::kRight},
               spare_column("max rel", 1),
               spare_column("ULP", 2),
               {""}});
  for (const DiffEntry& entry : report.entries) {
    if (entry.kind != DiffKind::kChanged) continue;
    const ValueChange& change = entry.change;
    std::string remark = printable(entry.note);
    if (change.within_tolerance) remark += remark.empty() ? "within tolerance" : ", within tolerance";
    if (change.comparable) {
      table.add_row(printable(entry.name_a), grouped(change.differing), grouped(change.elements),
                    fmt::format("{:.3g}", change.max_abs), fmt::format("{:.3g}", change.max_rel),
                    change.max_ulp == kUlpOfNan ? "NaN" : grouped(change.max_ulp),
                    Cell(std::move(remark), Paint::kDim));
    } else {
      table.add_row(printable(entry.name_a), "", "", "", "", "", Cell(std::move(remark), Paint::kYellow));
    }
  }
  if (table.empty()) return;
  console.heading("changed");
  table.append_to(console.out(), console.output());
}

// What became of a tensor that has one on the other side.
std::string whereabouts(const DiffEntry& entry) {
  std::string text;
  if (entry.kind == DiffKind::kRenamed || entry.name_a != entry.name_b) text = "-> " + printable(entry.name_b);
  if (!entry.note.empty()) text += (text.empty() ? "" : ", ") + printable(entry.note);
  return text;
}

void print_names(const DiffReport& report, const Kind& kind, Paint paint, Console& console) {
  Table table({name_column(""), {""}});
  for (const DiffEntry& entry : report.entries) {
    if (entry.kind != kind.kind) continue;
    const bool one_sided = entry.kind == DiffKind::kOnlyInA || entry.kind == DiffKind::kOnlyInB;
    const std::string& name = entry.kind == DiffKind::kOnlyInB ? entry.name_b : entry.name_a;
    table.add_row(Cell(printable(name), paint), one_sided ? "" : whereabouts(entry));
  }
  if (table.empty()) return;
  console.heading(kind.phrase);
  table.append_to(console.out(), console.output());
}

void print_kinds(const DiffFlags& flags, const DiffReport& report, Console& console) {
  Paint paint = Paint::kPlain;
  for (const Kind& kind : kKinds) {
    switch (kind.kind) {
      case DiffKind::kSame:
        if (!flags.all) continue;
        paint = Paint::kDim;
        break;
      case DiffKind::kChanged: print_changed(report, console); continue;
      case DiffKind::kRenamed:
      case DiffKind::kTransposed: paint = Paint::kYellow; break;
      case DiffKind::kOnlyInA: paint = Paint::kRed; break;
      case DiffKind::kOnlyInB: paint = Paint::kGreen; break;
    }
    print_names(report, kind, paint, console);
  }
}

// How much larger the error is than at the last step that had one.
std::string growth(double error, double& before) {
  if (error == 0 || !std::isfinite(error)) return "";
  const std::string text = before == 0 ? "" : fmt::format("x{:.3g}", error / before);
  before = error;
  return text;
}

void print_steps(const Compared& compared, Console& console) {
  Table table({{"step", Align::kRight},
               name_column("name"),
               {"max abs", Align::kRight},
               spare_column("max rel", 2),
               spare_column("growth", 1),
               {""}});
  double before = 0;
  size_t step = 0;
  for (const size_t i : compared.trace.order) {
    const DiffEntry& entry = compared.report.entries[i];
    const ValueChange& change = entry.change;
    const bool one_sided = entry.kind == DiffKind::kOnlyInA || entry.kind == DiffKind::kOnlyInB;
    const bool measured = change.comparable && (entry.kind == DiffKind::kSame || entry.kind == DiffKind::kChanged);
    const bool first = compared.trace.first_beyond == i;
    std::string remark;
    for (const Kind& kind : kKinds) {
      if (kind.kind == entry.kind && !measured) remark = kind.phrase;
    }
    if (!one_sided && !whereabouts(entry).empty()) remark += (remark.empty() ? "" : " ") + whereabouts(entry);
    if (change.within_tolerance && change.max_abs != 0)
      remark += remark.empty() ? "within tolerance" : ", within tolerance";
    if (first) remark = remark.empty() ? "<- first beyond the tolerance" : "<- first beyond the tolerance: " + remark;
    table.add_row(std::to_string(++step), printable(entry.kind == DiffKind::kOnlyInB ? entry.name_b : entry.name_a),
                  measured ? fmt::format("{:.3g}", change.max_abs) : "",
                  measured ? fmt::format("{:.3g}", change.max_rel) : "", measured ? growth(change.max_abs, before) : "",
                  Cell(std::move(remark), first       ? Paint::kRed
                                          : one_sided ? Paint::kYellow
                                                      : Paint::kDim));
  }
  table.append_to(console.out(), console.output());
}

void print_compared_traces(const Compared& compared, Console& console) {
  const auto& entries = compared.report.entries;
  const TraceReport& trace = compared.trace;
  console.heading(trace.by_names ? "steps in order of execution, inferred from their names"
                                 : "steps in the order of A");
  print_steps(compared, console);
  std::string& out = console.out();
  out += '\n';
  if (!trace.first_beyond) {
    out += "no step differs beyond the tolerance\n";
    return;
  }
  const DiffEntry& first = entries[*trace.first_beyond];
  out += fmt::format("first beyond the tolerance: {}", printable(first.name_a));
  if (first.change.comparable) out += fmt::format(", max abs {:.3g}", first.change.max_abs);
  if (trace.largest) {
    const DiffEntry& largest = entries[*trace.largest];
    out += fmt::format("; largest: {}, max abs {:.3g}", printable(largest.name_a), largest.change.max_abs);
  }
  out += '\n';
}

void print_metadata_changes(const MetadataReport& metadata, Console& console) {
  constexpr size_t kLongest = 60;
  if (metadata.equal()) return;
  console.heading("metadata");
  Table table({{"key"}, {"A"}, {"B"}});
  const auto cell = [](const std::optional<MetaValue>& value) {
    return Cell(shorten(meta_text(value), kLongest), value ? Paint::kPlain : Paint::kDim);
  };
  for (const MetadataChange& change : metadata.changes)
    table.add_row(shorten(printable(change.key), kLongest), cell(change.a), cell(change.b));
  if (metadata.config_differs) table.add_row("(model config)", "differs", "");
  table.append_to(console.out(), console.output());
}

std::string_view verdict_of(const Compared& compared) {
  if (!compared.report.equal()) return "different";
  return compared.metadata.equal() ? "equal" : "tensors equal, metadata differs";
}

void print_diff(const DiffFlags& flags, const Compared& compared, Console& console) {
  const DiffReport& report = compared.report;
  std::string& out = console.out();
  if (!console.quiet()) {
    if (flags.trace) print_compared_traces(compared, console);
    else print_kinds(flags, report, console);
    print_metadata_changes(compared.metadata, console);
    if (!out.empty()) out += '\n';
  }
  append_painted(out, console.output(), compared.equal() ? Paint::kGreen : Paint::kRed, verdict_of(compared));
  std::string_view before = ": ";
  for (const Kind& kind : kKinds) {
    const size_t count = report.count(kind.kind);
    if (count == 0) continue;
    fmt::format_to(std::back_inserter(out), "{}{} {}", std::exchange(before, ", "), grouped(count), kind.phrase);
  }
  out += '\n';
}

constexpr const char* kDiffFooter =
    "Compares tensors by name and content, whatever the formats and the order, and then metadata and config. Exit\n"
    "code 0 if everything is equal, 1 if anything differs. A renamed tensor or a transposed matrix is a difference.\n"
    "Metadata does not count with --ignore-metadata, a tolerance or --trace. A converted file that carries its origin\n"
    "counts as the file it was made from. --trace treats the tensors as steps of a computation and shows where two\n"
    "runs diverge.\n"
    "\n"
    "Examples:\n"
    "  ballast diff model.bpk model.safetensors\n"
    "  ballast diff before.npz after.npz --rtol 1e-5 --atol 1e-8\n"
    "  ballast diff a.safetensors b.safetensors --json | jq .counts\n"
    "  ballast diff run1.tensors run2.tensors --trace --rtol 1e-4\n";

}  // namespace

RunCommand add_diff(CLI::App& program, Console& console) {
  Command command(program, "diff", "Compare two files by content");
  auto flags = std::make_shared<DiffFlags>();
  command.path("A", flags->a, "First file").or_model();
  command.path("B", flags->b, "Second file, of any format").or_model();
  command.real("--rtol", "X", flags->options.rtol, "Treat values within atol + rtol * |b| as equal");
  command.real("--atol", "X", flags->options.atol, "See --rtol");
  command.flag("--all", flags->all, "Also list identical tensors");
  command.flag("--ignore-metadata", flags->ignore_metadata, "Compare tensors only");
  command.flag("--trace", flags->trace, "List all tensors as steps of a computation, with the error of each");
  command.threads(flags->options.threads);
  command.json(flags->json);
  command.footer(kDiffFooter);
  return [flags, &console] {
    const Result<Compared> compared = diff(*flags, console);
    if (!compared) return console.fail(compared.error(), flags->json);
    if (flags->json) console.out() += diff_json(*flags, *compared);
    else print_diff(*flags, *compared, console);
    return compared->equal() ? kExitYes : kExitNo;
  };
}

}  // namespace ballast::cli
