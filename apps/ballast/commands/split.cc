#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/file_names.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/model_output.h"
#include "apps/ballast/output/output_format.h"
#include "apps/ballast/output/text.h"
#include "ballast/archive/assemble.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlaceholder = "{}";
// Each part needs an open file until all are whole.
constexpr size_t kMostParts = 900;

struct SplitFlags {
  std::string source;
  std::string by;
  uint64_t shard_size = 0;
  uint64_t count = 0;
  OutputFlags output;
  bool json = false;
};

struct Part {
  std::string label;
  ConvertReport report;
};

// ---------------------------------------------------------------- names

// Makes a folder that is not there, and takes it away again unless something came of it.
class NewFolder {
 public:
  Status make(const std::string& path, bool dry_run) {
    std::error_code failure;
    if (dry_run || fs::is_directory(path, failure)) return {};
    if (!fs::create_directory(path, failure)) {
      return make_error(ErrorCode::kIo, fmt::format("{}: cannot create the folder: {}", path, failure.message()));
    }
    made_ = path;
    return {};
  }
  void keep() { made_.clear(); }
  ~NewFolder() {
    std::error_code ignored;
    if (!made_.empty()) fs::remove(made_, ignored);
  }

 private:
  fs::path made_;  // as it is removed, so that this needs no memory
};

// The name of the source without the ending of its format.
std::string stem_of(const std::string& source) {
  if (is_stream(source)) return "part";
  fs::path path = fs::path(source).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.filename().string();
  if (const FormatDriver* format = format_for_extension(name)) {
    for (const std::string_view extension : format->extensions) {
      if (name.size() > extension.size() && name.ends_with(extension)) {
        name.resize(name.size() - extension.size());
        break;
      }
    }
  }
  return name;
}

Result<std::string> part_path(const SplitFlags& flags, const FormatDriver& format, const std::string& label) {
  BALLAST_TRY(const std::string safe, safe_file_name(label));
  const std::string& pattern = flags.output.path;
  if (names_a_folder(pattern)) {
    return (fs::path(pattern) / fmt::format("{}-{}{}", stem_of(flags.source), safe, format.extensions.front()))
        .string();
  }
  const size_t at = pattern.find(kPlaceholder);
  return pattern.substr(0, at) + safe + pattern.substr(at + kPlaceholder.size());
}

Status check_pattern(const SplitFlags& flags) {
  const std::string& pattern = flags.output.path;
  if (pattern.empty()) return make_error(ErrorCode::kInvalidArgument, "no output: give -o with a folder or a pattern");
  if (is_stream(pattern)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "cannot write several files to standard output: give -o with a path");
  }
  if (names_a_folder(pattern) || pattern.find(kPlaceholder) != std::string::npos) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: neither a folder nor a pattern; end it with / to create a folder, or put {{}} "
                                "where the name of each part goes",
                                pattern));
}

Result<const FormatDriver*> choose_part_format(const SplitFlags& flags, const Archive& source) {
  if (!flags.output.format.empty()) return choose_format(flags.output.format, "");
  if (!names_a_folder(flags.output.path)) return choose_format("", flags.output.path);
  return choose_format(source.description().format, "");
}

// ---------------------------------------------------------------- splitting

Result<std::vector<PlanPart>> make_parts(const SplitFlags& flags, const WritePlan& plan) {
  if (flags.shard_size != 0) return split_by_size(plan, flags.shard_size);
  if (flags.count != 0) return split_by_count(plan, static_cast<size_t>(flags.count));
  BALLAST_TRY(const Pattern pattern, Pattern::compile(flags.by));
  return split_by_pattern(plan, pattern);
}

// A sharded set with its index, where the format has such a thing.
Result<std::vector<Part>> write_shards(SplitFlags& flags, const FormatDriver& format, WritePlan plan) {
  ConvertOptions& options = flags.output.options;
  options.write.format.shard_size = flags.shard_size;
  std::string path = flags.output.path;
  if (names_a_folder(path))
    path = (fs::path(path) / (stem_of(flags.source) + std::string(format.extensions.front()))).string();
  BALLAST_TRY(ConvertReport report, convert_plan(std::move(plan), path, format, options));
  return std::vector<Part>{{"", std::move(report)}};
}

Result<std::vector<Part>> write_parts(SplitFlags& flags, const FormatDriver& format, const WritePlan& plan) {
  ConvertOptions& options = flags.output.options;
  BALLAST_TRY(std::vector<PlanPart> parts, make_parts(flags, plan));
  if (parts.size() > kMostParts) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("cannot write {} parts at once (at most {}); choose larger parts", parts.size(), kMostParts));
  }
  AtomicFiles set(options.write.commit);
  options.write.set = &set;
  std::vector<Part> written;
  for (PlanPart& part : parts) {
    BALLAST_TRY(const std::string path, part_path(flags, format, part.label));
    auto report = convert_plan(std::move(part.plan), path, format, options);
    if (!report) return std::move(report).error().with_context(fmt::format("part \"{}\"", part.label));
    if (options.dry_run) report->written.files = {path};
    written.push_back({std::move(part.label), std::move(*report)});
  }
  if (!options.dry_run) BALLAST_CHECK(set.commit());
  return written;
}

struct Split {
  std::vector<Part> parts;
  std::vector<std::string> notes;
  std::string format;
};

// A model as shards with an index and all that belongs beside them: a folder that runs.
Result<std::vector<Part>> write_model_shards(SplitFlags& flags, const FormatDriver& format,
                                             const ExchangePlan& exchange, WritePlan plan) {
  flags.output.options.write.format.shard_size = flags.shard_size;
  BALLAST_TRY(ConvertReport report, write_planned(std::move(plan), exchange, flags.output, format));
  return std::vector<Part>{{"", std::move(report)}};
}

Result<std::vector<Part>> write_files(SplitFlags& flags, const FormatDriver& format, bool as_set, WritePlan plan) {
  NewFolder folder;
  if (names_a_folder(flags.output.path)) {
    BALLAST_CHECK(folder.make(flags.output.path, flags.output.options.dry_run));
  }
  auto parts = as_set ? write_shards(flags, format, std::move(plan)) : write_parts(flags, format, plan);
  if (parts) folder.keep();
  return parts;
}

// nullopt: the source is no model, or only its container is to change.
Result<std::optional<ExchangePlan>> plan_shards(SplitFlags& flags, const Archive& source, const FormatDriver& format,
                                                bool as_set) {
  BALLAST_TRY(const ModelForm form, find_model_form(source.description(), flags.source));
  if (form == ModelForm::kNone || flags.output.container_only) return std::optional<ExchangePlan>();
  if (as_set) {
    BALLAST_TRY(ExchangePlan plan, plan_output({flags.source, source}, flags.output, format));
    if (!plan.is_new_form) return std::optional(std::move(plan));
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: the parts of a model do not run on their own. --shard-size with a folder writes "
                                "shards that do (add `--to safetensors` for sources in other formats); "
                                "--container-only writes parts that `ballast merge` can combine again",
                                flags.source));
}

Result<Split> split(SplitFlags& flags, const Output& output, Console& console) {
  BALLAST_CHECK(check_pattern(flags));
  BALLAST_TRY(const Archive source, open_input(flags.source, FileAccess::kPositional));
  BALLAST_TRY(const FormatDriver* format, choose_part_format(flags, source));
  const bool as_set = flags.shard_size != 0 && format->can_shard && names_a_folder(flags.output.path);
  BALLAST_TRY(const auto exchange, plan_shards(flags, source, *format, as_set));
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  flags.output.options.keep_order = false;
  const ConvertOptions& options = flags.output.options;
  Split result;
  result.format = format->name;
  BALLAST_TRY(WritePlan plan, make_full_plan(source, result.notes,
                                             {.tie_for = options.tie ? format : nullptr,
                                              .threads = options.threads,
                                              .progress = options.write.progress}));
  BALLAST_CHECK(assign(result.parts, exchange ? write_model_shards(flags, *format, *exchange, std::move(plan))
                                              : write_files(flags, *format, as_set, std::move(plan))));
  return result;
}

// ---------------------------------------------------------------- saying so

std::string split_json(const SplitFlags& flags, const Split& split) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "source", flags.source);
  add_text(json, "format", split.format);
  add_boolean(json, "dry_run", flags.output.options.dry_run);
  json.key("notes").begin_array();
  for (const std::string& note : split.notes) json.string(json_text(note));
  json.end_array().key("parts").begin_array();
  for (const Part& part : split.parts) {
    json.begin_object();
    add_text(json, "label", part.label);
    add_number(json, "tensors", part.report.tensors);
    add_number(json, "payload_bytes", part.report.payload_bytes);
    add_convert_report(json, part.report);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take() + '\n';
}

void print_split(const SplitFlags& flags, const Split& split, Console& console) {
  const bool dry = flags.output.options.dry_run;
  for (const std::string& note : split.notes) print_note(console, Paint::kDim, note);
  size_t files = 0;
  for (const Part& part : split.parts) {
    const auto& names = part.report.written.files;
    files += names.size();
    if (names.size() == 1) {
      print_line(console, Paint::kGreen, dry ? "would write" : "wrote",
                 fmt::format("{}: {}, {}", names.front(), counted(part.report.tensors, "tensor"),
                             human_size(part.report.payload_bytes)));
    }
    print_convert_report(part.report, flags.output.options, console);
  }
  if (files != 0) {
    print_line(console, Paint::kBold, dry ? "would split" : "split",
               fmt::format("{} into {} ({})", flags.source, counted(files, "file"), split.format));
  }
}

constexpr const char* kSplitFooter =
    "OUT is a folder (created if it ends in /), whose files are named after PATH, or a pattern in which {} becomes\n"
    "the name of the part: 00001-of-00003, or what the first group of --by matched. Each part is a complete file with\n"
    "the metadata and config of the source; --shard-size into a folder of safetensors writes shards with an index.\n"
    "Either all files appear or none. Tensors that --by does not match go into the part \"rest\".\n"
    "\n"
    "The parts of a model do not run on their own: writing them needs --container-only, and `ballast merge` combines\n"
    "them again. Shards with an index, config and tokenizer do run and need no flag.\n"
    "\n"
    "Examples:\n"
    "  ballast split model.safetensors -o shards/ --shard-size 2GiB\n"
    "  ballast split model.safetensors -o 'part-{}.safetensors' --by '^([^.]+)\\.'\n"
    "  ballast split model.npz -o 'third-{}.npz' --count 3\n";

}  // namespace

RunCommand add_split(CLI::App& program, Console& console) {
  Command command(program, "split", "Distribute the tensors of a file over several files");
  auto flags = std::make_shared<SplitFlags>();
  command.path("PATH", flags->source, "File to split; - is standard input").or_model();
  command.text("-o,--output", "OUT", flags->output.path, "Output folder, or a file name pattern with {}");
  const Flag size = command.size("--shard-size", flags->shard_size, "Start a new file before this size: 500MB, 2GiB");
  const Flag count = command.count("--count", "N", flags->count, "Write N files of similar size", 1);
  command.text("--by", "REGEX", flags->by, "Write one file per value of the first group")
      .excludes(size)
      .excludes(count);
  Flag(count).excludes(size);
  add_container_flag(command, flags->output);
  add_output_flags(command, flags->output);
  command.json(flags->json);
  command.footer(kSplitFooter);
  return [flags, &console] {
    if (flags->shard_size == 0 && flags->count == 0 && flags->by.empty()) {
      return console.fail(
          make_error(ErrorCode::kInvalidArgument, "no way to split: give --shard-size, --count or --by"), flags->json);
    }
    const OutputFlags& out = flags->output;
    return write_through(is_stream(out.path) ? OutputFlags{} : out, flags->json, console,
                         [&](const Output& output) -> Status {
                           BALLAST_TRY(const Split parts, split(*flags, output, console));
                           if (flags->json) console.out() += split_json(*flags, parts);
                           else print_split(*flags, parts, console);
                           return {};
                         });
  };
}

}  // namespace ballast::cli
