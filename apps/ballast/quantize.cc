#include "ballast/edit/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/convert_report.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/output_flags.h"
#include "apps/ballast/output_format.h"
#include "apps/ballast/table.h"
#include "apps/ballast/text.h"
#include "ballast/tensor/blocks.h"

namespace ballast::cli {

namespace {

struct QuantizeFlags {
  std::string source;
  OutputFlags output;
  DType type = DType::kQ8_0;
  std::vector<std::string> keep;  // REGEX=TYPE
  bool json = false;
  std::shared_ptr<QuantizationLog> log = std::make_shared<QuantizationLog>();
};

// All tensors together.
struct QuantizeTotals {
  uint64_t before = 0;
  uint64_t after = 0;
  size_t quantized = 0;
  QuantizationError error;
};

QuantizeTotals totals_of(const std::vector<TensorQuantization>& tensors) {
  QuantizeTotals totals;
  for (const TensorQuantization& tensor : tensors) {
    totals.before += tensor.bytes_before;
    totals.after += tensor.bytes_after;
    if (tensor.from != tensor.to && is_block(tensor.to)) ++totals.quantized;
    if (tensor.error) totals.error.merge(*tensor.error);
  }
  return totals;
}

Result<ConvertReport> quantize(QuantizeFlags& flags, const Output& output, Console& console) {
  ConvertOptions& options = flags.output.options;
  QuantizeOptions edit{.type = flags.type, .rules = {}, .threads = options.threads};
  for (const std::string& text : flags.keep) {
    auto rule = parse_type_rule(text);
    if (!rule) return std::move(rule).error().with_context("--keep");
    edit.rules.push_back(*std::move(rule));
  }
  BALLAST_TRY(const FormatDriver* format, choose_format(flags.output.format, flags.output.path));
  BALLAST_CHECK(refuse_same_file(flags.source, flags.output));
  BALLAST_TRY(const Archive source, open_input(flags.source, FileAccess::kPositional));
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  options.edits = {quantize_tensors(std::move(edit), flags.log)};
  return convert_archive(source, flags.output.path, *format, options);
}

// ---------------------------------------------------------------- what was done

void add_error_numbers(JsonWriter& json, const QuantizationError& error) {
  json.key("rmse").real(error.rmse());
  json.key("max_abs_error").real(error.max_abs);
  json.key("relative_error").real(error.relative());
}

void add_quantization(JsonWriter& json, const TensorQuantization& tensor) {
  json.begin_object();
  add_text(json, "name", tensor.name);
  json.key("shape").numbers(tensor.shape.dims());
  add_text(json, "from", dtype_name(tensor.from));
  add_text(json, "to", dtype_name(tensor.to));
  add_number(json, "bytes_before", tensor.bytes_before);
  add_number(json, "bytes_after", tensor.bytes_after);
  if (tensor.note.empty()) add_null(json, "reason");
  else add_text(json, "reason", tensor.note);
  if (tensor.error) add_error_numbers(json, *tensor.error);
  json.end_object();
}

std::string quantize_json(const QuantizeFlags& flags, const ConvertReport& report) {
  const std::vector<TensorQuantization> tensors = flags.log->tensors();
  const QuantizeTotals totals = totals_of(tensors);
  JsonWriter json;
  json.begin_object();
  add_text(json, "source", flags.source);
  add_text(json, "source_format", report.source_format);
  add_text(json, "destination", flags.output.path);
  add_text(json, "format", report.target_format);
  add_text(json, "type", dtype_name(flags.type));
  add_boolean(json, "dry_run", flags.output.options.dry_run);
  json.key("tensors").begin_array();
  for (const TensorQuantization& tensor : tensors) add_quantization(json, tensor);
  json.end_array();
  add_number(json, "quantized", totals.quantized);
  add_number(json, "bytes_before", totals.before);
  add_number(json, "bytes_after", totals.after);
  if (totals.error.count != 0) add_error_numbers(json, totals.error);
  add_convert_report(json, report);
  json.end_object();
  return json.take() + '\n';
}

std::string error_text(double error) { return fmt::format("{:.3g}", error); }

void print_tensors(const std::vector<TensorQuantization>& tensors, Console& console) {
  Table table({{"tensor", Align::kLeft, true},
               {"shape"},
               {"from"},
               {"to"},
               {"rmse", Align::kRight},
               {"max error", Align::kRight},
               {"relative", Align::kRight},
               {"", Align::kLeft, true}});
  table.reserve(tensors.size());
  for (const TensorQuantization& tensor : tensors) {
    const bool same = tensor.from == tensor.to;
    const auto& error = tensor.error;
    table.add_row(printable(tensor.name), tensor.shape.to_string(), dtype_name(tensor.from),
                  Cell(same ? "" : dtype_name(tensor.to), Paint::kGreen), error ? error_text(error->rmse()) : "",
                  error ? error_text(error->max_abs) : "", error ? error_text(error->relative()) : "",
                  Cell(same ? "stays: " + tensor.note : tensor.note, Paint::kDim));
  }
  if (!table.empty()) table.append_to(console.out(), console.output());
}

void print_quantize(const QuantizeFlags& flags, const ConvertReport& report, Console& console) {
  const bool dry = flags.output.options.dry_run;
  const std::vector<TensorQuantization> tensors = flags.log->tensors();
  const QuantizeTotals totals = totals_of(tensors);
  print_line(
      console, Paint::kBold, dry ? "would quantise" : "quantised",
      fmt::format("{} ({}) to {} ({}): {} of {} to {}", flags.source, report.source_format, flags.output.path,
                  report.target_format, totals.quantized, counted(tensors.size(), "tensor"), dtype_name(flags.type)));
  print_tensors(tensors, console);
  const double share = totals.before == 0 ? 1 : static_cast<double>(totals.after) / static_cast<double>(totals.before);
  std::string sizes = fmt::format("{} before, {} after ({:.1f} %)", mib(totals.before), mib(totals.after), 100 * share);
  if (totals.error.count != 0) {
    sizes += fmt::format("; rmse {}, largest error {}, relative {}", error_text(totals.error.rmse()),
                         error_text(totals.error.max_abs), error_text(totals.error.relative()));
  }
  print_line(console, Paint::kBold, "total:", sizes);
  const auto is_packed = [](const TensorQuantization& tensor) { return is_block(tensor.from); };
  if (totals.quantized == 0 && std::ranges::any_of(tensors, is_packed)) {
    print_line(console, Paint::kYellow, "note:",
               "nothing was quantised: the matrices are in blocks already, and packing them again would add one error "
               "to another. To do it anyway, first `ballast convert --dequantize f32`");
  }
  print_convert_report(report, flags.output.options, console);
}

constexpr const char* kQuantizeFooter =
    "Matrices become the type asked for, a piece at a time. Norms, position embeddings, biases, routers of experts, "
    "and\n"
    "what has rows of no whole number of blocks stay as they are; of the _k types, whose blocks are 256 long, a "
    "simpler\n"
    "one stands in where only 32 divides the row: q5_0 for q4_k, q5_1 for q5_k, q8_0 for q6_k. Values that are not "
    "finite\n"
    "or too large for a type are refused, with the tensor and the element.\n"
    "\n"
    "--keep gives the tensors that it finds another type, a block type or f32, f16, bf16, or \"same\" for as they are; "
    "the\n"
    "first that finds a name decides. The error is that of the values read back, relative to their own size.\n"
    "\n"
    "Examples:\n"
    "  ballast quantize model.safetensors model.gguf --type q4_k\n"
    "  ballast quantize model.gguf small.gguf --type q4_k --keep 'output=q6_k' --keep 'attn_v=q6_k'\n"
    "  ballast quantize model.gguf small.gguf --type q8_0 --keep 'token_embd=f16' --dry-run\n";

std::vector<std::pair<std::string, DType>> quantized_types() {
  std::vector<std::pair<std::string, DType>> types;
  for (const DTypeInfo& row : all_dtypes()) {
    if (can_quantize(row.dtype)) types.emplace_back(row.name, row.dtype);
  }
  return types;
}

}  // namespace

RunCommand add_quantize(CLI::App& program, Console& console) {
  Command command(program, "quantize", "Pack matrices into blocks of few bits a weight");
  auto flags = std::make_shared<QuantizeFlags>();
  command.path("IN", flags->source, "What to quantise; - is standard input").or_model();
  command.path("OUT", flags->output.path, "Where to, usually .gguf; - is standard output");
  command
      .choice("--type", "TYPE", flags->type, quantized_types(),
              "What matrices become: q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k or q6_k")
      .required();
  command.texts("--keep", "REGEX=TYPE", flags->keep, "Give tensors with such a name this type; may be repeated");
  add_output_flags(command, flags->output);
  command.json(flags->json);
  command.footer(kQuantizeFooter);
  return [flags, &console] {
    return write_through(flags->output, flags->json, console, [&](const Output& output) -> Status {
      BALLAST_TRY(const ConvertReport report, quantize(*flags, output, console));
      if (flags->json) console.out() += quantize_json(*flags, report);
      else print_quantize(*flags, report, console);
      return {};
    });
  };
}

}  // namespace ballast::cli
