#include "ballast/edit/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "apps/ballast/commands/calibrate.h"
#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/file_names.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/model_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/base/human_size.h"
#include "ballast/io/staging_folder.h"
#include "ballast/tensor/blocks.h"

namespace ballast::cli {

namespace {

struct QuantizeFlags {
  std::string source;
  OutputFlags output;
  std::string type;        // behind the paths
  std::string type_given;  // --type
  bool pure = false;
  std::vector<std::string> keep;  // REGEX=TYPE
  bool json = false;
  CalibrationFlags calibration_flags;
  const QuantizationPreset* preset = nullptr;
  Calibration calibration;
  std::shared_ptr<QuantizationLog> log = std::make_shared<QuantizationLog>();
};

// What became one type.
struct TypeTotals {
  DType type;
  size_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
};

// All tensors together.
struct QuantizeTotals {
  uint64_t before = 0;
  uint64_t after = 0;
  uint64_t elements = 0;
  size_t quantized = 0;
  size_t calibrated = 0;
  QuantizationError error;
  std::vector<TypeTotals> types;  // the one with most bytes first

  double bits_per_weight() const {
    return elements == 0 ? 0 : 8 * static_cast<double>(after) / static_cast<double>(elements);
  }
};

void add_to_types(const TensorQuantization& tensor, uint64_t elements, std::vector<TypeTotals>& types) {
  auto found = std::ranges::find(types, tensor.to, &TypeTotals::type);
  if (found == types.end()) found = types.insert(types.end(), {.type = tensor.to});
  ++found->tensors;
  found->elements += elements;
  found->bytes += tensor.bytes_after;
}

QuantizeTotals totals_of(const std::vector<TensorQuantization>& tensors) {
  QuantizeTotals totals;
  for (const TensorQuantization& tensor : tensors) {
    const uint64_t elements = tensor.shape.element_count().value_or(0);
    totals.before += tensor.bytes_before;
    totals.after += tensor.bytes_after;
    totals.elements += elements;
    add_to_types(tensor, elements, totals.types);
    if (tensor.from != tensor.to && is_block(tensor.to)) ++totals.quantized;
    if (tensor.is_calibrated) ++totals.calibrated;
    if (tensor.error) totals.error.merge(*tensor.error);
  }
  std::ranges::stable_sort(totals.types, std::ranges::greater(), &TypeTotals::bytes);
  return totals;
}

// The type stands behind the paths, as with llama-quantize, or in --type.
Result<const QuantizationPreset*> chosen_preset(const QuantizeFlags& flags) {
  if (!flags.type.empty() && !flags.type_given.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the type is given twice: {} and --type {}", flags.type, flags.type_given));
  }
  const std::string& name = flags.type.empty() ? flags.type_given : flags.type;
  if (!name.empty()) return find_quantization_preset(name);
  return make_error(ErrorCode::kInvalidArgument, "no type given; use for example --type q4_k_m");
}

// A folder gets one GGUF file, which holds config, tokenizer and chat template too.
Result<const FormatDriver*> choose_quantized_format(const OutputFlags& flags) {
  if (flags.format.empty() && names_a_folder(flags.path)) return find_format("gguf");
  return choose_output_format(flags);
}

// What calibration runs: the weights that are quantised, under the names and in the layout that they will have.
class CalibrationModel {
 public:
  // The source itself where nothing else becomes of it; otherwise a GGUF file of it, which goes with this object.
  static Result<CalibrationModel> make(const QuantizeFlags& flags, const Archive& source, const ExchangePlan& plan,
                                       const FormatDriver& format, Console& console) {
    CalibrationModel model;
    if (flags.calibration_flags.text.empty()) return model;
    if (format.name != "gguf") {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("--calibrate writes GGUF, not {}: name a .gguf file", format.name));
    }
    if (is_stream(flags.source) || is_stream(flags.output.path)) {
      return make_error(ErrorCode::kUnsupported, "--calibrate runs the model first, so it needs paths, not pipes");
    }
    model.path_ = flags.source;
    if (!plan.is_new_form && source.description().format == format.name) return model;
    BALLAST_CHECK(model.write(flags, source, plan, format, console));
    return model;
  }

  const std::string& path() const { return path_; }

 private:
  Status write(const QuantizeFlags& flags, const Archive& source, const ExchangePlan& plan, const FormatDriver& format,
               Console& console) {
    std::string beside = flags.output.path;
    while (beside.size() > 1 && beside.ends_with('/')) beside.pop_back();
    BALLAST_TRY(StagingFolder staging, StagingFolder::create(beside + ".calibration"));
    staging_.emplace(std::move(staging));
    path_ = staging_->path() + "/model.gguf";
    OutputFlags output;
    output.path = path_;
    output.options.threads = flags.output.options.threads;
    output.options.write.commit.sync = false;
    ProgressBar bar(console.errors());
    output.options.write.progress = bar.callback();
    auto written = write_planned({flags.source, source}, plan, output, format);
    if (written) return {};
    std::string& text = written.error().message;
    if (const size_t at = text.find(path_); at != std::string::npos) text.replace(at, path_.size(), beside);
    return std::move(written).error().with_context("--calibrate needs a copy of the model in GGUF beside the output");
  }

  std::optional<StagingFolder> staging_;
  std::string path_;
};

Result<QuantizeOptions> quantize_options(const QuantizeFlags& flags) {
  QuantizeOptions edit{.type = flags.preset->base, .threads = flags.output.options.threads};
  if (!flags.pure) edit.preset = flags.preset;
  for (const std::string& text : flags.keep) {
    auto rule = parse_type_rule(text);
    if (!rule) return std::move(rule).error().with_context("--keep");
    edit.rules.push_back(*std::move(rule));
  }
  return edit;
}

Result<ConvertReport> quantize(QuantizeFlags& flags, const Output& output, Console& console) {
  ConvertOptions& options = flags.output.options;
  BALLAST_TRY(flags.preset, chosen_preset(flags));
  BALLAST_TRY(QuantizeOptions edit, quantize_options(flags));
  BALLAST_TRY(const FormatDriver* format, choose_quantized_format(flags.output));
  BALLAST_CHECK(refuse_same_file(flags.source, flags.output));
  BALLAST_TRY(const Archive source, open_input(flags.source, FileAccess::kPositional));
  BALLAST_TRY(const ExchangePlan plan, plan_output({flags.source, source}, flags.output, *format));
  {
    BALLAST_TRY(const CalibrationModel model, CalibrationModel::make(flags, source, plan, *format, console));
    BALLAST_TRY(flags.calibration, calibrate(flags.calibration_flags, model.path(), options.threads, console));
  }
  edit.importance = flags.calibration.matrix;
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  // Behind the plan's edits, so that it sees the names and layouts of the target.
  options.edits = {quantize_tensors(std::move(edit), flags.log)};
  return write_planned({flags.source, source}, plan, flags.output, *format);
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
  add_text(json, "type", flags.preset->name);
  add_boolean(json, "dry_run", flags.output.options.dry_run);
  json.key("tensors").begin_array();
  for (const TensorQuantization& tensor : tensors) add_quantization(json, tensor);
  json.end_array();
  add_number(json, "quantized", totals.quantized);
  add_calibration(json, flags.calibration, totals.calibrated);
  add_number(json, "bytes_before", totals.before);
  add_number(json, "bytes_after", totals.after);
  json.key("bits_per_weight").real(totals.bits_per_weight());
  json.key("types").begin_array();
  for (const TypeTotals& type : totals.types) {
    json.begin_object();
    add_text(json, "type", dtype_name(type.type));
    add_number(json, "tensors", type.tensors);
    add_number(json, "elements", type.elements);
    add_number(json, "bytes", type.bytes);
    json.end_object();
  }
  json.end_array();
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

// "7 q4_k, 2 q6_k and 5 f32"
std::string types_text(const std::vector<TypeTotals>& types) {
  std::string text;
  for (size_t i = 0; i < types.size(); ++i) {
    if (i != 0) text += i + 1 == types.size() ? " and " : ", ";
    text += fmt::format("{} {}", types[i].tensors, dtype_name(types[i].type));
  }
  return text;
}

// Why every tensor kept its type: the reasons, the most frequent first.
std::string nothing_quantized(const std::vector<TensorQuantization>& tensors) {
  const auto is_packed = [](const TensorQuantization& tensor) { return is_block(tensor.from); };
  if (tensors.empty()) return "nothing was quantised: there are no tensors";
  if (std::ranges::any_of(tensors, is_packed)) {
    return "nothing was quantised: the matrices are quantised already, and quantising them again would add up the "
           "errors. To do it anyway, first run `ballast convert --dequantize f32`";
  }
  std::map<std::string, size_t> reasons;
  for (const TensorQuantization& tensor : tensors) ++reasons[tensor.note];
  std::vector<std::pair<std::string, size_t>> sorted(reasons.begin(), reasons.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(), &std::pair<std::string, size_t>::second);
  std::string text = "nothing was quantised:";
  for (size_t i = 0; i < sorted.size(); ++i) {
    text += fmt::format("{} {} ({})", i == 0 ? "" : ",", counted(sorted[i].second, "tensor"), sorted[i].first);
  }
  return text;
}

void print_quantize(const QuantizeFlags& flags, const ConvertReport& report, Console& console) {
  const bool dry = flags.output.options.dry_run;
  const std::vector<TensorQuantization> tensors = flags.log->tensors();
  const QuantizeTotals totals = totals_of(tensors);
  print_line(
      console, Paint::kBold, dry ? "would quantise" : "quantised",
      fmt::format("{} ({}) to {} ({}): {} of {} to {}", flags.source, report.source_format, flags.output.path,
                  report.target_format, totals.quantized, counted(tensors.size(), "tensor"), flags.preset->name));
  print_tensors(tensors, console);
  const double share = totals.before == 0 ? 1 : static_cast<double>(totals.after) / static_cast<double>(totals.before);
  print_calibration(flags.calibration, totals.calibrated, console);
  print_line(console, Paint::kBold, "types:", types_text(totals.types));
  std::string sizes = fmt::format("{} before, {} after ({:.1f} %, {:.2f} bits per weight)", human_size(totals.before),
                                  human_size(totals.after), 100 * share, totals.bits_per_weight());
  if (totals.error.count != 0) {
    sizes += fmt::format("; rmse {}, largest error {}, relative {}", error_text(totals.error.rmse()),
                         error_text(totals.error.max_abs), error_text(totals.error.relative()));
  }
  print_line(console, Paint::kBold, "total:", sizes);
  if (totals.quantized == 0) print_line(console, Paint::kYellow, "warning:", nothing_quantized(tensors));
  print_convert_report(report, flags.output.options, console);
}

std::string presets_text() {
  std::string text;
  for (const QuantizationPreset& preset : all_quantization_presets()) {
    text += fmt::format("  {:<8} {}\n", preset.name, preset.summary);
  }
  return text;
}

// After the list of types.
constexpr const char* kQuantizeFooter =
    "\n"
    "Types are llama.cpp's mixtures, in upper or lower case: sensitive matrices (output, attention values,\n"
    "feed-forward outputs) get more bits than the name says. q3_k, q4_k and q5_k mean the _m mixture; --pure gives\n"
    "every matrix the same type. Norms, biases, position embeddings and expert routers keep their type. Matrices whose "
    "rows are\n"
    "not a multiple of 256 get a type with smaller blocks: q4_0 for q2_k and q3_k, q5_0 for q4_k, q5_1 for q5_k,\n"
    "q8_0 for q6_k. Values that are not finite or too large for a type are errors that name the tensor and the\n"
    "element.\n"
    "\n"
    "--keep gives matching tensors another type: a quantised type, f32, f16, bf16, or \"same\" to leave them\n"
    "unchanged. The first match wins. Errors are measured between the dequantised and the original values.\n"
    "\n"
    "--calibrate runs the model on a text and records how large the inputs of each weight are (an importance\n"
    "matrix), so that precision goes where that text needs it. At 2 to 4 bits this lowers perplexity noticeably. Use\n"
    "a few thousand tokens or more of text like the model's future input, and measure on other text with\n"
    "`ballast perplexity`.\n"
    "\n"
    "Examples:\n"
    "  ballast quantize llama_model small.gguf Q4_K_M\n"
    "  ballast quantize model.gguf small.gguf q3_k_m --calibrate sample.txt\n"
    "  ballast quantize model.gguf small.gguf --type q4_k_m --keep 'attn_v=q8_0'\n"
    "  ballast quantize model.gguf small.gguf --type q8_0 --keep 'token_embd=f16' --dry-run\n";

}  // namespace

RunCommand add_quantize(CLI::App& program, Console& console) {
  Command command(program, "quantize", "Quantise a model to fewer bits per weight");
  auto flags = std::make_shared<QuantizeFlags>();
  command.path("IN", flags->source, "Model to quantise: a folder or a file; - is standard input").or_model();
  command.path("OUT", flags->output.path,
               "Output: a .gguf file, or a folder (ending in /) for model.gguf; - is standard output");
  command.optional_path("TYPE", flags->type, "Target type, same as --type");
  command.text("--type", "TYPE", flags->type_given, "Quantise matrices to this type: q4_k_m, q8_0, ... (see below)");
  command.flag("--pure", flags->pure, "Give every matrix the same type instead of a mixture");
  command.texts("--keep", "REGEX=TYPE", flags->keep,
                "Use another type for tensors whose name matches; may be repeated");
  add_calibration_flags(command, flags->calibration_flags);
  add_container_flag(command, flags->output);
  add_output_flags(command, flags->output);
  command.json(flags->json);
  command.footer("Types:\n" + presets_text() + kQuantizeFooter);
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
