// What commands that write an archive say about it.
#pragma once

#include <string>

#include "apps/ballast/terminal/console.h"
#include "ballast/archive/convert.h"
#include "ballast/base/json.h"

namespace ballast::cli {

// "tensor \"head\": dtype i64 has no name in gptrs-tensors; becomes i32"
std::string loss_text(const Loss& loss);

// Members notes, losses, tied, tied_bytes, files and bytes.
void add_convert_report(JsonWriter& json, const ConvertReport& report);

// "wrote 4 tensors, 20.1 KiB": one painted word, and the rest.
void print_line(Console& console, Paint paint, std::string_view word, std::string_view text);

// "note: ...", unless -q hides notes.
void print_note(Console& console, Paint paint, std::string_view text);

// Notes, losses, and the files where there are several.
void print_convert_report(const ConvertReport& report, const ConvertOptions& options, Console& console);

}  // namespace ballast::cli
