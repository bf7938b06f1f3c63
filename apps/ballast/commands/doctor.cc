#include "ballast/archive/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/output_flags.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/finding_output.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/output_format.h"
#include "apps/ballast/output/remedy_text.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

constexpr size_t kRow = 16;

struct DoctorFlags {
  std::string source;
  OutputFlags rescue;
  bool json = false;
};

struct Visit {
  Diagnosis diagnosis;
  std::optional<ConvertReport> rescued;
};

Result<Visit> visit(DoctorFlags& flags, const Output& output, Console& console) {
  Visit result;
  std::error_code none;
  const bool dangling = !reads_once(flags.source) && std::filesystem::is_symlink(flags.source, none) &&
                        !std::filesystem::exists(flags.source, none);
  if (dangling) {
    BALLAST_TRY(result.diagnosis, diagnose(flags.source));
    return result;
  }
  BALLAST_TRY(const ResolvedPath resolved, resolve_input(flags.source, FileAccess::kPositional));
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.rescue, output, bar));
  const ConvertOptions& options = flags.rescue.options;
  if (flags.rescue.path.empty()) {
    BALLAST_TRY(result.diagnosis,
                diagnose(resolved.request, {.threads = options.threads, .progress = options.write.progress}));
    return result;
  }
  BALLAST_CHECK(refuse_same_file(flags.source, flags.rescue));
  BALLAST_TRY(const FormatDriver* format, choose_format(flags.rescue.format, flags.rescue.path));
  BALLAST_TRY(RescueReport report, rescue(resolved.request, flags.rescue.path, *format, options));
  result.diagnosis = std::move(report.diagnosis);
  result.rescued = std::move(report.written);
  return result;
}

// ---------------------------------------------------------------- JSON

void add_text_or_null(JsonWriter& json, std::string_view key, const std::string& text) {
  if (text.empty()) add_null(json, key);
  else add_text(json, key, text);
}

std::string doctor_json(const DoctorFlags& flags, const Visit& visit) {
  const Diagnosis& diagnosis = visit.diagnosis;
  JsonWriter json;
  json.begin_object();
  add_text(json, "path", flags.source);
  add_text(json, "verdict", verdict_name(diagnosis.verdict));
  add_text_or_null(json, "format", diagnosis.format);
  add_text_or_null(json, "nearest_because", diagnosis.nearest);
  add_text_or_null(json, "content", diagnosis.foreign ? diagnosis.foreign->kind : std::string());
  add_text(json, "what", diagnosis.what);
  add_text_or_null(json, "cause", diagnosis.cause);
  add_text_or_null(json, "advice", diagnosis.advice + remedy_text(diagnosis.remedies));
  add_number(json, "bytes", diagnosis.size);
  if (diagnosis.offset) add_number(json, "offset", *diagnosis.offset);
  else add_null(json, "offset");
  add_text(json, "excerpt", to_hex(diagnosis.excerpt));
  add_number(json, "excerpt_offset", diagnosis.excerpt_offset);
  add_findings(json, diagnosis.findings);
  json.key("rescue").begin_object();
  add_number(json, "tensors", diagnosis.sound_tensors);
  add_number(json, "payload_bytes", diagnosis.sound_bytes);
  json.key("lost").begin_array();
  for (const LostTensor& lost : diagnosis.lost) {
    json.begin_object();
    add_text(json, "name", lost.name);
    add_text(json, "code", lost.code);
    add_text(json, "why", lost.why);
    json.end_object();
  }
  json.end_array();
  if (visit.rescued) {
    add_text(json, "destination", flags.rescue.path);
    add_convert_report(json, *visit.rescued);
  }
  json.end_object().end_object();
  return json.take() + '\n';
}

// ---------------------------------------------------------------- text

void print_excerpt(const Diagnosis& diagnosis, Console& console) {
  if (diagnosis.excerpt.empty() || !diagnosis.offset) return;
  console.heading(fmt::format("around byte {}", *diagnosis.offset));
  std::string& out = console.out();
  for (size_t at = 0; at < diagnosis.excerpt.size(); at += kRow) {
    const uint64_t row = diagnosis.excerpt_offset + at;
    const size_t length = std::min(kRow, diagnosis.excerpt.size() - at);
    const bool here = *diagnosis.offset >= row && *diagnosis.offset < row + kRow;
    std::string line = fmt::format("{} {:010x} ", here ? ">" : " ", row);
    std::string letters;
    bool marked = false;
    for (size_t i = 0; i < length; ++i) {
      const auto byte = std::to_integer<unsigned char>(diagnosis.excerpt[at + i]);
      const bool closes = std::exchange(marked, row + i == *diagnosis.offset);
      line += fmt::format("{}{:02x}", marked ? '[' : closes ? ']' : ' ', byte);
      letters += byte >= 0x20 && byte < 0x7f ? static_cast<char>(byte) : '.';
    }
    line += marked ? ']' : ' ';
    line.append(3 * (kRow - length) + 1, ' ');
    append_painted(out, console.output(), here ? Paint::kYellow : Paint::kPlain, line + letters);
    out += '\n';
  }
  if (*diagnosis.offset == diagnosis.excerpt_offset + diagnosis.excerpt.size()) out += "> the file ends here\n";
}

// One finding is what was said already.
void print_first_findings(const Diagnosis& diagnosis, Console& console) {
  constexpr size_t kShown = 20;
  if (diagnosis.findings.size() < 2) return;
  console.heading("findings");
  const auto end = diagnosis.findings.begin() + static_cast<ptrdiff_t>(std::min(diagnosis.findings.size(), kShown));
  print_findings({diagnosis.findings.begin(), end}, console);
  if (diagnosis.findings.size() > kShown) {
    console.out() +=
        fmt::format("  and {} more; ballast verify lists all\n", grouped(diagnosis.findings.size() - kShown));
  }
}

void print_lost(const Diagnosis& diagnosis, Console& console) {
  constexpr size_t kShown = 20;
  if (diagnosis.lost.empty()) return;
  console.heading(fmt::format("lost: {}", counted(diagnosis.lost.size(), "tensor")));
  Table table({name_column(""), {""}});
  for (size_t i = 0; i < std::min(diagnosis.lost.size(), kShown); ++i) {
    table.add_row(Cell(printable(diagnosis.lost[i].name), Paint::kRed), printable(diagnosis.lost[i].code));
  }
  table.append_to(console.out(), console.output());
  if (diagnosis.lost.size() > kShown) {
    console.out() += fmt::format("  and {} more; --json lists all\n", grouped(diagnosis.lost.size() - kShown));
  }
}

Paint verdict_paint(Verdict verdict) {
  if (verdict == Verdict::kSound) return Paint::kGreen;
  return verdict == Verdict::kFlawed ? Paint::kYellow : Paint::kRed;
}

void print_visit(const DoctorFlags& flags, const Visit& visit, Console& console) {
  const Diagnosis& diagnosis = visit.diagnosis;
  std::string& out = console.out();
  append_painted(out, console.output(), Paint::kBold, printable(flags.source));
  out += ": ";
  if (!diagnosis.format.empty()) out += diagnosis.nearest.empty() ? diagnosis.format + ", " : "";
  append_painted(out, console.output(), verdict_paint(diagnosis.verdict), verdict_name(diagnosis.verdict));
  out += fmt::format(", {} bytes\n", grouped(diagnosis.size));
  print_line(console, Paint::kBold, "what: ", diagnosis.what);
  if (!diagnosis.nearest.empty() && !diagnosis.foreign) {
    print_line(console, Paint::kBold, "nearest:", fmt::format("{} ({})", diagnosis.format, diagnosis.nearest));
  }
  if (!diagnosis.cause.empty()) print_line(console, Paint::kBold, "cause:", diagnosis.cause);
  if (!diagnosis.advice.empty())
    print_line(console, Paint::kBold, "try:  ", diagnosis.advice + remedy_text(diagnosis.remedies));
  print_excerpt(diagnosis, console);
  print_first_findings(diagnosis, console);
  print_lost(diagnosis, console);
  if (diagnosis.verdict != Verdict::kSound && diagnosis.sound_tensors != 0) {
    console.heading("rescue");
    out += fmt::format("  {}, {} can be saved{}\n", counted(diagnosis.sound_tensors, "tensor"),
                       human_size(diagnosis.sound_bytes), visit.rescued ? "" : ": --rescue OUT");
  }
  if (!visit.rescued) return;
  print_line(console, Paint::kGreen, "  wrote",
             fmt::format("{} ({}): {}", flags.rescue.path, visit.rescued->target_format,
                         counted(visit.rescued->tensors, "tensor")));
  print_convert_report(*visit.rescued, flags.rescue.options, console);
}

// With --rescue the question is whether everything was saved, without it whether the file is well.
int exit_code_of(const Visit& visit) {
  if (visit.rescued) return visit.diagnosis.is_complete() ? kExitYes : kExitNo;
  switch (visit.diagnosis.verdict) {
    case Verdict::kSound: return kExitYes;
    case Verdict::kUnreadable:
    case Verdict::kUnknown: return kExitFailed;
    default: return kExitNo;
  }
}

constexpr const char* kDoctorFooter =
    "Explains what a file is, where it is damaged, the likely cause, and which tensors can be saved. Exit code 0 if\n"
    "nothing is wrong, 1 if the problem could be explained, 2 if nothing is known about the file or the disk failed.\n"
    "--rescue writes the tensors that are intact; exit code 1 then means that some were lost.\n"
    "\n"
    "Examples:\n"
    "  ballast doctor model.safetensors\n"
    "  ballast doctor cut.safetensors --rescue saved.safetensors\n"
    "  ballast doctor download.bin --json | jq -r .cause\n";

}  // namespace

RunCommand add_doctor(CLI::App& program, Console& console) {
  Command command(program, "doctor", "Diagnose an unreadable file and rescue its intact tensors");
  auto flags = std::make_shared<DoctorFlags>();
  ConvertOptions& options = flags->rescue.options;
  command.path("PATH", flags->source, "File to examine; - is standard input").or_model();
  command.text("--rescue", "OUT", flags->rescue.path, "Write the intact tensors to this file");
  command.text("--to", "FORMAT", flags->rescue.format, "Format of OUT (default: by its extension)");
  command.text("--config", "FILE", flags->rescue.config_path, "Read the model config (JSON) for formats that need one");
  command.flag("--allow-lossy", options.allow_lossy, "Continue if OUT cannot store something, and report the loss");
  command.flag("--overwrite", options.write.commit.overwrite, "Replace an existing OUT");
  command.threads(options.threads);
  command.json(flags->json);
  command.footer(kDoctorFooter);
  return [flags, &console] {
    int code = kExitYes;
    const int failure = write_through(flags->rescue, flags->json, console, [&](const Output& output) -> Status {
      BALLAST_TRY(const Visit result, visit(*flags, output, console));
      if (flags->json) console.out() += doctor_json(*flags, result);
      else print_visit(*flags, result, console);
      code = exit_code_of(result);
      return {};
    });
    return failure != kExitYes ? failure : code;
  };
}

}  // namespace ballast::cli
