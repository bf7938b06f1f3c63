#include "ballast/training/checkpoints/checkpoint_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "ballast/archive/digest.h"
#include "ballast/archive/write.h"
#include "ballast/formats/format.h"
#include "ballast/io/file.h"
#include "ballast/training/checkpoints/checkpoint_manifest.h"

namespace ballast {

namespace {

constexpr std::string_view kStateFormat = "safetensors";
constexpr CheckpointPart kBothParts[] = {CheckpointPart::kWeights, CheckpointPart::kState};

using WriteClock = std::chrono::steady_clock;
double written_in(WriteClock::time_point start) {
  return std::chrono::duration<double>(WriteClock::now() - start).count();
}

int64_t now_in_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Writes one checkpoint. Files come first, the manifest last; all of them are one set that becomes visible in that
// order.
class Writer {
 public:
  Writer(const TrainingSnapshot& snapshot, const CheckpointWrite& request)
      : snapshot_(snapshot),
        request_(request),
        commit_{.overwrite = true, .sync = request.options.sync, .file_system = request.options.file_system},
        set_(commit_) {}

  Result<WrittenCheckpoint> run() {
    const auto start = WriteClock::now();
    describe();
    for (const CheckpointPart part : kBothParts) BALLAST_CHECK(digest(part));
    written_.report.digest_seconds = written_in(start);
    for (const CheckpointPart part : kBothParts) choose_known_files(part);
    limit_known_files();
    for (const CheckpointPart part : kBothParts) BALLAST_CHECK(write_part(part));
    BALLAST_CHECK(write_manifest());
    BALLAST_CHECK(set_.commit());
    written_.report.seconds = written_in(start);
    return std::move(written_);
  }

 private:
  const std::vector<SnapshotTensor>& source(CheckpointPart part) const {
    return part == CheckpointPart::kWeights ? snapshot_.weights : snapshot_.state;
  }
  std::vector<CheckpointTensor>& tensors(CheckpointPart part) {
    return part == CheckpointPart::kWeights ? written_.manifest.weights : written_.manifest.state;
  }
  std::vector<const KnownFiles::File*>& chosen(CheckpointPart part) { return chosen_[static_cast<size_t>(part)]; }
  std::string_view format_of(CheckpointPart part) const {
    return part == CheckpointPart::kWeights ? std::string_view(request_.options.weights_format) : kStateFormat;
  }

  void describe() {
    CheckpointManifest& manifest = written_.manifest;
    manifest.step = snapshot_.step;
    manifest.sequence = request_.sequence;
    manifest.saved_at = now_in_seconds();
    manifest.metrics = snapshot_.metrics;
    manifest.state_json = snapshot_.state_json;
    manifest.config_json = snapshot_.config_json;
    manifest.model_config = snapshot_.model_config;
    written_.report.step = snapshot_.step;
    for (const CheckpointPart part : kBothParts) {
      for (const SnapshotTensor& tensor : source(part)) tensors(part).push_back({.info = tensor.info, .digest = {}});
    }
  }

  Status digest(CheckpointPart part) {
    WritePlan plan;
    for (const SnapshotTensor& tensor : source(part)) plan.add_tensor(tensor.info, tensor.bytes);
    DigestOptions options;
    options.threads = request_.options.threads;
    BALLAST_TRY(const auto digests, digest_plan(plan, options));
    for (size_t i = 0; i < digests.size(); ++i) tensors(part)[i].digest = digests[i].blake3;
    return {};
  }

  // ---- what need not be written again

  void choose_known_files(CheckpointPart part) {
    chosen(part).assign(tensors(part).size(), nullptr);
    if (!request_.options.incremental) return;
    if (format_of(part) == kStateFormat) choose_each(part);
    else choose_whole(part);
  }

  void choose_each(CheckpointPart part) {
    for (size_t i = 0; i < tensors(part).size(); ++i) {
      const CheckpointTensor& tensor = tensors(part)[i];
      // In the order of their names, which begin with the step: of several the newest stays.
      for (const auto& [name, file] : request_.known.files()) {
        const auto found = file.tensors.find(tensor.info.name);
        if (file.file.format != kStateFormat || found == file.tensors.end()) continue;
        if (found->second.part == part && found->second.digest == tensor.digest) chosen(part)[i] = &file;
      }
    }
  }

  // Formats with fields of their own for ids and configuration: the file as a whole, or not at all.
  void choose_whole(CheckpointPart part) {
    for (const auto& [name, file] : request_.known.files()) {
      if (file.file.format != format_of(part) || file.tensors.size() != tensors(part).size()) continue;
      if (file.config != snapshot_.model_config) continue;
      const bool same = std::ranges::all_of(tensors(part), [&](const CheckpointTensor& tensor) {
        const auto found = file.tensors.find(tensor.info.name);
        return found != file.tensors.end() && found->second.part == part && found->second.digest == tensor.digest &&
               found->second.param_id == tensor.info.param_id &&
               found->second.requires_grad == tensor.info.requires_grad;
      });
      if (same) std::ranges::fill(chosen(part), &file);
    }
  }

  // A file stays as long as one tensor in it is needed. So that a few that never change do not keep many old files,
  // what a checkpoint names is never more than twice its own size: beyond that, the tensors of the file that serves it
  // least are written again.
  void limit_known_files() {
    const uint64_t payload = written_.manifest.payload_bytes();
    for (;;) {
      std::map<const KnownFiles::File*, uint64_t> used;
      uint64_t total = 0;  // of the files, old and new
      for (const CheckpointPart part : kBothParts) {
        for (size_t i = 0; i < tensors(part).size(); ++i) {
          const uint64_t bytes = tensors(part)[i].info.byte_size;
          if (chosen(part)[i] == nullptr) total += bytes;
          else used[chosen(part)[i]] += bytes;
        }
      }
      for (const auto& [file, bytes] : used) total += file->file.bytes;
      // Headers are no reason to write anything again, however small the tensors are.
      constexpr uint64_t kHeaders = uint64_t{1} << 20;
      if (used.empty() || total <= 2 * payload + kHeaders) return;
      const auto least = std::ranges::min_element(used, {}, [](const auto& entry) {
        return static_cast<double>(entry.second) / static_cast<double>(entry.first->file.bytes);
      });
      for (const CheckpointPart part : kBothParts) std::ranges::replace(chosen(part), least->first, nullptr);
    }
  }

  // ---- writing

  uint32_t file_number(const CheckpointFile& file) {
    auto& files = written_.manifest.files;
    const auto found = std::ranges::find(files, file.name, &CheckpointFile::name);
    if (found == files.end()) {
      files.push_back(file);
      return static_cast<uint32_t>(files.size() - 1);
    }
    return static_cast<uint32_t>(found - files.begin());
  }

  Status write_part(CheckpointPart part) {
    WritePlan plan;
    std::vector<TensorDigest> digests;
    for (size_t i = 0; i < tensors(part).size(); ++i) {
      if (chosen(part)[i] != nullptr) continue;
      TensorInfo info = source(part)[i].info;
      info.name = name_in_checkpoint_file(info.name, format_of(part));
      plan.add_tensor(std::move(info), source(part)[i].bytes);
      digests.push_back({tensors(part)[i].digest, {}});
    }
    std::optional<CheckpointFile> fresh;
    if (!digests.empty()) BALLAST_CHECK(assign(fresh, write_file(part, plan, digests)));
    for (size_t i = 0; i < tensors(part).size(); ++i) {
      const KnownFiles::File* known = chosen(part)[i];
      CheckpointFile file = known != nullptr ? known->file : *fresh;
      file.is_new = known == nullptr;
      tensors(part)[i].file = file_number(file);
      if (known != nullptr) written_.report.bytes_reused += tensors(part)[i].info.byte_size;
    }
    return {};
  }

  Result<CheckpointFile> write_file(CheckpointPart part, WritePlan& plan, const std::vector<TensorDigest>& digests) {
    const FormatDriver& format = *find_format(format_of(part));
    CheckpointFile file;
    file.format = format.name;
    file.digest = archive_digest(plan.description.tensors, digests);
    file.name = checkpoint_file_name(snapshot_.step, part, file.digest, format.extensions.front());
    file.is_new = true;
    if (part == CheckpointPart::kWeights && !format.config_schema.empty()) {
      plan.description.config = snapshot_.model_config;
    }
    WriteSettings settings;
    settings.commit = commit_;
    settings.set = &set_;
    settings.accept_losses = true;  // what is said about tensors stands in the manifest
    BALLAST_TRY(const WriteReport report,
                write_archive(fmt::format("{}/{}", request_.folder, file.name), format, plan, settings));
    if (report.files.size() != 1) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{} writes several files; a checkpoint needs one", format.name));
    }
    file.bytes = report.bytes;
    written_.report.bytes_written += report.bytes;
    return file;
  }

  Status write_manifest() {
    const std::string text = checkpoint_manifest_to_json(written_.manifest);
    const std::string path = fmt::format("{}/{}", request_.folder, checkpoint_manifest_name(snapshot_.step));
    BALLAST_TRY(ByteSink * sink, set_.add(path, text.size()));
    BALLAST_CHECK(sink->write_text(text));
    written_.report.bytes_written += text.size();
    return {};
  }

  const TrainingSnapshot& snapshot_;
  const CheckpointWrite& request_;
  CommitOptions commit_;
  AtomicFiles set_;
  std::vector<const KnownFiles::File*> chosen_[2];  // for each tensor; null: is to be written
  WrittenCheckpoint written_;
};

}  // namespace

void KnownFiles::add(const CheckpointManifest& manifest) {
  for (const CheckpointPart part : kBothParts) {
    for (const CheckpointTensor& tensor : manifest.tensors(part)) {
      const CheckpointFile& file = manifest.files[tensor.file];
      File& known = files_[file.name];
      known.file = file;
      known.config = manifest.model_config;
      known.tensors[tensor.info.name] = {part, tensor.digest, tensor.info.requires_grad, tensor.info.param_id,
                                         tensor.info.byte_size};
    }
  }
}

void KnownFiles::keep_only(std::span<const CheckpointManifest> manifests) {
  std::set<std::string_view> named;
  for (const CheckpointManifest& manifest : manifests) {
    for (const CheckpointFile& file : manifest.files) named.insert(file.name);
  }
  std::erase_if(files_, [&](const auto& entry) { return !named.contains(entry.first); });
}

Result<WrittenCheckpoint> write_checkpoint(const TrainingSnapshot& snapshot, const CheckpointWrite& request) {
  return Writer(snapshot, request).run();
}

}  // namespace ballast
