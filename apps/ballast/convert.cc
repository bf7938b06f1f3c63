#include "ballast/archive/convert.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/edit_flags.h"
#include "apps/ballast/flags.h"
#include "apps/ballast/huggingface_flags.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/output_format.h"
#include "apps/ballast/progress_bar.h"
#include "apps/ballast/text.h"
#include "ballast/archive/open.h"
#include "ballast/archive/pattern.h"
#include "ballast/formats/netcl.h"

namespace ballast::cli {

namespace {

struct ConvertFlags {
  std::string source;
  std::string destination;
  std::string format;
  std::string config_path;
  bool no_sync = false;
  bool json = false;
  ConvertOptions options;
  EditFlags edits;
  HuggingFaceConfig huggingface;
  std::shared_ptr<CastLog> casts = std::make_shared<CastLog>();
};

// ---------------------------------------------------------------- what to do

Status refuse_same_file(const ConvertFlags& flags) {
  std::error_code none;
  const bool same = std::filesystem::equivalent(flags.source, flags.destination, none);
  if (!same || flags.options.write.commit.overwrite || flags.options.dry_run) return {};
  return make_error(ErrorCode::kExists,
                    fmt::format("{}: source and destination are the same file; --overwrite replaces it by the result",
                                flags.destination));
}

Result<std::string> read_config(const std::string& path) {
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  std::string text(as_text(bytes));
  JsonReader reader(text, path, 0, JsonReader::Dialect::kPython);
  for (Status status : {reader.skip_value(), reader.finish()}) {
    // A slip of the user's, not a damaged weight file.
    if (!status) return make_error(ErrorCode::kInvalidArgument, "--config: " + status.error().message);
  }
  return text;
}

Result<ConvertReport> convert(ConvertFlags& flags, const Command& command, Console& console) {
  BALLAST_TRY(const FormatDriver* format, choose_format(flags.format, flags.destination));
  BALLAST_CHECK(refuse_same_file(flags));
  if (!flags.config_path.empty()) BALLAST_CHECK(assign(flags.options.config_text, read_config(flags.config_path)));
  AdaptOptions adapt = adapt_options(flags.edits);
  if (format->config_schema == kNetclSchema) adapt.netcl_config = flags.options.config_text;
  BALLAST_CHECK(flags.huggingface.prepare(flags.edits.adapters, flags.source, flags.config_path,
                                          flags.options.config_text, adapt));
  BALLAST_TRY(flags.options.edits, make_edits(command, flags.edits, adapt, flags.casts));
  for (const std::string& name : flags.edits.exact) flags.options.only.push_back(exactly(name));
  // Read, not mapped: pages of a mapping would count as memory, and a source that shrinks meanwhile is then an error.
  BALLAST_TRY(const Archive source, open_archive(flags.source, {.access = FileAccess::kPositional}));
  flags.options.write.commit.sync = !flags.no_sync;
  ProgressBar bar(console.errors());
  flags.options.write.progress = bar.callback();
  BALLAST_CHECK(flags.huggingface.open_output(flags.options.write.commit, flags.options.dry_run));
  BALLAST_TRY(ConvertReport report, convert_archive(source, flags.destination, *format, flags.options));
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
  add_text(json, "destination", flags.destination);
  add_text(json, "format", report.target_format);
  add_boolean(json, "dry_run", flags.options.dry_run);
  add_number(json, "tensors", report.tensors);
  add_number(json, "payload_bytes", report.payload_bytes);
  json.key("notes").begin_array();
  for (const std::string& note : report.notes) json.string(json_text(note));
  json.end_array().key("losses").begin_array();
  for (const Loss& loss : report.losses) {
    json.begin_object();
    if (loss.tensor.empty()) add_null(json, "tensor");
    else add_text(json, "tensor", loss.tensor);
    add_text(json, "what", loss.what);
    if (loss.cast_to) add_text(json, "becomes", dtype_name(*loss.cast_to));
    else add_null(json, "becomes");
    add_boolean(json, "left_out", loss.drop);
    json.end_object();
  }
  json.end_array().key("files").begin_array();
  for (const std::string& file : report.written.files) json.string(json_text(file));
  json.end_array();
  add_number(json, "bytes", report.written.bytes);
  add_casts(json, *flags.casts);
  flags.huggingface.add_to(json);
  json.end_object();
  return json.take() + '\n';
}

void print_convert(const ConvertFlags& flags, const ConvertReport& report, Console& console) {
  const bool dry = flags.options.dry_run;
  std::string& out = console.out();
  const auto line = [&](Paint paint, std::string_view word, std::string_view text) {
    append_painted(out, console.output(), paint, word);
    fmt::format_to(std::back_inserter(out), " {}\n", printable(text));
  };
  line(Paint::kBold, dry ? "would convert" : "converted",
       fmt::format("{} ({}) to {} ({}): {}, {}", flags.source, report.source_format, flags.destination,
                   report.target_format, counted(report.tensors, "tensor"), mib(report.payload_bytes)));
  for (const std::string& note : report.notes) line(Paint::kDim, "note:", note);
  for (const Loss& loss : report.losses) line(Paint::kYellow, dry ? "would be lost:" : "lost:", loss_text(loss));
  if (dry && !report.losses.empty() && !flags.options.allow_lossy) {
    line(Paint::kYellow, "note:", "without --allow-lossy this conversion stops before it writes");
  }
  if (report.written.files.size() > 1) {
    for (const std::string& file : report.written.files) line(Paint::kGreen, "wrote", file);
  }
  print_casts(*flags.casts, console);
}

constexpr const char* kAbout =
    "Nothing is lost: what the target has no field for travels in its metadata as ballast.origin and comes back when "
    "the\n"
    "file is converted again. Where even that is impossible the command says what would be lost and stops with exit\n"
    "code 2. The destination appears whole or not at all.\n"
    "\n"
    "--rename, --renumber, --skip-enum-variants, --adapt, --dtype and --half change tensors in the order in which "
    "they\n"
    "stand on the command line, each what the one before has left, after --only and --exclude. In --rename the first "
    "=\n"
    "splits; \\= is an = of the expression.\n";

constexpr const char* kExamples =
    "Examples:\n"
    "  ballast convert model.bpk model.safetensors\n"
    "  ballast convert model.safetensors model.gptrs --config config.json\n"
    "  ballast convert big.npz out.safetensors --only '^encoder\\.' --shard-size 2GiB\n"
    "  ballast convert model.npz model.safetensors --dry-run\n"
    "  ballast convert model.safetensors renamed.safetensors --rename '^model\\.=' --rename 'h\\.(\\d+)=blocks.$1'\n"
    "  ballast convert model.safetensors half.safetensors --dtype bf16 --keep norm\n"
    "  ballast convert torch.safetensors model.bpk --adapt pytorch-to-burn --renumber --ambiguous linear\n"
    "  ballast convert checkpoint.gptrs gpt2.safetensors --adapt gptrs-to-huggingface --write-config gpt2.json\n";

}  // namespace

RunCommand add_convert(CLI::App& program, Console& console) {
  Command command(program, "convert", "Write a weight file in another format, without loss");
  auto flags = std::make_shared<ConvertFlags>();
  ConvertOptions& options = flags->options;
  WriteOptions& write = options.write.format;
  command.path("SRC", flags->source, "What to convert");
  command.path("DST", flags->destination, "Where to; its extension tells the format unless --to does");
  command.text("--to", "FORMAT", flags->format, "Format to write; `ballast formats` lists them");
  command.patterns("--only", options.only, "Take only tensors whose name this finds; may be repeated");
  command.patterns("--exclude", options.exclude, "Leave out tensors whose name this finds; may be repeated");
  add_exact_option(command, flags->edits);
  add_name_flags(command, flags->edits);
  command.flag("--skip-enum-variants", flags->edits.skip_enum_variants,
               "Leave variants of Rust enums out of names: a.BaseConv.weight becomes a.weight");
  add_adapt_flags(command, flags->edits);
  add_cast_flags(command, flags->edits);
  command.text("--config", "FILE", flags->config_path, "Model config (JSON) for formats that need one");
  flags->huggingface.add_flags(command);
  command.flag("--allow-lossy", options.allow_lossy, "Go on where something cannot be kept, and say what was lost");
  command.flag("--dry-run", options.dry_run, "Say what would be done and lost; write nothing");
  command.flag("--overwrite", options.write.commit.overwrite, "Replace what stands at DST");
  command.flag("--compress", write.compress, "Deflate (npz)");
  command.size("--shard-size", write.shard_size, "Start a new file before this many bytes: 500MB, 2GiB");
  command.text("--target", "NAME", write.target, "Which readers it is for: burn-0.20 (burnpack), numpy (npz)");
  command.flag("--allow-half", write.allow_half, "Write f16 and bf16 although gpt.rs refuses them");
  command.flag("--no-sync", flags->no_sync, "Do not wait until the disk has it: quicker, not durable");
  command.threads(options.threads);
  command.json(flags->json);
  command.footer(fmt::format("{}\n{}{}", kAbout, adapters_text(), kExamples));
  return [flags, command, &console] {
    const Result<ConvertReport> report = convert(*flags, command, console);
    if (!report) return console.fail(report.error(), flags->json);
    if (flags->json) console.out() += convert_json(*flags, *report);
    else print_convert(*flags, *report, console);
    return kExitYes;
  };
}

}  // namespace ballast::cli
