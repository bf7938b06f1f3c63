#include "apps/ballast/output/model_output.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "apps/ballast/flags/file_names.h"
#include "apps/ballast/output/output_format.h"
#include "ballast/archive/model_folder.h"
#include "ballast/archive/open.h"
#include "ballast/io/staging_folder.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kContainerHint = "; --container-only changes the container and keeps names and layouts";

Error with_container_hint(Error error) {
  if (error.code == ErrorCode::kUnsupported) error.message += kContainerHint;
  return error;
}

// Writes the weights to a path.
using WriteWeights = std::function<Result<ConvertReport>(const std::string& path, const ConvertOptions& options)>;

// The folder appears whole: weights under the name that Hugging Face's have, and what belongs beside them.
Result<ConvertReport> write_folder(const WriteWeights& write, const OutputFlags& flags, const std::string& name,
                                   const ExchangePlan& plan) {
  const fs::path folder(flags.path);
  if (flags.options.dry_run) return write((folder / name).string(), flags.options);
  StagingOptions place{.sync = !flags.no_sync};
  if (flags.options.write.commit.overwrite) place.replaces = is_model_folder_file;
  BALLAST_TRY(StagingFolder staging, StagingFolder::create(flags.path, std::move(place)));
  BALLAST_TRY(ConvertReport report, write((fs::path(staging.path()) / name).string(), flags.options));
  BALLAST_CHECK(write_companions(plan.companions, staging.path(), flags.options.write.commit));
  BALLAST_CHECK(staging.publish());
  for (std::string& file : report.written.files) file = (folder / fs::path(file).filename()).string();
  for (const CompanionFile& file : plan.companions) report.written.files.push_back((folder / file.name).string());
  return report;
}

Result<ConvertReport> write_weights(const WriteWeights& write, const ExchangePlan& plan, OutputFlags& flags,
                                    const FormatDriver& format) {
  ConvertOptions& options = flags.options;
  options.edits.insert(options.edits.begin(), plan.edits.begin(), plan.edits.end());
  options.use_origin = !plan.is_new_form;
  BALLAST_TRY(ConvertReport report,
              names_a_folder(flags.path)
                  ? write_folder(write, flags, "model" + std::string(format.extensions.front()), plan)
                  : write(flags.path, options));
  report.notes.insert(report.notes.begin(), plan.notes.begin(), plan.notes.end());
  return report;
}

// What is said of the folder in between is meant of the source.
void name_source(std::string& text, const std::string& folder, const std::string& source) {
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at + source.size())) {
    text.replace(at, folder.size(), source);
  }
}

// Two steps: the folder that the plan describes, in a place that goes away again, and the target from there.
Result<ConvertReport> write_through_folder(const ExchangeSource& source, const ExchangePlan& plan, OutputFlags& flags,
                                           const FormatDriver& format) {
  BALLAST_TRY(const StagingFolder staging, StagingFolder::create(flags.path + ".folder"));
  const fs::path between = fs::path(staging.path()) / fs::path(source.path).stem();
  std::error_code failure;
  fs::create_directory(between, failure);
  ConvertOptions first;
  first.edits = plan.edits;
  first.use_origin = false;
  first.threads = flags.options.threads;
  first.write.progress = flags.options.write.progress;
  first.write.commit.sync = false;
  BALLAST_CHECK(
      convert_archive(source.archive, (between / "model.safetensors").string(), *find_format("safetensors"), first));
  BALLAST_CHECK(write_companions(plan.companions, between.string(), first.write.commit));
  BALLAST_TRY(const Archive folder, open_archive(between.string(), {.access = FileAccess::kPositional}));
  auto report = write_model({between.string(), folder}, flags, format);
  if (!report) {
    name_source(report.error().message, between.string(), source.path);
    return report;
  }
  report->source_format = source.archive.description().format;
  report->notes.insert(report->notes.begin(), plan.notes.begin(), plan.notes.end());
  for (std::string& note : report->notes) name_source(note, between.string(), source.path);
  return report;
}

}  // namespace

void add_container_flag(Command& command, OutputFlags& flags) {
  command.flag("--container-only", flags.container_only,
               "Change only the container: keep names and layouts even if the result cannot be run");
}

Result<const FormatDriver*> choose_output_format(const OutputFlags& flags) {
  if (flags.format.empty() && names_a_folder(flags.path)) return choose_format("safetensors", "");
  return choose_format(flags.format, flags.path);
}

Result<ExchangePlan> plan_output(const ExchangeSource& source, const OutputFlags& flags, const FormatDriver& format,
                                 const FolderOptions& folder) {
  auto plan = plan_exchange(source, {.path = flags.path,
                                     .format = format,
                                     .is_folder = names_a_folder(flags.path),
                                     .container_only = flags.container_only,
                                     .folder = folder});
  if (!plan) return with_container_hint(std::move(plan).error().with_context(source.path));
  return plan;
}

void keep_output_runnable(OutputFlags& flags, const FormatDriver& format) {
  if (flags.container_only) return;
  flags.options.edits.push_back(
      [edit = keep_runnable(format)](WritePlan& plan, std::vector<std::string>& notes) -> Status {
        auto kept = edit(plan, notes);
        if (!kept) return with_container_hint(std::move(kept).error());
        return {};
      });
}

Status write_companions(const std::vector<CompanionFile>& companions, const std::string& folder,
                        const CommitOptions& commit) {
  AtomicFiles files(commit);
  for (const CompanionFile& file : companions) {
    const fs::path path = fs::path(folder) / file.name;
    std::error_code failure;
    fs::create_directories(path.parent_path(), failure);
    BALLAST_TRY(ByteSink* const sink, files.add(path.string(), file.contents.size()));
    BALLAST_CHECK(sink->write_text(file.contents));
  }
  return files.commit();
}

Result<ConvertReport> write_planned(const ExchangeSource& source, const ExchangePlan& plan, OutputFlags& flags,
                                    const FormatDriver& format) {
  if (plan.through_folder) return write_through_folder(source, plan, flags, format);
  const auto write = [&](const std::string& path, const ConvertOptions& options) {
    return convert_archive(source.archive, path, format, options);
  };
  return write_weights(write, plan, flags, format);
}

Result<ConvertReport> write_planned(WritePlan weights, const ExchangePlan& plan, OutputFlags& flags,
                                    const FormatDriver& format) {
  const auto write = [&](const std::string& path, const ConvertOptions& options) {
    return convert_plan(std::move(weights), path, format, options);
  };
  return write_weights(write, plan, flags, format);
}

Result<ConvertReport> write_model(const ExchangeSource& source, OutputFlags& flags, const FormatDriver& format) {
  BALLAST_TRY(const ExchangePlan plan, plan_output(source, flags, format));
  return write_planned(source, plan, flags, format);
}

}  // namespace ballast::cli
