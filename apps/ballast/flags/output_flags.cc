#include "apps/ballast/flags/output_flags.h"

#include <fmt/format.h>

#include <filesystem>

#include "ballast/base/json.h"

namespace ballast::cli {

namespace {

// The text of a model config.
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

}  // namespace

void add_output_flags(Command& command, OutputFlags& flags) {
  ConvertOptions& options = flags.options;
  WriteOptions& write = options.write.format;
  command.text("--to", "FORMAT", flags.format, "Write this format; `ballast formats` lists them");
  command.flag("--allow-lossy", options.allow_lossy, "Continue if something cannot be stored, and report the loss");
  command.flag("--dry-run", options.dry_run, "Report what would be written and lost without writing");
  command.flag("--overwrite", options.write.commit.overwrite, "Replace an existing destination");
  command.flag("--compress", write.compress, "Compress (npz)");
  command.text("--target", "NAME", write.target, "Write for older readers: burn-0.20 (burnpack), numpy (npz)");
  command.flag("--allow-half", write.allow_half, "Write f16 and bf16 even though gpt.rs cannot read them");
  command.flag("--no-tie", flags.no_tie, "Store duplicate tensors separately");
  command.flag("--no-sync", flags.no_sync, "Do not wait for the disk: faster, less durable");
  command.threads(options.threads);
}

Status finish_options(OutputFlags& flags, const Output& output, ProgressBar& bar) {
  WriteSettings& write = flags.options.write;
  write.commit.sync = !flags.no_sync;
  write.stream = output.stream();
  write.progress = bar.callback();
  flags.options.tie = !flags.no_tie;
  if (flags.config_path.empty()) return {};
  return assign(flags.options.config_text, read_config(flags.config_path));
}

int write_through(const OutputFlags& flags, bool json, Console& console,
                  const std::function<Status(const Output&)>& work) {
  const auto output = Output::open(flags.path, flags.format, console);
  if (!output) return console.fail(output.error(), json);
  const Status done = work(**output);
  if (done || (*output)->reader_is_gone()) return kExitYes;
  return console.fail(done.error(), json);
}

Status refuse_same_file(const std::string& source, const OutputFlags& flags) {
  std::error_code none;
  const bool same = std::filesystem::equivalent(source, flags.path, none);
  if (!same || flags.options.write.commit.overwrite || flags.options.dry_run) return {};
  return make_error(
      ErrorCode::kExists,
      fmt::format("{}: source and destination are the same file; --overwrite replaces it with the result", flags.path));
}

}  // namespace ballast::cli
