#include <fmt/format.h>

#include <memory>

#include "apps/ballast/commands.h"
#include "apps/ballast/convert_report.h"
#include "apps/ballast/huggingface_flags.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/output_flags.h"
#include "apps/ballast/table.h"
#include "apps/ballast/text.h"
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
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: import writes a gpt.rs checkpoint (.gptrs), and this is the name of a {} file; "
                                "`ballast convert` writes other formats",
                                path, format->name));
}

// Only weights under another framework's names are imported.
Status refuse_what_runs(const Description& source, const std::string& path) {
  BALLAST_TRY(const ModelForm form, find_model_form(source));
  if (source.format == kFormat || form == ModelForm::kLayers) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: this model runs already: `ballast generate` or `ballast forward` take it as it "
                                  "is",
                                  path));
  }
  if (form != ModelForm::kGguf) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: a GGUF model runs as it is; `ballast convert` makes a gpt.rs checkpoint of it "
                                "where that is possible",
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
    report.notes.push_back(
        fmt::format("a checkpoint holds no tokenizer: put {} into the same folder, or give it with "
                    "--tokenizer",
                    *tokenizer));
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
    "Turns the weights of a GPT-2 or Mistral (Hugging Face's transformers), a ResNet34 or a MobileNetV2 (torchvision) "
    "into a\n"
    "checkpoint that runs: names, orientations, folded batch norms, and the config, which is made from config.json "
    "beside\n"
    "the weights (or --config) and from the tensors. It says what became what. `convert --adapt "
    "gptrs-to-huggingface`\n"
    "goes back.\n"
    "\n"
    "Examples:\n"
    "  ballast import gpt2_folder gpt2.gptrs\n"
    "  ballast import gpt2_folder/model.safetensors gpt2.gptrs --dry-run\n";

}  // namespace

RunCommand add_import(CLI::App& program, Console& console) {
  Command command(program, "import", "Make a checkpoint that runs from the weights of another framework");
  auto flags = std::make_shared<ImportFlags>();
  ConvertOptions& options = flags->output.options;
  flags->output.format = kFormat;
  command.path("SRC", flags->source, "Weights under the names of Hugging Face or torchvision: a file or a folder");
  command.path("DST", flags->output.path, "The checkpoint to write: model.gptrs");
  command.text("--config", "FILE", flags->output.config_path, "config.json, unless it stands beside SRC");
  command.flag("--allow-half", options.write.format.allow_half, "Write f16 and bf16 although gpt.rs refuses them");
  command.flag("--allow-lossy", options.allow_lossy, "Go on where something cannot be kept, and say what was lost");
  command.flag("--dry-run", options.dry_run, "Say what would be done; write nothing");
  command.flag("--overwrite", options.write.commit.overwrite, "Replace what stands at DST");
  command.flag("--no-sync", flags->output.no_sync, "Do not wait until the disk has it: quicker, not durable");
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
