#include <fmt/format.h>

#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/formats/format.h"

namespace ballast::cli {

namespace {

void add_texts(JsonWriter& json, std::string_view key, std::span<const std::string_view> texts) {
  json.key(key).begin_array();
  for (const std::string_view text : texts) json.string(text);
  json.end_array();
}

std::string formats_json() {
  JsonWriter json;
  json.begin_object().key("formats").begin_array();
  for (const FormatDriver* format : all_formats()) {
    json.begin_object();
    add_text(json, "name", format->name);
    add_text(json, "summary", format->summary);
    add_texts(json, "extensions", format->extensions);
    add_boolean(json, "read", format->open != nullptr);
    add_boolean(json, "write", format->plan_write != nullptr);
    add_texts(json, "targets", format->targets);
    add_boolean(json, "compress", format->can_compress);
    add_boolean(json, "shard", format->can_shard);
    add_boolean(json, "allow_half", format->can_allow_half);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take() + '\n';
}

void print_formats(Console& console) {
  Table table({{"name"}, {"access"}, {"extensions"}, {"what", Align::kLeft, true}});
  for (const FormatDriver* format : all_formats()) {
    table.add_row(Cell(format->name, Paint::kBold), format->plan_write == nullptr ? "read" : "read+write",
                  fmt::format("{}", fmt::join(format->extensions, " ")), format->summary);
  }
  table.append_to(console.out(), console.output());
}

}  // namespace

RunCommand add_formats(CLI::App& program, Console& console) {
  Command command(program, "formats", "List supported file formats");
  auto json = std::make_shared<bool>(false);
  command.json(*json);
  command.footer("Examples:\n  ballast formats\n  ballast formats --json\n");
  return [json, &console] {
    if (*json) console.out() += formats_json();
    else print_formats(console);
    return kExitYes;
  };
}

}  // namespace ballast::cli
