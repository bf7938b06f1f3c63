#include "ballast/archive/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "ballast/archive/cast_tensor.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/origin.h"
#include "ballast/archive/pattern.h"
#include "ballast/archive/tie_plan.h"
#include "ballast/formats/drivers.h"
#include "ballast/io/guard.h"
#include "ballast/tensor/elements.h"

namespace ballast {

namespace {

class NullSink final : public ByteSink {
 public:
  Status write(ByteSpan bytes) override {
    taken_ += bytes.size();
    return {};
  }
  Status patch(uint64_t, ByteSpan) override { return {}; }
  uint64_t position() const override { return taken_; }

 private:
  uint64_t taken_ = 0;
};

std::map<std::string_view, size_t> positions(const Description& description) {
  std::map<std::string_view, size_t> position;
  for (size_t i = 0; i < description.tensors.size(); ++i) position[description.tensors[i].name] = i;
  return position;
}

Result<Digest> content_digest(const WritePlan& plan, unsigned threads, const Progress& progress) {
  BALLAST_TRY(const auto digests, digest_plan(plan, {.sha256 = false, .threads = threads, .progress = progress}));
  return archive_digest(plan.description.tensors, digests);
}

// Brings the providers into the order of `tensors`, which names the same tensors as the plan.
void adopt_order(WritePlan& plan, const std::vector<TensorInfo>& tensors) {
  const auto position = positions(plan.description);
  std::vector<TensorProvider> providers;
  providers.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) providers.push_back(std::move(plan.providers[position.at(tensor.name)]));
  plan.providers = std::move(providers);
}

// The order of tensors, and of metadata where there is the same of it, as in `written`.
void adopt_order(Description& description, const Description& written) {
  std::map<std::string_view, size_t> place = positions(written);
  std::ranges::sort(description.tensors, {}, [&](const TensorInfo& tensor) { return place.at(tensor.name); });
  const bool same = description.metadata.size() == written.metadata.size() &&
                    std::ranges::is_permutation(description.metadata, written.metadata);
  if (same) description.metadata = written.metadata;
}

// One conversion up to its writing, step by step. `plan_` holds what is to be written; its description speaks the
// source's language until the origin, if one is needed, has been put in.
class Conversion {
 public:
  Conversion(WritePlan plan, const std::string& file_name, const FormatDriver& format, const ConvertOptions& options)
      : file_name_(file_name),
        format_(format),
        options_(options),
        plan_(std::move(plan)),
        carried_config_(plan_.description.config) {
    report_.source_format = plan_.description.format;
    report_.target_format = format.name;
  }

  Result<PreparedConversion> run() {
    BALLAST_CHECK(check_write_options(format_, options_.write.format));
    if (format_.plan_write == nullptr) {
      return make_error(ErrorCode::kUnsupported, fmt::format("{} files are read but not written", format_.name));
    }
    if (options_.use_origin) {
      BALLAST_CHECK(restore_origin(plan_, report_.notes, options_.threads, options_.write.progress));
    }
    plan_.description.origin.reset();
    BALLAST_CHECK(select_tensors());
    for (const PlanEdit& edit : options_.edits) BALLAST_CHECK(edit(plan_, report_.notes));
    const Description logical = plan_.description;
    BALLAST_CHECK(choose_config());
    BALLAST_CHECK(apply_losses());
    BALLAST_CHECK(tie_tensors());
    if (options_.use_origin) BALLAST_CHECK(attach_origin(logical));
    report_.tensors = plan_.description.tensors.size();
    for (const TensorInfo& tensor : plan_.description.tensors) report_.payload_bytes += tensor.byte_size;
    return PreparedConversion{std::move(plan_), write_options(), std::move(report_)};
  }

 private:
  // ---- what is asked of it

  Status select_tensors() {
    if (options_.only.empty() && options_.exclude.empty()) return {};
    BALLAST_TRY(const auto only, Pattern::compile_all(options_.only));
    BALLAST_TRY(const auto exclude, Pattern::compile_all(options_.exclude));
    std::vector<bool> keep;
    for (const TensorInfo& tensor : plan_.description.tensors) {
      BALLAST_TRY(const bool wanted, any_found(only, tensor.name));
      BALLAST_TRY(const bool unwanted, any_found(exclude, tensor.name));
      keep.push_back((only.empty() || wanted) && !unwanted);
    }
    keep_tensors(plan_, keep);
    if (!plan_.description.tensors.empty()) return {};
    return make_error(ErrorCode::kInvalidArgument, "no tensor is selected", Remedy::kSelectTensors);
  }

  Status choose_config() {
    if (!options_.config_text) {
      // Restored from an origin, the description may speak of a foreign config while the file itself holds a fitting
      // one.
      auto& config = plan_.description.config;
      const auto fits = [&](const auto& candidate) { return candidate && candidate->schema == format_.config_schema; };
      if (!fits(config) && fits(carried_config_)) config = carried_config_;
      return {};
    }
    if (format_.config_schema.empty()) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("{} has no field for a model config", format_.name));
    }
    plan_.description.config = ModelConfig{std::string(format_.config_schema), *options_.config_text};
    return {};
  }

  // ---- what cannot be kept

  Status apply_losses() {
    report_.losses = format_.find_losses(plan_.description, options_.write.format);
    if (report_.losses.empty()) return {};
    const bool hopeless = std::ranges::any_of(
        report_.losses, [](const Loss& loss) { return !loss.cast_to && !loss.drop && !loss.acceptable; });
    if (hopeless || (!options_.allow_lossy && !options_.dry_run)) return lossy_error(format_, report_.losses);
    auto position = positions(plan_.description);
    std::vector<bool> keep(plan_.description.tensors.size(), true);
    for (Loss& loss : report_.losses) {
      const auto found = position.find(loss.tensor);
      if (found == position.end()) continue;
      if (loss.cast_to) BALLAST_CHECK(cast_or_drop(found->second, loss));
      if (loss.drop) keep[found->second] = false;
    }
    position.clear();
    keep_tensors(plan_, keep);
    return {};
  }

  // A value that the other type cannot hold at all is found here, before anything is written: the tensor is left out.
  Status cast_or_drop(size_t index, Loss& loss) {
    TensorInfo& tensor = plan_.description.tensors[index];
    if (!is_arithmetic(tensor.dtype)) {
      reinterpret(tensor, *loss.cast_to);
      return {};
    }
    BALLAST_CHECK(cast_tensor(plan_, index, *loss.cast_to));
    if (options_.dry_run) return {};
    NullSink nowhere;
    const auto tried = plan_.providers[index](nowhere);
    if (tried) return {};
    if (tried.error().code != ErrorCode::kInvalidArgument) return tried;
    loss.what += fmt::format("; but {}, so the tensor is left out", tried.error().message);
    loss.cast_to.reset();
    loss.drop = true;
    return {};
  }

  // Bytes whose meaning only the writing program knows stay what they are, under another type.
  static void reinterpret(TensorInfo& tensor, DType to) {
    tensor.dtype = to;
    tensor.shape = Shape{tensor.byte_size};
    tensor.set_scheme({});
    tensor.set_stored_form({});
  }

  // ---- what is written once

  Status tie_tensors() {
    const bool cast = std::ranges::any_of(report_.losses, [](const Loss& loss) { return loss.cast_to.has_value(); });
    const TieRequest request{.format = format_,
                             .wanted = options_.tie,
                             .untouched = options_.edits.empty() && !cast,
                             .threads = options_.threads};
    BALLAST_TRY(const TieReport ties, find_ties(plan_, request, options_.write.progress));
    report_.tied = ties.tensors;
    report_.tied_bytes = ties.bytes;
    if (ties.tensors == 0) return {};
    report_.notes.push_back(fmt::format("{} tensor{} the bytes of another and {} stored once: {:.2f} MiB saved",
                                        ties.tensors, ties.tensors == 1 ? " has" : "s have",
                                        ties.tensors == 1 ? "is" : "are", static_cast<double>(ties.bytes) / (1 << 20)));
    return {};
  }

  // ---- what travels in ballast.origin

  WriteOptions write_options() const {
    WriteOptions options = options_.write.format;
    options.keep_order = true;
    return options;
  }

  Status attach_origin(Description logical) {
    // A loss that was allowed is part of what is described; everything else must come back.
    logical.tensors = plan_.description.tensors;
    BALLAST_TRY(const Description written,
                preview_description(format_, plan_.description, write_options(), file_name_, plan_.ties));
    if (!options_.keep_order) adopt_order(logical, written);
    if (!needs_origin(logical, written)) return {};
    if (!format_.stores_origin) {
      // How the original spelled things is no content: nothing is lost without it.
      return same_content_description(logical, written) ? Status() : report_unstorable(logical, written);
    }
    report_.notes.push_back(
        fmt::format("{} has no field for: {}; kept in ballast.origin", format_.name, differences(logical, written)));
    if (options_.dry_run) return {};
    BALLAST_TRY(const Digest content, written_digest(written));
    plan_.description.origin = encode_origin(logical, written, content);
    return {};
  }

  bool needs_origin(const Description& logical, const Description& written) const {
    if (!same_content_description(logical, written)) return true;
    const bool same_format = logical.format == written.format;
    const auto form_lost = [&](const std::string& before, const std::string& after) {
      return same_format ? before != after : !before.empty();
    };
    // Told to write another form of the same format, the old spelling is not wanted back.
    if (same_format && !options_.write.format.target.empty()) return false;
    if (form_lost(logical.stored_form, written.stored_form)) return true;
    for (size_t i = 0; i < logical.tensors.size(); ++i) {
      if (form_lost(logical.tensors[i].stored_form(), written.tensors[i].stored_form())) return true;
      // Tied here, and not by the source: the way back must not take it for something the source had.
      if (!same_format && !written.tensors[i].stored_form().empty()) return true;
    }
    return false;
  }

  // The digest of what the written file will hold: same payloads, described as its reader will describe them.
  Result<Digest> written_digest(const Description& written) const {
    auto position = positions(plan_.description);
    WritePlan as_written;
    as_written.description.tensors = written.tensors;
    for (const TensorInfo& tensor : written.tensors)
      as_written.providers.push_back(plan_.providers[position.at(tensor.name)]);
    return content_digest(as_written, options_.threads, options_.write.progress);
  }

  static std::string differences(const Description& logical, const Description& written) {
    std::vector<std::string_view> names;
    if (logical.config != written.config) names.push_back("model config");
    if (logical.metadata != written.metadata) names.push_back("metadata");
    const auto any = [&](auto&& differs) {
      for (size_t i = 0; i < logical.tensors.size(); ++i) {
        if (differs(logical.tensors[i], written.tensors[i])) return true;
      }
      return false;
    };
    if (any([](const auto& a, const auto& b) { return a.name != b.name; })) names.push_back("tensor order");
    if (any([](const auto& a, const auto&) { return a.param_id.has_value(); })) names.push_back("parameter ids");
    if (any([](const auto& a, const auto&) { return a.requires_grad.value_or(false); }))
      names.push_back("requires_grad");
    if (any([](const auto& a, const auto& b) { return a.name == b.name && !(a.shape == b.shape); })) {
      names.push_back("scalar shapes");
    }
    if (names.empty()) names.push_back("the original's spelling");
    return fmt::format("{}", fmt::join(names, ", "));
  }

  Status report_unstorable(const Description& logical, const Description& written) {
    Loss loss;
    loss.what = fmt::format("{} would be lost", differences(logical, written));
    loss.acceptable = true;
    report_.losses.push_back(std::move(loss));
    if (options_.allow_lossy || options_.dry_run) return {};
    return lossy_error(format_, report_.losses);
  }

  const std::string& file_name_;
  const FormatDriver& format_;
  const ConvertOptions& options_;
  WritePlan plan_;
  std::optional<ModelConfig> carried_config_;  // of the file itself, whatever its origin says
  ConvertReport report_;
};

Result<ConvertReport> convert(WritePlan plan, const std::string& destination, const FormatDriver& format,
                              const ConvertOptions& options) {
  const std::string file_name = std::filesystem::path(destination).filename().string();
  BALLAST_TRY(PreparedConversion prepared, Conversion(std::move(plan), file_name, format, options).run());
  if (options.dry_run) return std::move(prepared.report);
  WriteSettings settings = options.write;
  settings.format = std::move(prepared.format);
  settings.accept_losses = options.allow_lossy;
  BALLAST_TRY(prepared.report.written, write_archive(destination, format, prepared.plan, settings));
  return std::move(prepared.report);
}

}  // namespace

Status restore_origin(WritePlan& plan, std::vector<std::string>& notes, unsigned threads, const Progress& progress) {
  Description& carrier = plan.description;
  if (!carrier.origin) return {};
  const std::string value = *std::exchange(carrier.origin, std::nullopt);
  BALLAST_TRY(const Digest content, content_digest(plan, threads, progress));
  auto restored = decode_origin(value, carrier, content);
  if (!restored) {
    notes.push_back("ballast.origin is ignored: " + restored.error().message);
    return {};
  }
  adopt_order(plan, restored->tensors);
  notes.push_back(fmt::format("restored from ballast.origin: {} {}", restored->format, restored->version));
  plan.description = std::move(*restored);
  return {};
}

std::vector<std::string> find_left_out(const Archive& archive) {
  // The only formats whose readers let the last of two namesakes win; the others refuse them.
  const std::string& name = archive.description().format;
  const bool can_shadow =
      name == kBurnpackDriver.name || name == kGptrsCheckpointDriver.name || name == kGptrsTensorsDriver.name;
  std::vector<std::string> texts;
  if (!can_shadow || archive.sources().size() != 1) return texts;
  Findings findings = Findings::collect_all();
  if (!find_format(name)->open({archive.sources().front(), ""}, findings)) return texts;
  for (const Finding& finding : findings.items()) {
    if (finding.code == "duplicate_name") texts.push_back(finding.message);
  }
  return texts;
}

Result<ConvertReport> convert_archive(const Archive& source, const std::string& destination, const FormatDriver& format,
                                      const ConvertOptions& options) {
  return guarded([&]() -> Result<ConvertReport> {
    WritePlan plan = make_plan(source);
    uint32_t last_twin = 0;
    if (options.tie) {
      BALLAST_CHECK(mark_twins(source, plan, format, last_twin, options.threads, options.write.progress));
    }
    BALLAST_TRY(ConvertReport report, convert(std::move(plan), destination, format, options));
    const std::vector<std::string> left_out = find_left_out(source);
    report.notes.insert(report.notes.begin(), left_out.begin(), left_out.end());
    return report;
  });
}

Result<ConvertReport> convert_plan(WritePlan plan, const std::string& destination, const FormatDriver& format,
                                   const ConvertOptions& options) {
  return guarded([&] { return convert(std::move(plan), destination, format, options); });
}

Result<PreparedConversion> prepare_conversion(WritePlan plan, const std::string& file_name, const FormatDriver& format,
                                              const ConvertOptions& options) {
  return guarded([&] { return Conversion(std::move(plan), file_name, format, options).run(); });
}

}  // namespace ballast
