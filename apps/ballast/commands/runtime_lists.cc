// `models`, `ops` and `backends`: what this build can run, and with what.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/backends/backends.h"
#include "ballast/models/model.h"
#include "ballast/ops/registry.h"
#include "ballast/tensor/blocks.h"

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
  Registry registry;
  all_backends().front()->add_implementations(registry);
  Table table({{"functional"}, {"implementations"}, {"what", Align::kLeft, true}});
  for (const FunctionalInfo& info : all_functionals()) {
    table.add_row(Cell(info.name, Paint::kBold),
                  fmt::format("{}", fmt::join(registry.implementations(info.name), ", ")), info.summary);
  }
  table.append_to(console.out(), console.output());
}

void ops_json(JsonWriter& json) {
  Registry registry;
  all_backends().front()->add_implementations(registry);
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

// The types that --numerics matters to.
std::vector<DType> computed_block_types() {
  std::vector<DType> types;
  for (const DTypeInfo& info : all_dtypes()) {
    if (can_dequantize(info.dtype)) types.push_back(info.dtype);
  }
  types.push_back(DType::kBF16);
  return types;
}

// What a backend multiplies weights with, and which types so.
struct BlockArithmetic {
  std::string_view arithmetic;
  std::vector<std::string_view> types;
};
std::vector<BlockArithmetic> block_arithmetics(const Backend& backend, Numerics numerics) {
  std::vector<BlockArithmetic> groups;
  for (const DType dtype : computed_block_types()) {
    const std::string_view arithmetic = backend.block_arithmetic(dtype, numerics);
    const auto same = [&](const BlockArithmetic& group) { return group.arithmetic == arithmetic; };
    auto found = std::ranges::find_if(groups, same);
    if (found == groups.end()) found = groups.insert(groups.end(), {arithmetic, {}});
    found->types.push_back(dtype_name(dtype));
  }
  return groups;
}

// What was found, or why nothing was, of backends that need a device.
void print_devices(Console& console) {
  for (const Backend* backend : all_backends()) {
    if (backend->find_devices == nullptr) continue;
    const auto found = backend->find_devices();
    if (!found) {
      console.out() += fmt::format("\n{}\n", printable(found.error().message));
      continue;
    }
    console.out() += fmt::format("\nDevices of {}:\n", backend->name);
    for (const std::string& line : *found) {
      console.out() += wrapped("  " + printable(line), console.output().width, 4) + '\n';
    }
  }
}

void print_backends(Console& console) {
  Table table({{"backend"}, {"level"}, {"what", Align::kLeft, true}});
  for (const Backend* backend : all_backends()) {
    table.add_row(Cell(backend->name, Paint::kBold), backend->level(), backend->summary);
  }
  table.append_to(console.out(), console.output());
  print_devices(console);
  console.out() += "\nArithmetic for quantised and bf16 weights:\n";
  Table blocks({{"backend"}, {"--numerics"}, {"arithmetic"}, {"types", Align::kLeft, true}});
  for (const Backend* backend : all_backends()) {
    for (const Numerics numerics : {Numerics::kFast, Numerics::kExact}) {
      for (const BlockArithmetic& group : block_arithmetics(*backend, numerics)) {
        blocks.add_row(Cell(backend->name, Paint::kBold), numerics == Numerics::kFast ? "fast" : "exact",
                       group.arithmetic, fmt::format("{}", fmt::join(group.types, " ")));
      }
    }
  }
  blocks.append_to(console.out(), console.output());
}

void add_devices(JsonWriter& json, const Backend& backend) {
  const auto found = backend.find_devices();
  if (!found) {
    add_text(json, "problem", found.error().message);
    return;
  }
  json.key("devices").begin_array();
  for (const std::string& line : *found) json.string(line);
  json.end_array();
}

void backends_json(JsonWriter& json) {
  json.key("backends").begin_array();
  for (const Backend* backend : all_backends()) {
    json.begin_object();
    add_text(json, "name", backend->name);
    add_text(json, "summary", backend->summary);
    add_text(json, "level", backend->level());
    add_boolean(json, "default", backend == &default_backend());
    if (backend->find_devices != nullptr) add_devices(json, *backend);
    json.key("blocks").begin_array();
    for (const DType dtype : computed_block_types()) {
      json.begin_object();
      add_text(json, "type", dtype_name(dtype));
      add_text(json, "fast", backend->block_arithmetic(dtype, Numerics::kFast));
      add_text(json, "exact", backend->block_arithmetic(dtype, Numerics::kExact));
      json.end_object();
    }
    json.end_array().end_object();
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
      {"models", "List the kinds of models that Ballast runs",
       "A checkpoint names its kind in its config.\n\nExamples:\n  ballast models\n  ballast models --json\n",
       print_models, models_json});
}

RunCommand add_ops(CLI::App& program, Console& console) {
  return add_list(program, console,
                  {"ops", "List operations and their implementations",
                   "--override OPERATION=force=IMPLEMENTATION or OPERATION=benchmark chooses an implementation. A "
                   "model config can\n"
                   "name an operation by its full key, which --json shows.\n\n"
                   "Examples:\n  ballast ops\n  ballast ops --json\n",
                   print_ops, ops_json});
}

RunCommand add_backends(CLI::App& program, Console& console) {
  return add_list(
      program, console,
      {"backends", "List compute backends",
       "cuda is the default where it finds a device, elsewhere cpu; --backend chooses another. \"cuda:1\" and\n"
       "\"opencl:1\" are second devices, \"opencl:NAME\" is the one with NAME in its name. The level is the\n"
       "instruction set used on this machine. The second table shows the arithmetic for quantised and bf16\n"
       "weights with either --numerics.\n\n"
       "Examples:\n  ballast backends\n  ballast backends --json\n",
       print_backends, backends_json});
}

}  // namespace ballast::cli
