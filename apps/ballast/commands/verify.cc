#include "ballast/archive/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/finding_output.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"

namespace ballast::cli {

namespace {

struct VerifyFlags {
  std::vector<std::string> paths;
  VerifyLevel level = VerifyLevel::kStructure;
  bool json = false;
  unsigned threads = 0;
};

void add_report(JsonWriter& json, const VerifyReport& report) {
  if (report.format.empty()) add_null(json, "format");
  else add_text(json, "format", report.format);
  add_boolean(json, "sound", report.sound());
  add_findings(json, report.findings);
}

void print_report(const std::string& path, const VerifyReport& report, Console& console) {
  std::string& out = console.out();
  append_painted(out, console.output(), Paint::kBold, printable(path));
  fmt::format_to(std::back_inserter(out), ": {}", report.format.empty() ? "unreadable" : report.format);
  out += ", ";
  if (report.sound()) append_painted(out, console.output(), Paint::kGreen, "sound");
  else append_painted(out, console.output(), Paint::kRed, "not sound");
  // A note, such as that there is no manifest to compare with, is no finding.
  const auto notes = static_cast<size_t>(std::ranges::count(report.findings, Severity::kNote, &Finding::severity));
  if (report.findings.size() > notes) out += ", " + counted(report.findings.size() - notes, "finding");
  if (notes != 0) out += ", " + counted(notes, "note");
  out += '\n';
  if (report.findings.empty()) return;
  print_findings(report.findings, console);
}

// Exit code 2 tells more than 1, which tells more than 0.
int worse(int a, int b) { return std::max(a, b); }

Result<VerifyReport> verify_input(const std::string& path, const VerifyFlags& flags, Console& console) {
  if (!reads_once(path)) {
    ProgressBar bar(console.errors());
    return verify_archive(path, {flags.level, flags.threads, bar.callback()});
  }
  BALLAST_TRY(const ResolvedPath resolved, resolve_input(path, FileAccess::kPositional));
  ProgressBar bar(console.errors());
  return verify_archive(resolved.request, {flags.level, flags.threads, bar.callback()});
}

int verify(const VerifyFlags& flags, Console& console) {
  if (Status repeated = refuse_repeated_stream(flags.paths); !repeated)
    return console.fail(repeated.error(), flags.json);
  int outcome = kExitYes;
  JsonWriter json;
  json.begin_object();
  add_text(json, "level", flags.level == VerifyLevel::kContent ? "content" : "structure");
  json.key("files").begin_array();
  for (const std::string& path : flags.paths) {
    const Result<VerifyReport> report = verify_input(path, flags, console);
    json.begin_object();
    add_text(json, "path", path);
    if (report) {
      add_report(json, *report);
      if (!flags.json && !(console.quiet() && report->sound())) print_report(path, *report, console);
      outcome = worse(outcome, report->sound() ? kExitYes : kExitNo);
    } else {
      add_error(json, "error", report.error());
      outcome = worse(outcome, console.fail(report.error()));
    }
    json.end_object();
    console.flush();  // a file's report is shown before the next one is read
    if (outcome == kExitInterrupted) break;
  }
  json.end_array();
  add_boolean(json, "sound", outcome == kExitYes);
  json.end_object();
  if (flags.json) console.out() = json.take() + '\n';
  return outcome;
}

constexpr const char* kVerifyFooter =
    "Lists every problem with its byte offset, not just the first. A warning is something that the format's own\n"
    "reader may accept silently. A file with a warning or an error is not sound, and the exit code is 1; notes do not\n"
    "count.\n"
    "\n"
    "Levels:\n"
    "  structure  headers, extents and names\n"
    "  content    also checksums, non-finite values, the digests in <file>.ballast.json, duplicate tensors\n"
    "\n"
    "Examples:\n"
    "  ballast verify model.safetensors\n"
    "  ballast verify --level content checkpoints/*.bpk\n"
    "  ballast verify model.npz --json\n";

}  // namespace

RunCommand add_verify(CLI::App& program, Console& console) {
  Command command(program, "verify", "Check files for damage");
  auto flags = std::make_shared<VerifyFlags>();
  command.paths("PATH", flags->paths, "Files to check").or_model();
  command.choice("--level", "LEVEL", flags->level,
                 {{"structure", VerifyLevel::kStructure}, {"content", VerifyLevel::kContent}},
                 "What to check: structure (default) or content");
  command.threads(flags->threads);
  command.json(flags->json);
  command.footer(kVerifyFooter);
  return [flags, &console] { return verify(*flags, console); };
}

}  // namespace ballast::cli
