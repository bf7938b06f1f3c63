#include "apps/ballast/output/convert_report.h"

#include <fmt/format.h>

#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/output_format.h"
#include "apps/ballast/output/remedy_text.h"
#include "apps/ballast/output/text.h"

namespace ballast::cli {

std::string loss_text(const Loss& loss) {
  std::string text = loss.tensor.empty() ? loss.what : fmt::format("tensor \"{}\": {}", loss.tensor, loss.what);
  if (loss.cast_to) text += fmt::format("; becomes {}", dtype_name(*loss.cast_to));
  else if (loss.drop) text += "; left out";
  return text + remedy_text(loss.remedies);
}

void add_convert_report(JsonWriter& json, const ConvertReport& report) {
  json.key("notes").begin_array();
  for (const std::string& note : report.notes) json.string(json_text(note));
  json.end_array().key("losses").begin_array();
  for (const Loss& loss : report.losses) {
    json.begin_object();
    if (loss.tensor.empty()) add_null(json, "tensor");
    else add_text(json, "tensor", loss.tensor);
    add_text(json, "what", loss.what + remedy_text(loss.remedies));
    if (loss.cast_to) add_text(json, "becomes", dtype_name(*loss.cast_to));
    else add_null(json, "becomes");
    add_boolean(json, "left_out", loss.drop);
    json.end_object();
  }
  json.end_array();
  add_number(json, "tied", report.tied);
  add_number(json, "tied_bytes", report.tied_bytes);
  json.key("files").begin_array();
  for (const std::string& file : report.written.files) json.string(json_text(file));
  json.end_array();
  add_number(json, "bytes", report.written.bytes);
}

void print_line(Console& console, Paint paint, std::string_view word, std::string_view text) {
  append_painted(console.out(), console.output(), paint, word);
  fmt::format_to(std::back_inserter(console.out()), " {}\n", printable(text));
}

void print_note(Console& console, Paint paint, std::string_view text) {
  if (!console.quiet()) print_line(console, paint, "note:", text);
}

void print_convert_report(const ConvertReport& report, const ConvertOptions& options, Console& console) {
  const bool dry = options.dry_run;
  for (const std::string& note : report.notes) print_note(console, Paint::kDim, note);
  for (const Loss& loss : report.losses) {
    print_line(console, Paint::kYellow, dry ? "would be lost:" : "lost:", loss_text(loss));
  }
  if (dry && !report.losses.empty() && !options.allow_lossy) {
    print_note(console, Paint::kYellow, "without --allow-lossy, nothing would be written");
  }
  if (report.written.files.size() > 1) {
    for (const std::string& file : report.written.files) print_line(console, Paint::kGreen, "wrote", file);
  }
}

}  // namespace ballast::cli
