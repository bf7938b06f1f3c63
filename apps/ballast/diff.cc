#include "ballast/archive/diff.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <memory>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/flags.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/progress_bar.h"
#include "apps/ballast/streams.h"
#include "apps/ballast/table.h"
#include "apps/ballast/text.h"
#include "ballast/archive/open.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kUlpOfNan = std::numeric_limits<uint64_t>::max();

struct DiffFlags {
  std::string a;
  std::string b;
  bool all = false;
  bool json = false;
  DiffOptions options;
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
    Kind{DiffKind::kOnlyInA, "only_in_a", "only in A"},
    Kind{DiffKind::kOnlyInB, "only_in_b", "only in B"},
};

std::string_view key_of(DiffKind kind) {
  for (const Kind& row : kKinds) {
    if (row.kind == kind) return row.key;
  }
  return "";
}

Result<DiffReport> diff(const DiffFlags& flags, Console& console) {
  BALLAST_CHECK(refuse_repeated_stream({flags.a, flags.b}));
  BALLAST_TRY(const Archive a, open_input(flags.a));
  BALLAST_TRY(const Archive b, open_input(flags.b));
  ProgressBar bar(console.errors());
  DiffOptions options = flags.options;
  options.progress = bar.callback();
  return diff_archives(a, b, options);
}

// ---------------------------------------------------------------- JSON

void add_name(JsonWriter& json, std::string_view key, const DiffEntry& entry, DiffKind absent,
              const std::string& name) {
  if (entry.kind == absent) add_null(json, key);
  else add_text(json, key, name);
}

void add_entry(JsonWriter& json, const DiffEntry& entry) {
  json.begin_object();
  add_text(json, "kind", key_of(entry.kind));
  add_name(json, "name_a", entry, DiffKind::kOnlyInB, entry.name_a);
  add_name(json, "name_b", entry, DiffKind::kOnlyInA, entry.name_b);
  if (!entry.note.empty()) add_text(json, "note", entry.note);
  if (entry.kind == DiffKind::kChanged) {
    add_boolean(json, "comparable", entry.change.comparable);
    add_boolean(json, "within_tolerance", entry.change.within_tolerance);
    if (entry.change.comparable) {
      add_number(json, "differing", entry.change.differing);
      add_number(json, "elements", entry.change.elements);
      json.key("max_abs").real(entry.change.max_abs).key("max_rel").real(entry.change.max_rel);
      if (entry.change.max_ulp == kUlpOfNan) add_null(json, "max_ulp");
      else add_number(json, "max_ulp", entry.change.max_ulp);
    }
  }
  json.end_object();
}

std::string diff_json(const DiffFlags& flags, const DiffReport& report) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "a", flags.a);
  add_text(json, "b", flags.b);
  add_boolean(json, "equal", report.equal());
  json.key("counts").begin_object();
  for (const Kind& row : kKinds) add_number(json, row.key, report.count(row.kind));
  json.end_object().key("entries").begin_array();
  for (const DiffEntry& entry : report.entries) {
    if (flags.all || entry.kind != DiffKind::kSame) add_entry(json, entry);
  }
  json.end_array().end_object();
  return json.take() + '\n';
}

// ---------------------------------------------------------------- text

void print_changed(const DiffReport& report, Console& console) {
  Table table({{"name", Align::kLeft, true},
               {"differing", Align::kRight},
               {"of", Align::kRight},
               {"max abs", Align::kRight},
               {"max rel", Align::kRight},
               {"ULP", Align::kRight},
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

void print_names(const DiffReport& report, const Kind& kind, Paint paint, Console& console) {
  Table table({{"", Align::kLeft, true}, {""}});
  for (const DiffEntry& entry : report.entries) {
    if (entry.kind != kind.kind) continue;
    const std::string& name = entry.kind == DiffKind::kOnlyInB ? entry.name_b : entry.name_a;
    const bool renamed = entry.kind == DiffKind::kRenamed;
    table.add_row(Cell(printable(name), paint), renamed ? "-> " + printable(entry.name_b) : printable(entry.note));
  }
  if (table.empty()) return;
  console.heading(kind.phrase);
  table.append_to(console.out(), console.output());
}

void print_diff(const DiffFlags& flags, const DiffReport& report, Console& console) {
  Paint paint = Paint::kPlain;
  for (const Kind& kind : kKinds) {
    switch (kind.kind) {
      case DiffKind::kSame:
        if (!flags.all) continue;
        paint = Paint::kDim;
        break;
      case DiffKind::kChanged: print_changed(report, console); continue;
      case DiffKind::kRenamed: paint = Paint::kYellow; break;
      case DiffKind::kOnlyInA: paint = Paint::kRed; break;
      case DiffKind::kOnlyInB: paint = Paint::kGreen; break;
    }
    print_names(report, kind, paint, console);
  }
  std::string& out = console.out();
  if (!out.empty()) out += '\n';
  append_painted(out, console.output(), report.equal() ? Paint::kGreen : Paint::kRed,
                 report.equal() ? "equal" : "different");
  std::string_view before = ": ";
  for (const Kind& kind : kKinds) {
    const size_t count = report.count(kind.kind);
    if (count == 0) continue;
    fmt::format_to(std::back_inserter(out), "{}{} {}", std::exchange(before, ", "), grouped(count), kind.phrase);
  }
  out += '\n';
}

constexpr const char* kFooter =
    "Compares tensors by name and content, whatever the formats and the order. Exit code 0 when everything is equal, "
    "1\n"
    "when something differs; a tensor that only changed its name counts as different.\n"
    "\n"
    "Examples:\n"
    "  ballast diff model.bpk model.safetensors\n"
    "  ballast diff before.npz after.npz --rtol 1e-5 --atol 1e-8\n"
    "  ballast diff a.safetensors b.safetensors --json | jq .counts\n";

}  // namespace

RunCommand add_diff(CLI::App& program, Console& console) {
  Command command(program, "diff", "Compare two weight files by content");
  auto flags = std::make_shared<DiffFlags>();
  command.path("A", flags->a, "One file");
  command.path("B", flags->b, "The other, of any format");
  command.real("--rtol", "X", flags->options.rtol, "Values within atol + rtol * |b| count as equal");
  command.real("--atol", "X", flags->options.atol, "See --rtol");
  command.flag("--all", flags->all, "List tensors that are the same, too");
  command.threads(flags->options.threads);
  command.json(flags->json);
  command.footer(kFooter);
  return [flags, &console] {
    const Result<DiffReport> report = diff(*flags, console);
    if (!report) return console.fail(report.error(), flags->json);
    if (flags->json) console.out() += diff_json(*flags, *report);
    else print_diff(*flags, *report, console);
    return report->equal() ? kExitYes : kExitNo;
  };
}

}  // namespace ballast::cli
