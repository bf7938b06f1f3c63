#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/model_output.h"
#include "apps/ballast/output/text.h"
#include "ballast/archive/assemble.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

struct MergeFlags {
  std::vector<std::string> sources;
  std::vector<std::string> prefixes;  // INPUT=PREFIX
  std::string config_from;
  Prefer prefer = Prefer::kNeither;
  OutputFlags output;
  bool json = false;
};

struct Merged {
  ConvertReport report;
  MergeReport merge;
};

// The input that `word` names: its path as given, or its place from 1.
Result<size_t> find_input(const std::vector<std::string>& sources, std::string_view word, std::string_view option) {
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == word) return i;
  }
  size_t number = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (failure == std::errc() && end == word.data() + word.size() && number >= 1 && number <= sources.size()) {
    return number - 1;
  }
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: \"{}\" is not one of the files to merge; give one of them, or a position from 1 to {}", option,
                  word, sources.size()));
}

Result<std::vector<std::string>> find_prefixes(const MergeFlags& flags) {
  std::vector<std::string> prefixes(flags.sources.size());
  for (const std::string& text : flags.prefixes) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("--prefix {}: write FILE=PREFIX, such as encoder.npz=enc.", text));
    }
    BALLAST_TRY(const size_t input, find_input(flags.sources, text.substr(0, equals), "--prefix"));
    prefixes[input] = text.substr(equals + 1);
  }
  return prefixes;
}

// What the merged files are parts of decides where the result runs. A prefix makes other names of them: no model asks
// for those.
Result<ExchangePlan> plan_merged(MergeFlags& flags, const std::vector<Archive>& archives, const FormatDriver& format) {
  if (flags.output.container_only || !flags.prefixes.empty()) return ExchangePlan();
  keep_output_runnable(flags.output, format);  // whole only once they are together
  for (size_t i = 0; i < archives.size(); ++i) {
    const ExchangeSource source{flags.sources[i], archives[i]};
    BALLAST_TRY(const ModelForm form, find_model_form(archives[i].description(), source.path));
    if (form == ModelForm::kNone) continue;
    BALLAST_TRY(ExchangePlan plan, plan_output(source, flags.output, format));
    if (!plan.is_new_form) return plan;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: merge keeps names and layouts, but {} needs different ones: merge into the "
                                  "source format, then use `ballast convert`; or give --container-only",
                                  source.path, format.name));
  }
  return ExchangePlan();
}

Result<Merged> merge(MergeFlags& flags, const Output& output, Console& console) {
  ConvertOptions& options = flags.output.options;
  BALLAST_TRY(const FormatDriver* format, choose_output_format(flags.output));
  BALLAST_CHECK(refuse_repeated_stream(flags.sources));
  for (const std::string& source : flags.sources) BALLAST_CHECK(refuse_same_file(source, flags.output));
  BALLAST_TRY(const std::vector<std::string> prefixes, find_prefixes(flags));
  MergeOptions merging{.prefer = flags.prefer, .config_from = std::nullopt, .threads = options.threads, .progress = {}};
  if (!flags.config_from.empty()) {
    BALLAST_TRY(merging.config_from, find_input(flags.sources, flags.config_from, "--config-from"));
  }
  std::vector<Archive> archives;
  for (const std::string& source : flags.sources) {
    BALLAST_TRY(Archive archive, open_input(source, FileAccess::kPositional));
    archives.push_back(std::move(archive));
  }
  BALLAST_TRY(const ExchangePlan exchange, plan_merged(flags, archives, *format));
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  flags.output.options.keep_order = false;
  merging.progress = options.write.progress;
  std::vector<MergeInput> inputs;
  std::vector<std::string> notes;
  for (size_t i = 0; i < archives.size(); ++i) {
    BALLAST_TRY(WritePlan plan, make_full_plan(archives[i], notes,
                                               {.tie_for = options.tie ? format : nullptr,
                                                .threads = options.threads,
                                                .progress = options.write.progress}));
    inputs.push_back({flags.sources[i], std::move(plan), prefixes[i]});
  }
  Merged merged;
  BALLAST_TRY(WritePlan plan, merge_plans(std::move(inputs), merging, merged.merge));
  BALLAST_TRY(merged.report, write_planned(std::move(plan), exchange, flags.output, *format));
  merged.report.notes.insert(merged.report.notes.begin(), notes.begin(), notes.end());
  return merged;
}

std::string merge_json(const MergeFlags& flags, const Merged& merged) {
  JsonWriter json;
  json.begin_object().key("sources").begin_array();
  for (const std::string& source : flags.sources) json.string(json_text(source));
  json.end_array();
  add_text(json, "destination", flags.output.path);
  add_text(json, "format", merged.report.target_format);
  add_boolean(json, "dry_run", flags.output.options.dry_run);
  add_number(json, "tensors", merged.report.tensors);
  add_number(json, "payload_bytes", merged.report.payload_bytes);
  add_number(json, "equal", merged.merge.equal);
  add_number(json, "preferred", merged.merge.preferred);
  add_convert_report(json, merged.report);
  json.end_object();
  return json.take() + '\n';
}

void print_merge(const MergeFlags& flags, const Merged& merged, Console& console) {
  print_line(console, Paint::kBold, flags.output.options.dry_run ? "would merge" : "merged",
             fmt::format("{} into {} ({}): {}, {}", counted(flags.sources.size(), "file"), flags.output.path,
                         merged.report.target_format, counted(merged.report.tensors, "tensor"),
                         human_size(merged.report.payload_bytes)));
  if (merged.merge.equal != 0) {
    print_note(console, Paint::kDim,
               fmt::format("{} in several files with the same content", counted(merged.merge.equal, "tensor")));
  }
  if (merged.merge.preferred != 0) {
    print_note(
        console, Paint::kYellow,
        fmt::format("{} in several files with different content; the {} was taken",
                    counted(merged.merge.preferred, "tensor"), flags.prefer == Prefer::kFirst ? "first" : "last"));
  }
  print_convert_report(merged.report, flags.output.options, console);
}

constexpr const char* kMergeFooter =
    "Writes all tensors in the order of the files. A name that occurs in several files with identical content is\n"
    "written once; with different content it is an error unless --prefer chooses one or --prefix renames them.\n"
    "Metadata follows the same rule. The model config is kept if there is exactly one, and the result runs in the\n"
    "format of its parts; --container-only merges into any format.\n"
    "\n"
    "Examples:\n"
    "  ballast merge encoder.safetensors decoder.safetensors -o model.safetensors\n"
    "  ballast merge base.safetensors finetuned.safetensors -o all.safetensors --prefer last\n"
    "  ballast merge a.npz b.npz -o both.npz --prefix a.npz=left. --prefix b.npz=right.\n";

}  // namespace

RunCommand add_merge(CLI::App& program, Console& console) {
  Command command(program, "merge", "Combine the tensors of several files");
  auto flags = std::make_shared<MergeFlags>();
  command.paths("PATH", flags->sources, "Files to merge; - is standard input");
  command.text(
      "-o,--output", "OUT", flags->output.path,
      "Output file; its extension determines the format unless --to does; a folder (ending in /) for a Hugging Face "
      "model; - is standard output");
  command.choice("--prefer", "WHICH", flags->prefer, {{"first", Prefer::kFirst}, {"last", Prefer::kLast}},
                 "Where files disagree, take the first or the last");
  command.texts("--prefix", "FILE=TEXT", flags->prefixes, "Prefix the tensor names of one file");
  command.text("--config-from", "FILE", flags->config_from,
               "Take the model config from this file, or position (1, 2, ...)");
  add_container_flag(command, flags->output);
  add_output_flags(command, flags->output);
  command.json(flags->json);
  command.footer(kMergeFooter);
  return [flags, &console] {
    if (flags->output.path.empty()) {
      return console.fail(make_error(ErrorCode::kInvalidArgument, "no output: give -o OUT"), flags->json);
    }
    return write_through(flags->output, flags->json, console, [&](const Output& output) -> Status {
      BALLAST_TRY(const Merged merged, merge(*flags, output, console));
      if (flags->json) console.out() += merge_json(*flags, merged);
      else print_merge(*flags, merged, console);
      return {};
    });
  };
}

}  // namespace ballast::cli
