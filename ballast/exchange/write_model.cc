#include "ballast/exchange/write_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "ballast/archive/model_folder.h"
#include "ballast/archive/open.h"
#include "ballast/edit/quantize.h"
#include "ballast/formats/format.h"
#include "ballast/io/guard.h"
#include "ballast/io/staging_folder.h"

namespace ballast {

namespace {

bool is_folder_path(const std::string& path) {
  std::error_code none;
  return path.ends_with('/') || std::filesystem::is_directory(path, none);
}

// Writes the weights to a path.
using WriteWeights = std::function<Result<ConvertReport>(const std::string& path, const ConvertOptions& options)>;

// The folder appears whole: weights under the name that Hugging Face's have, and what belongs beside them.
Result<ConvertReport> write_model_folder(const WriteWeights& write, const ExchangePlan& plan,
                                         const ModelDestination& output, const ConvertOptions& options) {
  const std::filesystem::path folder(output.path);
  const std::string name = "model" + std::string(output.format.extensions.front());
  if (options.dry_run) return write((folder / name).string(), options);
  StagingOptions place{.sync = options.write.commit.sync};
  if (options.write.commit.overwrite) place.replaces = is_model_folder_file;
  BALLAST_TRY(StagingFolder staging, StagingFolder::create(output.path, std::move(place)));
  auto written = [&]() -> Result<ConvertReport> {
    BALLAST_TRY(ConvertReport report, write((std::filesystem::path(staging.path()) / name).string(), options));
    BALLAST_CHECK(write_companions(plan.companions, staging.path(), options.write.commit));
    BALLAST_CHECK(staging.publish());
    return report;
  }();
  if (!written) return staging.meant(std::move(written).error());
  ConvertReport& report = *written;
  for (std::string& file : report.written.files) file = (folder / std::filesystem::path(file).filename()).string();
  for (const CompanionFile& file : plan.companions) report.written.files.push_back((folder / file.name).string());
  return written;
}

Result<ConvertReport> write_model_weights(const WriteWeights& write, const ExchangePlan& plan,
                                          const ModelDestination& output, ConvertOptions options) {
  options.edits.insert(options.edits.begin(), plan.edits.begin(), plan.edits.end());
  options.use_origin = !plan.is_new_form;
  BALLAST_TRY(ConvertReport report, is_folder_path(output.path) ? write_model_folder(write, plan, output, options)
                                                                : write(output.path, options));
  report.notes.insert(report.notes.begin(), plan.notes.begin(), plan.notes.end());
  return report;
}

Status write_folder_between(const ExchangeSource& source, const ExchangePlan& plan, const std::string& folder,
                            const ConvertOptions& options) {
  std::error_code failure;
  std::filesystem::create_directory(folder, failure);
  ConvertOptions first;
  first.edits = plan.edits;
  first.use_origin = false;
  first.threads = options.threads;
  first.write.progress = options.write.progress;
  first.write.commit.sync = false;
  BALLAST_CHECK(convert_archive(source.archive, folder + "/model.safetensors", *find_format("safetensors"), first));
  return write_companions(plan.companions, folder, first.write.commit);
}

// Two steps: the folder that the plan describes, in a place that goes away again, and the target from there.
Result<ConvertReport> write_through_folder(const ExchangeSource& source, const ExchangePlan& plan,
                                           const ModelDestination& output, ConvertOptions options) {
  BALLAST_TRY(const StagingFolder staging, StagingFolder::create(output.path + ".folder"));
  const std::string between =
      (std::filesystem::path(staging.path()) / std::filesystem::path(source.path).stem()).string();
  if (Status made = write_folder_between(source, plan, between, options); !made) {
    name_instead(made.error().message, between, output.path);
    return std::move(made).error();
  }
  BALLAST_TRY(const Archive folder, open_archive(between, {.access = FileAccess::kPositional}));
  const ExchangeSource second{between, folder};
  auto report = [&]() -> Result<ConvertReport> {
    BALLAST_TRY(const ExchangePlan onwards, plan_model(second, output));
    return write_model(second, onwards, output, std::move(options));
  }();
  if (!report) {
    name_instead(report.error().message, between, source.path);
    return report;
  }
  report->source_format = source.archive.description().format;
  report->notes.insert(report->notes.begin(), plan.notes.begin(), plan.notes.end());
  for (std::string& note : report->notes) name_instead(note, between, source.path);
  return report;
}

// ---------------------------------------------------------------- all in one

Result<const FormatDriver*> choose_model_format(const std::string& destination, const ConvertModelOptions& options) {
  std::string name = options.format;
  if (name.empty() && is_folder_path(destination)) name = options.quantize.empty() ? "safetensors" : "gguf";
  return choose_format(name, destination);
}

// Selected tensors must keep their names, or nobody knows which are meant.
Status check_selection(const std::string& source, const ExchangePlan& plan, const ConvertModelOptions& options) {
  if (!plan.is_new_form || (options.convert.only.empty() && options.convert.exclude.empty())) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    source +
                        ": converting this model renames its tensors, so they cannot be selected in the same "
                        "step; convert it first, or change only the container");
}

Status add_type_edits(const ConvertModelOptions& options, const std::shared_ptr<CastLog>& casts,
                      std::vector<PlanEdit>& edits) {
  if (options.dequantize) edits.push_back(dequantize_tensors(*options.dequantize, casts));
  if (options.dtype) edits.push_back(cast_floats({.to = *options.dtype, .keep = {}}, casts));
  if (options.quantize.empty()) return {};
  BALLAST_TRY(const QuantizationPreset* preset, find_quantization_preset(options.quantize));
  QuantizeOptions quantize{.type = preset->base, .preset = preset, .threads = options.convert.threads};
  edits.push_back(quantize_tensors(std::move(quantize), std::make_shared<QuantizationLog>()));
  return {};
}

}  // namespace

Result<ExchangePlan> plan_model(const ExchangeSource& source, const ModelDestination& output,
                                const FolderOptions& folder) {
  return guarded([&]() -> Result<ExchangePlan> {
    auto plan = plan_exchange(source, {.path = output.path,
                                       .format = output.format,
                                       .is_folder = is_folder_path(output.path),
                                       .container_only = output.container_only,
                                       .folder = folder});
    if (plan) return plan;
    Error error = std::move(plan).error().with_context(source.path);
    if (error.code == ErrorCode::kUnsupported) error.message += output.unsupported_hint;
    return error;
  });
}

Status write_companions(const std::vector<CompanionFile>& companions, const std::string& folder,
                        const CommitOptions& commit) {
  return guarded([&]() -> Status {
    AtomicFiles files(commit);
    for (const CompanionFile& file : companions) {
      const std::filesystem::path path = std::filesystem::path(folder) / file.name;
      std::error_code failure;
      std::filesystem::create_directories(path.parent_path(), failure);
      BALLAST_TRY(ByteSink* const sink, files.add(path.string(), file.contents.size()));
      BALLAST_CHECK(sink->write_text(file.contents));
    }
    return files.commit();
  });
}

Result<ConvertReport> write_model(const ExchangeSource& source, const ExchangePlan& plan,
                                  const ModelDestination& output, ConvertOptions options) {
  return guarded([&] {
    if (plan.through_folder) return write_through_folder(source, plan, output, std::move(options));
    const auto write = [&](const std::string& path, const ConvertOptions& chosen) {
      return convert_archive(source.archive, path, output.format, chosen);
    };
    return write_model_weights(write, plan, output, std::move(options));
  });
}

Result<ConvertReport> write_model(WritePlan weights, const ExchangePlan& plan, const ModelDestination& output,
                                  ConvertOptions options) {
  return guarded([&] {
    const auto write = [&](const std::string& path, const ConvertOptions& chosen) {
      return convert_plan(std::move(weights), path, output.format, chosen);
    };
    return write_model_weights(write, plan, output, std::move(options));
  });
}

Result<ConvertReport> convert_model(const std::string& source, const std::string& destination,
                                    const ConvertModelOptions& options) {
  return guarded([&]() -> Result<ConvertReport> {
    BALLAST_TRY(const FormatDriver* format, choose_model_format(destination, options));
    // Read, not mapped: a source that shrinks meanwhile is then an error.
    BALLAST_TRY(const Archive archive, open_archive(source, {.access = FileAccess::kPositional}));
    const ExchangeSource from{source, archive};
    const ModelDestination to{.path = destination, .format = *format, .container_only = options.container_only};
    const auto casts = std::make_shared<CastLog>();
    BALLAST_TRY(const ExchangePlan plan,
                plan_model(from, to, {.dequantize = options.dequantize, .casts = casts, .dtype = options.dtype}));
    BALLAST_CHECK(check_selection(source, plan, options));
    ConvertOptions convert = options.convert;
    BALLAST_CHECK(add_type_edits(options, casts, convert.edits));
    return write_model(from, plan, to, std::move(convert));
  });
}

}  // namespace ballast
