#include "apps/ballast/output/checkpoints_output.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

std::string time_text(int64_t seconds) {
  // A manifest may claim any time; the calendar has only so many.
  constexpr int64_t kLast = 253'402'300'799;  // the end of the year 9999
  if (seconds < 0 || seconds > kLast) return "?";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    text += fmt::format("{}{} {:.6g}", text.empty() ? "" : ", ", printable(name), value);
  }
  return text;
}

void add_checkpoint(JsonWriter& json, const CheckpointManifest& checkpoint) {
  add_number(json, "step", checkpoint.step);
  add_number(json, "sequence", checkpoint.sequence);
  json.key("saved_at").signed_number(checkpoint.saved_at);
  add_number(json, "weights", checkpoint.weights.size());
  add_number(json, "state_tensors", checkpoint.state.size());
  add_number(json, "bytes", checkpoint.payload_bytes());
  add_number(json, "new_bytes", checkpoint.new_bytes());
  json.key("metrics").begin_object();
  for (const auto& [name, value] : checkpoint.metrics) json.key(name).real(value);
  json.end_object().key("files").begin_array();
  for (const CheckpointFile& file : checkpoint.files) json.string(file.name);
  json.end_array();
}

void add_text_list(JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_array();
  for (const std::string& text : texts) json.string(json_text(text));
  json.end_array();
}

}  // namespace

// ---------------------------------------------------------------- list

std::string checkpoint_list_json(const ListedFolder& listed) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "folder", listed.folder);
  json.key("checkpoints").begin_array();
  for (size_t i = 0; i < listed.list.checkpoints.size(); ++i) {
    json.begin_object();
    add_checkpoint(json, listed.list.checkpoints[i]);
    if (!listed.kept.empty()) {
      if (listed.kept[i].empty()) add_null(json, "kept");
      else add_text(json, "kept", listed.kept[i]);
    }
    json.end_object();
  }
  json.end_array().key("damaged").begin_array();
  for (const DamagedManifest& damaged : listed.list.damaged) {
    json.begin_object();
    add_text(json, "file", damaged.file);
    add_text(json, "why", damaged.why);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take() + '\n';
}

void print_checkpoint_list(const ListedFolder& listed, Console& console) {
  const auto& checkpoints = listed.list.checkpoints;
  Table table({{"step", Align::kRight},
               {"saved (UTC)"},
               {"size", Align::kRight},
               {"new", Align::kRight},
               {"metrics", Align::kLeft, true},
               {listed.kept.empty() ? "" : "kept because"}});
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    const CheckpointManifest& checkpoint = checkpoints[i];
    const std::string reason = listed.kept.empty() ? "" : printable(listed.kept[i]);
    table.add_row(grouped(checkpoint.step), time_text(checkpoint.saved_at), human_size(checkpoint.payload_bytes()),
                  human_size(checkpoint.new_bytes()), metrics_text(checkpoint.metrics),
                  !listed.kept.empty() && reason.empty() ? Cell("would be pruned", Paint::kYellow) : Cell(reason));
  }
  if (!table.empty()) table.append_to(console.out(), console.output());
  for (const DamagedManifest& damaged : listed.list.damaged) {
    print_line(console, Paint::kRed, "damaged", printable(damaged.why));
  }
  if (table.empty() && listed.list.damaged.empty()) {
    console.out() += fmt::format("{}: no checkpoints\n", printable(listed.folder));
  }
}

// ---------------------------------------------------------------- verify

std::string checkpoint_verify_json(const std::string& folder, const std::vector<CheckedCheckpoint>& checked) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "folder", folder);
  add_boolean(json, "sound", std::ranges::all_of(checked, [](const auto& one) { return one.damage.empty(); }));
  json.key("checkpoints").begin_array();
  for (const CheckedCheckpoint& one : checked) {
    json.begin_object();
    add_text(json, "checkpoint", one.name);
    add_boolean(json, "sound", one.damage.empty());
    add_number(json, "tensors", one.tensors);
    add_number(json, "bytes", one.bytes);
    add_text_list(json, "damage", one.damage);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take() + '\n';
}

void print_checkpoint_verify(const std::string& folder, const std::vector<CheckedCheckpoint>& checked,
                             Console& console) {
  size_t damaged = 0;
  for (const CheckedCheckpoint& one : checked) {
    if (one.damage.empty()) {
      print_line(console, Paint::kGreen, "sound  ",
                 fmt::format("{}: {}, {}", printable(one.name), counted(one.tensors, "tensor"), human_size(one.bytes)));
      continue;
    }
    ++damaged;
    print_line(console, Paint::kRed, "damaged", printable(one.name));
    for (const std::string& text : one.damage) console.out() += fmt::format("  {}\n", printable(text));
  }
  if (checked.empty()) console.out() += fmt::format("{}: no checkpoints\n", printable(folder));
  else if (damaged > 0)
    console.out() += fmt::format("{} of {} damaged\n", damaged, counted(checked.size(), "checkpoint"));
}

// ---------------------------------------------------------------- prune

std::string checkpoint_prune_json(const std::string& folder, const PruneReport& report, bool dry_run) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "folder", folder);
  add_boolean(json, "dry_run", dry_run);
  json.key("steps").numbers(report.steps);
  add_text_list(json, "files", report.files);
  add_number(json, "bytes", report.bytes);
  add_text_list(json, "notes", report.notes);
  json.end_object();
  return json.take() + '\n';
}

void print_checkpoint_prune(const PruneReport& report, bool dry_run, Console& console) {
  for (const uint64_t step : report.steps) {
    console.out() += fmt::format("  step {}\n", grouped(step));
  }
  print_line(console, Paint::kBold, dry_run ? "would remove" : "removed",
             fmt::format("{} and {}, {}", counted(report.steps.size(), "checkpoint"),
                         counted(report.files.size(), "file"), human_size(report.bytes)));
  for (const std::string& note : report.notes) print_line(console, Paint::kYellow, "note", printable(note));
}

// ---------------------------------------------------------------- export

std::string checkpoint_export_json(const std::string& folder, uint64_t step, const std::string& destination,
                                   const ConvertReport& report, bool dry_run) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "folder", folder);
  add_number(json, "step", step);
  add_text(json, "destination", destination);
  add_text(json, "format", report.target_format);
  add_boolean(json, "dry_run", dry_run);
  add_number(json, "tensors", report.tensors);
  add_number(json, "payload_bytes", report.payload_bytes);
  add_convert_report(json, report);
  json.end_object();
  return json.take() + '\n';
}

std::string burn_export_json(const std::string& folder, const TrainingSnapshot& snapshot, const std::string& module,
                             const std::string& optimizer, bool dry_run) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "folder", folder);
  add_number(json, "step", snapshot.step);
  add_text(json, "destination", module);
  add_text(json, "optimizer", optimizer);
  add_text(json, "format", "burnpack");
  add_boolean(json, "dry_run", dry_run);
  add_number(json, "tensors", snapshot.weights.size());
  add_number(json, "optimizer_tensors", snapshot.state.size());
  json.end_object();
  return json.take() + '\n';
}

void print_burn_export(const TrainingSnapshot& snapshot, const std::string& module, const std::string& optimizer,
                       bool dry_run, Console& console) {
  print_line(console, Paint::kBold, dry_run ? "would export" : "exported",
             fmt::format("step {}: {} to {}, the optimizer's {} to {} (burnpack)", grouped(snapshot.step),
                         counted(snapshot.weights.size(), "tensor"), printable(module), snapshot.state.size(),
                         printable(optimizer)));
}

void print_checkpoint_export(uint64_t step, const std::string& destination, const ConvertReport& report,
                             const ConvertOptions& options, Console& console) {
  print_line(console, Paint::kBold, options.dry_run ? "would export" : "exported",
             fmt::format("step {}: {}, {} to {} ({})", grouped(step), counted(report.tensors, "tensor"),
                         human_size(report.payload_bytes), printable(destination), report.target_format));
  print_convert_report(report, options, console);
}

}  // namespace ballast::cli
