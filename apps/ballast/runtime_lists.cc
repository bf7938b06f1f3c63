// `models`, `ops` and `backends`: what this build can run, and with what.
#include <fmt/format.h>

#include <memory>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/flags.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/table.h"
#include "ballast/backends/backends.h"
#include "ballast/models/model.h"
#include "ballast/ops/registry.h"

namespace ballast::cli {

namespace {

void print_models(Console& console) {
  Table table({{"kind"}, {"what", Align::kLeft, true}});
  for (const ModelKind& kind : all_model_kinds()) table.add_row(Cell(kind.name, Paint::kBold), kind.summary);
  table.append_to(console.out(), console.output());
}

void models_json(JsonWriter& json) {
  json.key("models").begin_array();
  for (const ModelKind& kind : all_model_kinds()) {
    json.begin_object();
    add_text(json, "kind", kind.name);
    add_text(json, "summary", kind.summary);
    json.end_object();
  }
  json.end_array();
}

void print_ops(Console& console) {
  const Registry registry;
  Table table({{"functional"}, {"implementations"}, {"what", Align::kLeft, true}});
  for (const FunctionalInfo& info : all_functionals()) {
    table.add_row(Cell(info.name, Paint::kBold),
                  fmt::format("{}", fmt::join(registry.implementations(info.name), ", ")), info.summary);
  }
  table.append_to(console.out(), console.output());
}

void ops_json(JsonWriter& json) {
  const Registry registry;
  json.key("functionals").begin_array();
  for (const FunctionalInfo& info : all_functionals()) {
    json.begin_object();
    add_text(json, "name", info.name);
    add_text(json, "key", info.key);
    add_text(json, "summary", info.summary);
    json.key("implementations").begin_array();
    for (const std::string& name : registry.implementations(info.name)) json.string(name);
    json.end_array().end_object();
  }
  json.end_array();
}

void print_backends(Console& console) {
  Table table({{"backend"}, {"level"}, {"what", Align::kLeft, true}});
  for (const Backend* backend : all_backends()) {
    table.add_row(Cell(backend->name, Paint::kBold), backend->level(), backend->summary);
  }
  table.append_to(console.out(), console.output());
}

void backends_json(JsonWriter& json) {
  json.key("backends").begin_array();
  for (const Backend* backend : all_backends()) {
    json.begin_object();
    add_text(json, "name", backend->name);
    add_text(json, "summary", backend->summary);
    add_text(json, "level", backend->level());
    add_boolean(json, "default", backend == all_backends().front());
    json.end_object();
  }
  json.end_array();
}

struct List {
  const char* name;
  const char* summary;
  const char* footer;
  void (*print)(Console&);
  void (*add_json)(JsonWriter&);
};

RunCommand add_list(CLI::App& program, Console& console, const List& list) {
  Command command(program, list.name, list.summary);
  auto json = std::make_shared<bool>(false);
  command.json(*json);
  command.footer(list.footer);
  return [json, list, &console] {
    if (!*json) {
      list.print(console);
      return kExitYes;
    }
    JsonWriter writer;
    writer.begin_object();
    list.add_json(writer);
    writer.end_object();
    console.out() += writer.take() + '\n';
    return kExitYes;
  };
}

}  // namespace

RunCommand add_models(CLI::App& program, Console& console) {
  return add_list(
      program, console,
      {"models", "List the kinds of models that can be run",
       "A checkpoint names its kind in its config.\n\nExamples:\n  ballast models\n  ballast models --json\n",
       print_models, models_json});
}

RunCommand add_ops(CLI::App& program, Console& console) {
  return add_list(
      program, console,
      {"ops", "List the functionals that models are made of",
       "--override FUNCTIONAL=force=IMPLEMENTATION or FUNCTIONAL=benchmark chooses among implementations; a\n"
       "config may name a functional by its whole key, which --json shows.\n\n"
       "Examples:\n  ballast ops\n  ballast ops --json\n",
       print_ops, ops_json});
}

RunCommand add_backends(CLI::App& program, Console& console) {
  return add_list(
      program, console,
      {"backends", "List what can compute",
       "The first is what runs unless --backend names another. Its level is the instruction set that it uses on\n"
       "this machine.\n\nExamples:\n  ballast backends\n  ballast backends --json\n",
       print_backends, backends_json});
}

}  // namespace ballast::cli
