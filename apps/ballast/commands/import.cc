#include <fmt/format.h>

#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/huggingface_flags.h"
#include "apps/ballast/flags/output_flags.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "ballast/base/human_size.h"
#include "ballast/exchange/exchange.h"
#include "ballast/text/load_tokenizer.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kAdapter = "huggingface-to-gptrs";
constexpr const char* kFormat = "gptrs-checkpoint";

struct ImportFlags {
  std::string source;
  OutputFlags output;
  bool json = false;
  HuggingFaceConfig huggingface;
};

// A checkpoint under the name of another format would mislead whoever opens it.
Status check_extension(const std::string& path) {
  const FormatDriver* format = is_stream(path) ? nullptr : format_for_extension(path);
  if (format == nullptr || format->name == kFormat) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: import writes gpt.rs checkpoints (.gptrs), but this name is that of a {} file; use "
                  "`ballast convert` for other formats",
                  path, format->name));
}

// Only weights under another framework's names are imported.
Status refuse_what_runs(const Description& source, const std::string& path) {
  BALLAST_TRY(const ModelForm form, find_model_form(source));
  if (source.format == kFormat || form == ModelForm::kLayers) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: this model needs no import; run it with `ballast generate` or `ballast forward`", path));
  }
  if (form != ModelForm::kGguf) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: a GGUF model needs no import; to turn it into a gpt.rs checkpoint, use `ballast "
                                "convert`",
                                path));
}

Result<ConvertReport> import_weights(ImportFlags& flags, const Output& output, Console& console) {
  ConvertOptions& options = flags.output.options;
  BALLAST_CHECK(check_extension(flags.output.path));
  BALLAST_CHECK(refuse_same_file(flags.source, flags.output));
  BALLAST_TRY(const Archive source, open_input(flags.source, FileAccess::kPositional));
  BALLAST_CHECK(refuse_what_runs(source.description(), flags.source));
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  AdaptOptions adapt;
  BALLAST_CHECK(flags.huggingface.prepare({std::string(kAdapter)}, flags.source, flags.output.config_path,
                                          options.config_text, adapt));
  adapt.huggingface.name_gelu = true;
  options.edits = {adapt_with(*find_adapter(kAdapter), adapt)};
  BALLAST_TRY(ConvertReport report, convert_archive(source, flags.output.path, *find_format(kFormat), options));
  if (const auto tokenizer = find_tokenizer_beside(flags.source);
      tokenizer && !find_tokenizer_beside(flags.output.path)) {
    report.notes.push_back(fmt::format(
        "checkpoints do not contain a tokenizer: copy {} to the same folder, or give it with --tokenizer", *tokenizer));
  }
  return report;
}

std::string import_json(const ImportFlags& flags, const ConvertReport& report) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "source", flags.source);
  add_text(json, "destination", flags.output.path);
  add_boolean(json, "dry_run", flags.output.options.dry_run);
  add_number(json, "tensors", report.tensors);
  add_number(json, "payload_bytes", report.payload_bytes);
  json.key("config").raw(flags.huggingface.report().config_text);
  add_convert_report(json, report);
  flags.huggingface.add_to(json);
  json.end_object();
  return json.take() + '\n';
}

void print_import(const ImportFlags& flags, const ConvertReport& report, Console& console) {
  const HuggingFaceReport& adapted = flags.huggingface.report();
  print_line(console, Paint::kBold, flags.output.options.dry_run ? "would import" : "imported",
             fmt::format("{} as a {} model to {}: {}, {}", flags.source, adapted.kind, flags.output.path,
                         counted(report.tensors, "tensor"), human_size(report.payload_bytes)));
  console.out() += fmt::format("config {}\n", printable(adapted.config_text));
  Table table({{"parameter"}, {"from", Align::kLeft, true}, {"how"}, {"tensors", Align::kRight}});
  for (const MappedNames& row : adapted.mapped) {
    table.add_row(printable(row.gptrs), printable(row.huggingface), row.change, grouped(row.tensors));
  }
  table.append_to(console.out(), console.output());
  print_convert_report(report, flags.output.options, console);
}

constexpr const char* kImportFooter =
    "Imports GPT-2 and Mistral models from transformers, ResNet34 and MobileNetV2 from torchvision. Renames and\n"
    "transposes tensors, folds batch norms, and derives the model config from the tensors and from the config.json\n"
    "next to the weights (or --config). Reports where each parameter came from.\n"
    "`ballast convert --adapt gptrs-to-huggingface` converts back.\n"
    "\n"
    "Examples:\n"
    "  ballast import gpt2_folder gpt2.gptrs\n"
    "  ballast import gpt2_folder/model.safetensors gpt2.gptrs --dry-run\n";

}  // namespace

RunCommand add_import(CLI::App& program, Console& console) {
  Command command(program, "import", "Turn weights from transformers or torchvision into a runnable checkpoint");
  auto flags = std::make_shared<ImportFlags>();
  ConvertOptions& options = flags->output.options;
  flags->output.format = kFormat;
  command.path("SRC", flags->source, "Weights with Hugging Face or torchvision names: a file or a folder");
  command.path("DST", flags->output.path, "Checkpoint to write: model.gptrs");
  command.text("--config", "FILE", flags->output.config_path, "Read this config.json (default: the one next to SRC)");
  command.flag("--allow-half", options.write.format.allow_half,
               "Write f16 and bf16 even though gpt.rs cannot read them");
  command.flag("--allow-lossy", options.allow_lossy, "Continue if something cannot be stored, and report the loss");
  command.flag("--dry-run", options.dry_run, "Report what would be written and lost without writing");
  command.flag("--overwrite", options.write.commit.overwrite, "Replace an existing DST");
  command.flag("--no-sync", flags->output.no_sync, "Do not wait for the disk: faster, less durable");
  command.threads(options.threads);
  command.json(flags->json);
  command.footer(kImportFooter);
  return [flags, &console] {
    return write_through(flags->output, flags->json, console, [&](const Output& output) -> Status {
      BALLAST_TRY(const ConvertReport report, import_weights(*flags, output, console));
      if (flags->json) console.out() += import_json(*flags, report);
      else print_import(*flags, report, console);
      return {};
    });
  };
}

}  // namespace ballast::cli
