#include "ballast/archive/convert.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/convert_report.h"
#include "apps/ballast/edit_flags.h"
#include "apps/ballast/file_names.h"
#include "apps/ballast/flags.h"
#include "apps/ballast/huggingface_flags.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/output_flags.h"
#include "apps/ballast/output_format.h"
#include "apps/ballast/progress_bar.h"
#include "apps/ballast/text.h"
#include "ballast/archive/model_folder.h"
#include "ballast/archive/open.h"
#include "ballast/archive/pattern.h"
#include "ballast/formats/netcl.h"
#include "ballast/io/staging_folder.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

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

Result<ConvertReport> convert(const ConvertTask& task, const Archive& source, const FormatDriver* format,
                              std::vector<PlanEdit> first_edits = {}) {
  const auto& [flags, command, output, console] = task;
  ConvertOptions& options = flags.output.options;
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  AdaptOptions adapt = adapt_options(flags.edits);
  if (format->config_schema == kNetclSchema) adapt.netcl_config = options.config_text;
  BALLAST_CHECK(flags.huggingface.prepare(flags.edits.adapters, flags.source, flags.output.config_path,
                                          options.config_text, adapt));
  BALLAST_TRY(options.edits, make_edits(command, flags.edits, adapt, flags.casts));
  options.edits.insert(options.edits.begin(), first_edits.begin(), first_edits.end());
  for (const std::string& name : flags.edits.exact) options.only.push_back(exactly(name));
  BALLAST_CHECK(flags.huggingface.open_output(options.write.commit, options.dry_run));
  BALLAST_TRY(ConvertReport report, convert_archive(source, flags.output.path, *format, options));
  BALLAST_TRY(const std::string config, flags.huggingface.write_output());
  if (!config.empty()) report.written.files.push_back(config);
  return report;
}

// ---------------------------------------------------------------- what stands beside the weights

// Read, not mapped: pages of a mapping would count as memory, and a source that shrinks meanwhile is then an error.
Result<Archive> open_source(const ConvertFlags& flags) { return open_input(flags.source, FileAccess::kPositional); }

// Files beside the source's weights that make them a model; adapters bring a config of their own.
Result<std::vector<std::string>> companions_of(const ConvertFlags& flags, const Description& source) {
  if (is_stream(flags.source) || !flags.edits.adapters.empty() || !takes_config_from_folder(source)) {
    return std::vector<std::string>();
  }
  return list_companions(flags.source);
}

fs::path source_folder(const ConvertFlags& flags) {
  return names_a_folder(flags.source) ? fs::path(flags.source) : fs::path(flags.source).parent_path();
}

Status copy_companions(const ConvertFlags& flags, const std::vector<std::string>& names, const fs::path& folder) {
  AtomicFiles files(flags.output.options.write.commit);
  for (const std::string& name : names) {
    std::error_code failure;
    fs::create_directories((folder / name).parent_path(), failure);
    BALLAST_TRY(const auto source, open_file((source_folder(flags) / name).string(), FileAccess::kPositional));
    BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
    BALLAST_TRY(ByteSink* const sink, files.add((folder / name).string(), bytes.size()));
    BALLAST_CHECK(sink->write(bytes));
  }
  return files.commit();
}

// Nothing stays behind unsaid.
void note_left_behind(const ConvertFlags& flags, const std::vector<std::string>& names, ConvertReport& report) {
  std::error_code none;
  const fs::path beside = fs::absolute(flags.output.path, none).parent_path();
  if (names.empty() || is_stream(flags.output.path) || fs::equivalent(beside, source_folder(flags), none)) return;
  report.notes.push_back(
      fmt::format("{} stay{} in {}: running the model needs them beside its weights; a folder as "
                  "destination (out/) takes them along",
                  fmt::join(names, ", "), names.size() == 1 ? "s" : "", source_folder(flags).string()));
}

Result<ConvertReport> convert_to_file(const ConvertTask& task) {
  const ConvertFlags& flags = task.flags;
  BALLAST_TRY(const FormatDriver* format, choose_format(flags.output.format, flags.output.path));
  BALLAST_CHECK(refuse_same_file(flags.source, flags.output));
  BALLAST_TRY(const Archive source, open_source(flags));
  BALLAST_TRY(const std::vector<std::string> companions, companions_of(flags, source.description()));
  BALLAST_TRY(ConvertReport report, convert(task, source, format));
  note_left_behind(flags, companions, report);
  return report;
}

Status leave_config_out(WritePlan& plan, std::vector<std::string>&) {
  plan.description.config.reset();
  return {};
}

// The folder appears whole: weights under the name that Hugging Face's have, and what stood beside the source's.
Result<ConvertReport> convert_to_folder(const ConvertTask& task) {
  ConvertFlags& flags = task.flags;
  const std::string folder = flags.output.path;
  BALLAST_TRY(const FormatDriver* format,
              choose_format(flags.output.format.empty() ? "safetensors" : flags.output.format, ""));
  BALLAST_TRY(const Archive source, open_source(flags));
  BALLAST_TRY(const std::vector<std::string> companions, companions_of(flags, source.description()));
  std::vector<PlanEdit> edits;
  if (!companions.empty()) edits.emplace_back(leave_config_out);  // config.json is carried as a file
  std::optional<StagingFolder> staging;
  if (!flags.output.options.dry_run) {
    StagingOptions place{.sync = !flags.output.no_sync};
    if (flags.output.options.write.commit.overwrite) place.replaces = is_model_folder_file;
    BALLAST_TRY(StagingFolder made, StagingFolder::create(folder, std::move(place)));
    staging.emplace(std::move(made));
  }
  const fs::path inside = staging ? staging->path() : folder;
  flags.output.path = (inside / ("model" + std::string(format->extensions.front()))).string();
  auto report = convert(task, source, format, std::move(edits));
  flags.output.path = folder;
  if (!report || !staging) return report;
  BALLAST_CHECK(copy_companions(flags, companions, inside));
  BALLAST_CHECK(staging->publish());
  for (std::string& file : report->written.files) file = (fs::path(folder) / fs::path(file).filename()).string();
  for (const std::string& name : companions) report->written.files.push_back((fs::path(folder) / name).string());
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
                         report.target_format, counted(report.tensors, "tensor"), mib(report.payload_bytes)));
  print_convert_report(report, flags.output.options, console);
  print_casts(*flags.casts, console);
}

constexpr const char* kConvertAbout =
    "Nothing is lost: what the target has no field for travels in its metadata as ballast.origin and comes back when "
    "the\n"
    "file is converted again. Where even that is impossible the command says what would be lost and stops with exit\n"
    "code 2. The destination appears whole or not at all. A folder as destination gets what stands beside the weights "
    "of\n"
    "a Hugging Face folder too (config.json, the tokenizer, the chat template); for a file, what stays behind is "
    "named.\n"
    "\n"
    "--rename, --renumber, --skip-enum-variants, --adapt, --dtype, --dequantize and --half change tensors in the order "
    "in\n"
    "which they stand on the command line, each what the one before has left, after --only and --exclude. In --rename "
    "the first "
    "=\n"
    "splits; \\= is an = of the expression.\n";

constexpr const char* kConvertExamples =
    "Examples:\n"
    "  ballast convert model.bpk model.safetensors\n"
    "  ballast convert model.safetensors model.gptrs --config config.json\n"
    "  ballast convert big.npz out.safetensors --only '^encoder\\.' --shard-size 2GiB\n"
    "  ballast convert model.npz model.safetensors --dry-run\n"
    "  ballast convert bert_folder half_folder/ --dtype bf16 --shard-size 2GiB\n"
    "  ballast convert model.safetensors renamed.safetensors --rename '^model\\.=' --rename 'h\\.(\\d+)=blocks.$1'\n"
    "  ballast convert model.safetensors half.safetensors --dtype bf16 --keep norm\n"
    "  ballast convert model.gguf model.safetensors --dequantize f16\n"
    "  ballast convert torch.safetensors model.bpk --adapt pytorch-to-burn --renumber --ambiguous linear\n"
    "  ballast convert checkpoint.gptrs gpt2.safetensors --adapt gptrs-to-huggingface --write-config gpt2.json\n"
    "  cat model.safetensors | ballast convert - - --to burnpack | ballast inspect -\n";

}  // namespace

RunCommand add_convert(CLI::App& program, Console& console) {
  Command command(program, "convert", "Write a weight file in another format, without loss");
  auto flags = std::make_shared<ConvertFlags>();
  ConvertOptions& options = flags->output.options;
  command.path("SRC", flags->source, "What to convert; - is standard input").or_model();
  command.path("DST", flags->output.path,
               "Where to; its extension tells the format unless --to does; a folder (ending in /) gets "
               "model.safetensors; - is standard output");
  command.patterns("--only", options.only, "Take only tensors whose name this finds; may be repeated");
  command.patterns("--exclude", options.exclude, "Leave out tensors whose name this finds; may be repeated");
  add_exact_option(command, flags->edits);
  add_name_flags(command, flags->edits);
  command.flag("--skip-enum-variants", flags->edits.skip_enum_variants,
               "Leave variants of Rust enums out of names: a.BaseConv.weight becomes a.weight");
  add_adapt_flags(command, flags->edits);
  add_cast_flags(command, flags->edits);
  command.text("--config", "FILE", flags->output.config_path, "Model config (JSON) for formats that need one");
  flags->huggingface.add_flags(command);
  command.size("--shard-size", options.write.format.shard_size, "Start a new file before this many bytes: 500MB, 2GiB");
  add_output_flags(command, flags->output);
  command.json(flags->json);
  command.footer(fmt::format("{}\n{}{}", kConvertAbout, adapters_text(), kConvertExamples));
  return [flags, command, &console] {
    return write_through(flags->output, flags->json, console, [&](const Output& output) -> Status {
      const ConvertTask task{*flags, command, output, console};
      BALLAST_TRY(const ConvertReport report,
                  names_a_folder(flags->output.path) ? convert_to_folder(task) : convert_to_file(task));
      if (flags->json) console.out() += convert_json(*flags, report);
      else print_convert(*flags, report, console);
      return {};
    });
  };
}

}  // namespace ballast::cli
