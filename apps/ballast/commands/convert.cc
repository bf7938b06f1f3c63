#include "ballast/archive/convert.h"

#include <fmt/format.h>

#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/edit_flags.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/flags/huggingface_flags.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/model_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "ballast/archive/pattern.h"
#include "ballast/base/human_size.h"
#include "ballast/formats/netcl/netcl.h"

namespace ballast::cli {

namespace {

struct ConvertFlags {
  std::string source;
  OutputFlags output;
  bool json = false;
  EditFlags edits;
  HuggingFaceConfig huggingface;
  std::shared_ptr<CastLog> casts = std::make_shared<CastLog>();
};

// ---------------------------------------------------------------- what to do

struct ConvertTask {
  ConvertFlags& flags;
  const Command& command;
  const Output& output;
  Console& console;
};

// Read, not mapped: pages of a mapping would count as memory, and a source that shrinks meanwhile is then an error.
Result<Archive> open_source(const ConvertFlags& flags) { return open_input(flags.source, FileAccess::kPositional); }

bool changes_names(const ConvertFlags& flags) {
  const EditFlags& edits = flags.edits;
  const ConvertOptions& options = flags.output.options;
  return !options.only.empty() || !options.exclude.empty() || !edits.exact.empty() || !edits.renames.empty() ||
         edits.renumber || edits.skip_enum_variants;
}

// An adapter, or a config of the user's own, is a plan already.
Result<ExchangePlan> plan_conversion(const ConvertFlags& flags, const Archive& source, const FormatDriver& format) {
  const bool has_config = !flags.output.config_path.empty() && !format.config_schema.empty();
  if (!flags.edits.adapters.empty() || has_config) return ExchangePlan();
  const FolderOptions folder{.dequantize = flags.edits.dequantize, .casts = flags.casts, .dtype = flags.edits.dtype};
  BALLAST_TRY(ExchangePlan plan, plan_output({flags.source, source}, flags.output, format, folder));
  if (!plan.is_new_form || !changes_names(flags)) return plan;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: converting this model to {} renames its tensors, so they cannot be selected or "
                                "renamed in the same step; convert it first, or use --container-only",
                                flags.source, format.name));
}

Result<ConvertReport> convert(const ConvertTask& task) {
  const auto& [flags, command, output, console] = task;
  ConvertOptions& options = flags.output.options;
  BALLAST_TRY(const FormatDriver* format, choose_output_format(flags.output));
  BALLAST_CHECK(refuse_same_file(flags.source, flags.output));
  BALLAST_TRY(const Archive source, open_source(flags));
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  AdaptOptions adapt = adapt_options(flags.edits);
  if (format->config_schema == kNetclSchema) adapt.netcl_config = options.config_text;
  BALLAST_CHECK(flags.huggingface.prepare(flags.edits.adapters, flags.source, flags.output.config_path,
                                          options.config_text, adapt));
  BALLAST_TRY(options.edits, make_edits(command, flags.edits, adapt, flags.casts));
  for (const std::string& name : flags.edits.exact) options.only.push_back(exactly(name));
  BALLAST_TRY(const ExchangePlan plan, plan_conversion(flags, source, *format));
  BALLAST_CHECK(flags.huggingface.open_output(options.write.commit, options.dry_run));
  BALLAST_TRY(ConvertReport report, write_planned({flags.source, source}, plan, flags.output, *format));
  BALLAST_TRY(const std::string config, flags.huggingface.write_output());
  if (!config.empty()) report.written.files.push_back(config);
  return report;
}

// ---------------------------------------------------------------- what was done

std::string convert_json(const ConvertFlags& flags, const ConvertReport& report) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "source", flags.source);
  add_text(json, "source_format", report.source_format);
  add_text(json, "destination", flags.output.path);
  add_text(json, "format", report.target_format);
  add_boolean(json, "dry_run", flags.output.options.dry_run);
  add_number(json, "tensors", report.tensors);
  add_number(json, "payload_bytes", report.payload_bytes);
  add_convert_report(json, report);
  add_casts(json, *flags.casts);
  flags.huggingface.add_to(json);
  json.end_object();
  return json.take() + '\n';
}

void print_convert(const ConvertFlags& flags, const ConvertReport& report, Console& console) {
  print_line(console, Paint::kBold, flags.output.options.dry_run ? "would convert" : "converted",
             fmt::format("{} ({}) to {} ({}): {}, {}", flags.source, report.source_format, flags.output.path,
                         report.target_format, counted(report.tensors, "tensor"), human_size(report.payload_bytes)));
  print_convert_report(report, flags.output.options, console);
  print_casts(*flags.casts, console);
}

constexpr const char* kConvertAbout =
    "A converted model runs in the target format. If that is impossible, nothing is written and the error says what\n"
    "would work instead. Converting between Hugging Face folders, GGUF and gpt.rs checkpoints therefore translates\n"
    "tensor names and layouts, config, tokenizer and chat template. A destination folder gets model.safetensors and\n"
    "all files that belong with it. --container-only keeps names and layouts, whether or not the result runs.\n"
    "\n"
    "Nothing is lost: what the target format has no field for is stored in its metadata as ballast.origin and\n"
    "restored when you convert back. If something cannot be stored at all, the command lists it and stops with exit\n"
    "code 2. The destination appears complete or not at all.\n"
    "\n"
    "After --only and --exclude have selected the tensors, --rename, --renumber, --skip-enum-variants, --adapt,\n"
    "--dtype, --dequantize and --half are applied in the order given. --rename splits at the first =; write \\= for\n"
    "an = in the pattern.\n";

constexpr const char* kConvertExamples =
    "Examples:\n"
    "  ballast convert llama_model small_llama.gguf\n"
    "  ballast convert llama.gguf llama_folder/ --dequantize f16\n"
    "  ballast convert model.bpk model.safetensors\n"
    "  ballast convert model.safetensors model.gptrs --config config.json\n"
    "  ballast convert big.npz out.safetensors --only '^encoder\\.' --shard-size 2GiB\n"
    "  ballast convert model.npz model.safetensors --dry-run\n"
    "  ballast convert bert_folder half_folder/ --dtype bf16 --shard-size 2GiB\n"
    "  ballast convert model.safetensors renamed.safetensors --rename '^model\\.=' --rename 'h\\.(\\d+)=blocks.$1'\n"
    "  ballast convert model.safetensors half.safetensors --dtype bf16 --keep norm\n"
    "  ballast convert model.gguf tensors.safetensors --container-only --dequantize f16\n"
    "  ballast convert torch.safetensors model.bpk --adapt pytorch-to-burn --renumber --ambiguous linear\n"
    "  ballast convert checkpoint.gptrs gpt2.safetensors --adapt gptrs-to-huggingface --write-config gpt2.json\n"
    "  cat model.safetensors | ballast convert - - --to burnpack | ballast inspect -\n";

}  // namespace

RunCommand add_convert(CLI::App& program, Console& console) {
  Command command(program, "convert", "Convert a model or weight file to another format, without loss");
  auto flags = std::make_shared<ConvertFlags>();
  ConvertOptions& options = flags->output.options;
  command.path("SRC", flags->source, "File or folder to convert; - is standard input").or_model();
  command.path("DST", flags->output.path,
               "Output file, in the format of its extension unless --to is given; a name ending in / becomes a Hugging "
               "Face folder; - is standard output");
  command.patterns("--only", options.only, "Convert only tensors whose name matches; may be repeated");
  command.patterns("--exclude", options.exclude, "Skip tensors whose name matches; may be repeated");
  add_exact_option(command, flags->edits);
  add_name_flags(command, flags->edits);
  command.flag("--skip-enum-variants", flags->edits.skip_enum_variants,
               "Remove Rust enum variants from names: a.BaseConv.weight becomes a.weight");
  add_adapt_flags(command, flags->edits);
  add_cast_flags(command, flags->edits);
  command.text("--config", "FILE", flags->output.config_path, "Read the model config (JSON) for formats that need one");
  flags->huggingface.add_flags(command);
  command.size("--shard-size", options.write.format.shard_size, "Start a new file before this size: 500MB, 2GiB");
  add_container_flag(command, flags->output);
  add_output_flags(command, flags->output);
  command.json(flags->json);
  command.footer(fmt::format("{}\n{}{}", kConvertAbout, adapters_text(), kConvertExamples));
  return [flags, command, &console] {
    return write_through(flags->output, flags->json, console, [&](const Output& output) -> Status {
      const ConvertTask task{*flags, command, output, console};
      BALLAST_TRY(const ConvertReport report, convert(task));
      if (flags->json) console.out() += convert_json(*flags, report);
      else print_convert(*flags, report, console);
      return {};
    });
  };
}

}  // namespace ballast::cli
