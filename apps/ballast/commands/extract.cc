#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/file_names.h"
#include "apps/ballast/flags/output_flags.h"
#include "apps/ballast/flags/tensor_choice.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/output_format.h"
#include "apps/ballast/output/text.h"
#include "ballast/archive/assemble.h"
#include "ballast/base/human_size.h"
#include "ballast/io/staging_folder.h"

namespace ballast::cli {

namespace {

struct ExtractFlags {
  std::string source;
  std::vector<std::string> names;
  std::vector<std::string> only;
  std::vector<std::string> exclude;
  std::string each;
  OutputFlags output;
  bool json = false;
};

// ---------------------------------------------------------------- which tensors

// By position: whether one of the words names the tensor.
Result<std::vector<bool>> find_named(const WritePlan& plan, const ExtractFlags& flags) {
  const auto& tensors = plan.description.tensors;
  std::vector<bool> named(tensors.size());
  for (const std::string& word : flags.names) {
    const auto found = find_tensor(tensors, word);
    if (!found) return no_such_tensor(tensors, flags.source, word);
    named[*found] = true;
  }
  return named;
}

Status keep_selected(const ExtractFlags& flags, WritePlan& plan) {
  BALLAST_TRY(const std::vector<bool> named, find_named(plan, flags));
  BALLAST_TRY(const auto only, Pattern::compile_all(flags.only));
  BALLAST_TRY(const auto exclude, Pattern::compile_all(flags.exclude));
  const bool all = flags.names.empty() && only.empty();
  std::vector<bool> keep;
  for (const TensorInfo& tensor : plan.description.tensors) {
    BALLAST_TRY(const bool found, any_found(only, tensor.name));
    BALLAST_TRY(const bool unwanted, any_found(exclude, tensor.name));
    keep.push_back((all || found || named[keep.size()]) && !unwanted);
  }
  keep_tensors(plan, keep);
  if (!plan.description.tensors.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument, "NAME, --only and --exclude leave no tensor to extract");
}

// ---------------------------------------------------------------- writing

// One tensor as NumPy knows it: an array, without name, ids and file around it.
WritePlan bare_array(const WritePlan& plan, size_t index) {
  TensorInfo info;
  info.name = "arr_0";
  info.dtype = plan.description.tensors[index].dtype;
  info.shape = plan.description.tensors[index].shape;
  info.byte_size = plan.description.tensors[index].byte_size;
  info.set_scheme(plan.description.tensors[index].scheme());
  WritePlan bare;
  bare.description.format = plan.description.format;
  bare.add_tensor(std::move(info), plan.providers[index]);
  return bare;
}

void add_up(ConvertReport& total, ConvertReport part, const std::string& tensor) {
  total.source_format = part.source_format;
  total.target_format = part.target_format;
  total.tensors += part.tensors;
  total.payload_bytes += part.payload_bytes;
  for (Loss& loss : part.losses) {
    if (!loss.tensor.empty()) loss.tensor = tensor;
    total.losses.push_back(std::move(loss));
  }
  total.written.bytes += part.written.bytes;
}

Result<ConvertReport> extract_each(const ExtractFlags& flags, const WritePlan& plan, const ConvertOptions& options) {
  const FormatDriver& npy = *find_format("npy");
  const auto& tensors = plan.description.tensors;
  std::map<std::string, const std::string*> names;
  for (const TensorInfo& tensor : tensors) {
    BALLAST_TRY(const std::string name, safe_file_name(tensor.name));
    // On a file system that ignores case one would replace the other.
    std::string folded = name;
    std::ranges::transform(folded, folded.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    const auto [known, is_new] = names.try_emplace(std::move(folded), &tensor.name);
    if (is_new) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensors \"{}\" and \"{}\" would share a file on systems that ignore case",
                                  *known->second, tensor.name));
  }
  ConvertReport total;
  if (options.dry_run) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      BALLAST_TRY(ConvertReport part, convert_plan(bare_array(plan, i), "arr.npy", npy, options));
      add_up(total, std::move(part), tensors[i].name);
    }
    return total;
  }
  StagingOptions place{.sync = options.write.commit.sync};
  if (options.write.commit.overwrite) place.replaces = [](std::string_view name) { return name.ends_with(".npy"); };
  BALLAST_TRY(StagingFolder staging, StagingFolder::create(flags.each, std::move(place)));
  for (size_t i = 0; i < tensors.size(); ++i) {
    BALLAST_TRY(const std::string name, safe_file_name(tensors[i].name));
    auto part = convert_plan(bare_array(plan, i), staging.path() + "/" + name + ".npy", npy, options);
    if (!part) return staging.meant(std::move(part).error());
    add_up(total, *std::move(part), tensors[i].name);
    total.written.files.push_back((std::filesystem::path(flags.each) / (name + ".npy")).string());
  }
  BALLAST_CHECK(staging.publish());
  return total;
}

Result<ConvertReport> extract(ExtractFlags& flags, const Output& output, Console& console) {
  const FormatDriver* format = nullptr;
  if (flags.each.empty()) BALLAST_CHECK(assign(format, choose_format(flags.output.format, flags.output.path)));
  BALLAST_CHECK(refuse_same_file(flags.source, flags.output));
  BALLAST_TRY(const Archive source, open_input(flags.source, FileAccess::kPositional));
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  flags.output.options.keep_order = false;
  const ConvertOptions& options = flags.output.options;
  std::vector<std::string> notes;
  BALLAST_TRY(WritePlan plan, make_full_plan(source, notes,
                                             {.tie_for = options.tie ? format : nullptr,
                                              .threads = options.threads,
                                              .progress = options.write.progress}));
  BALLAST_CHECK(keep_selected(flags, plan));
  if (format == nullptr) return extract_each(flags, plan, options);
  if (format->name == "npy" && plan.providers.size() == 1) plan = bare_array(plan, 0);
  BALLAST_TRY(ConvertReport report, convert_plan(std::move(plan), flags.output.path, *format, options));
  report.source_format = source.description().format;
  report.notes.insert(report.notes.begin(), notes.begin(), notes.end());
  return report;
}

// ---------------------------------------------------------------- saying so

std::string extract_json(const ExtractFlags& flags, const ConvertReport& report) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "source", flags.source);
  add_text(json, "source_format", report.source_format);
  add_text(json, "destination", flags.each.empty() ? flags.output.path : flags.each);
  add_text(json, "format", report.target_format);
  add_boolean(json, "dry_run", flags.output.options.dry_run);
  add_number(json, "tensors", report.tensors);
  add_number(json, "payload_bytes", report.payload_bytes);
  add_convert_report(json, report);
  json.end_object();
  return json.take() + '\n';
}

void print_extract(const ExtractFlags& flags, ConvertReport report, Console& console) {
  const bool dry = flags.output.options.dry_run;
  print_line(
      console, Paint::kBold, dry ? "would extract" : "extracted",
      fmt::format("{}, {} from {} to {} ({})", counted(report.tensors, "tensor"), human_size(report.payload_bytes),
                  flags.source, flags.each.empty() ? flags.output.path : flags.each, report.target_format));
  if (!flags.each.empty()) report.written.files.clear();  // as many as tensors
  print_convert_report(report, flags.output.options, console);
}

constexpr const char* kExtractFooter =
    "Without NAME and --only, extracts all tensors. Metadata and config are kept if the format can store them; an\n"
    ".npy file holds only the array. --each creates a new folder; in its file names every character except letters,\n"
    "digits, '.', '-' and '_' becomes %XX.\n"
    "\n"
    "Examples:\n"
    "  ballast extract model.safetensors -o embedding.npy wte.weight\n"
    "  ballast extract model.gptrs -o block0.safetensors --only '^blocks\\.0\\.'\n"
    "  ballast extract model.bpk --each arrays\n"
    "  ballast extract model.npz -o - --to npy head | python3 -c 'import io, sys, numpy; "
    "print(numpy.load(io.BytesIO(sys.stdin.buffer.read())))'\n";

}  // namespace

RunCommand add_extract(CLI::App& program, Console& console) {
  Command command(program, "extract", "Copy selected tensors to a file of any format");
  auto flags = std::make_shared<ExtractFlags>();
  command.path("PATH", flags->source, "Source file; - is standard input").or_model();
  command.optional_texts("NAME", flags->names, "Exact names of tensors, or their ids");
  const Flag out =
      command.text("-o,--output", "OUT", flags->output.path,
                   "Output file; its extension determines the format unless --to does; - is standard output");
  command.written_folder("--each", "DIR", flags->each, "Write one .npy file per tensor into this new folder")
      .excludes(out);
  command.patterns("--only", flags->only, "Extract tensors whose name matches; may be repeated");
  command.patterns("--exclude", flags->exclude, "Skip tensors whose name matches; may be repeated");
  add_output_flags(command, flags->output);
  command.json(flags->json);
  command.footer(kExtractFooter);
  return [flags, &console] {
    if (flags->each.empty() && flags->output.path.empty()) {
      return console.fail(make_error(ErrorCode::kInvalidArgument, "no output: give -o OUT or --each DIR"), flags->json);
    }
    return write_through(flags->output, flags->json, console, [&](const Output& output) -> Status {
      BALLAST_TRY(ConvertReport report, extract(*flags, output, console));
      if (flags->json) console.out() += extract_json(*flags, report);
      else print_extract(*flags, std::move(report), console);
      return {};
    });
  };
}

}  // namespace ballast::cli
