#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ballast/archive/digest.h"
#include "ballast/archive/write.h"
#include "ballast/base/checked.h"
#include "ballast/formats/format.h"
#include "ballast/formats/name_index.h"
#include "ballast/io/file.h"
#include "ballast/io/guard.h"
#include "ballast/io/work_folder.h"
#include "ballast/training/checkpoints/checkpoint_manifest.h"

namespace ballast {

namespace {

constexpr size_t kParts = 2;
size_t number_of(CheckpointPart part) { return static_cast<size_t>(part); }

// Per file: the places that are a tensor's already.
using TakenPlaces = std::vector<std::vector<bool>>;

std::vector<TensorInfo> infos_of(std::span<const CheckpointTensor> tensors) {
  std::vector<TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const CheckpointTensor& tensor : tensors) infos.push_back(tensor.info);
  return infos;
}

Error corrupt(const std::string& where, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", where, what));
}

Error wrong_memory(const TensorInfo& info, MutableByteSpan memory) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("tensor \"{}\" has {} bytes, the memory for it {}",
                                                             info.name, info.byte_size, memory.size()));
}

// Positional reads: a file that is cut short meanwhile is an error and not the end of the process.
Result<Archive> open_checkpoint_file(const std::string& folder, const CheckpointFile& file) {
  const std::string path = fmt::format("{}/{}", folder, file.name);
  const FormatDriver* driver = find_format(file.format);
  if (driver == nullptr) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: unknown format \"{}\"", path, file.format));
  }
  auto source = open_file(path, FileAccess::kPositional);
  if (!source && source.error().code == ErrorCode::kNotFound) return corrupt(path, "is missing");
  if (!source) return std::move(source).error();
  if ((*source)->size() != file.bytes) {
    return corrupt(path, fmt::format("has {} bytes, the manifest says {}", (*source)->size(), file.bytes));
  }
  Findings findings = Findings::stop_at_first_error();
  return driver->open({std::move(*source), file.name}, findings);
}

}  // namespace

// ---------------------------------------------------------------- one checkpoint

struct LoadedCheckpoint::State {
  std::string folder;
  CheckpointManifest manifest;
  std::vector<Archive> archives;          // one per file
  std::vector<size_t> places[kParts];     // of each tensor, in its archive
  std::vector<TensorInfo> infos[kParts];  // what the indexes below look at
  std::optional<NameIndex> by_name[kParts];

  std::string path_of(const CheckpointTensor& tensor) const {
    return fmt::format("{}/{}", folder, manifest.files[tensor.file].name);
  }
  Result<size_t> locate(const CheckpointTensor& tensor) const;
  Status take_place(const CheckpointTensor& tensor, size_t place, TakenPlaces& taken) const;
  Status locate_all(CheckpointPart part, TakenPlaces& taken);
  Status check_memory(std::span<const MutableByteSpan> out) const;
  Status add_damage(uint32_t file, std::span<const MutableByteSpan> out, unsigned threads, const Progress& progress,
                    std::vector<std::string>& damage) const;
  Result<std::vector<std::string>> find_damage(std::span<const MutableByteSpan> out, unsigned threads,
                                               const Progress& progress) const;
};

Result<size_t> LoadedCheckpoint::State::locate(const CheckpointTensor& tensor) const {
  const Archive& archive = archives[tensor.file];
  const std::string name = name_in_checkpoint_file(tensor.info.name, manifest.files[tensor.file].format);
  const auto found = archive.find(name);
  if (!found) return corrupt(path_of(tensor), fmt::format("lacks tensor \"{}\"", name));
  const TensorInfo& stored = archive.tensors()[*found];
  // Some formats have no rank 0 and store it as [1]; the digest is that of the tensor as it was saved.
  if (stored.dtype == tensor.info.dtype && stored.byte_size == tensor.info.byte_size) return *found;
  return corrupt(path_of(tensor),
                 fmt::format("tensor \"{}\" is {} {}, the manifest says {} {}", stored.name, stored.type_name(),
                             stored.shape.to_string(), tensor.info.type_name(), tensor.info.shape.to_string()));
}

// Whoever reads everything goes through the places of a file, each of which has one tensor to fill.
Status LoadedCheckpoint::State::take_place(const CheckpointTensor& tensor, size_t place, TakenPlaces& taken) const {
  if (taken[tensor.file][place]) {
    return corrupt(path_of(tensor),
                   fmt::format("the manifest says that tensor \"{}\" and another one are the same", tensor.info.name));
  }
  taken[tensor.file][place] = true;
  return {};
}

Status LoadedCheckpoint::State::locate_all(CheckpointPart part, TakenPlaces& taken) {
  const auto tensors = manifest.tensors(part);
  for (const CheckpointTensor& tensor : tensors) {
    BALLAST_TRY(const size_t place, locate(tensor));
    BALLAST_CHECK(take_place(tensor, place, taken));
    places[number_of(part)].push_back(place);
  }
  infos[number_of(part)] = infos_of(tensors);
  by_name[number_of(part)].emplace(infos[number_of(part)]);
  return {};
}

LoadedCheckpoint::LoadedCheckpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedCheckpoint::~LoadedCheckpoint() = default;
LoadedCheckpoint::LoadedCheckpoint(LoadedCheckpoint&&) noexcept = default;
LoadedCheckpoint& LoadedCheckpoint::operator=(LoadedCheckpoint&&) noexcept = default;

Result<LoadedCheckpoint> LoadedCheckpoint::open(const std::string& folder, CheckpointManifest manifest) {
  return guarded([&]() -> Result<LoadedCheckpoint> {
    auto state = std::make_unique<State>();
    state->folder = folder;
    state->manifest = std::move(manifest);
    TakenPlaces taken;
    for (const CheckpointFile& file : state->manifest.files) {
      BALLAST_TRY(Archive archive, open_checkpoint_file(folder, file));
      taken.emplace_back(archive.tensors().size());
      state->archives.push_back(std::move(archive));
    }
    BALLAST_CHECK(state->locate_all(CheckpointPart::kWeights, taken));
    BALLAST_CHECK(state->locate_all(CheckpointPart::kState, taken));
    return LoadedCheckpoint(std::move(state));
  });
}

const CheckpointManifest& LoadedCheckpoint::manifest() const { return state_->manifest; }

std::optional<size_t> LoadedCheckpoint::find(CheckpointPart part, std::string_view name) const {
  return state_->by_name[number_of(part)]->find(state_->infos[number_of(part)], name);
}

Status LoadedCheckpoint::read_into(CheckpointPart part, size_t index, MutableByteSpan out) const {
  const CheckpointTensor& tensor = tensors(part)[index];
  if (out.size() != tensor.info.byte_size) return wrong_memory(tensor.info, out);
  const size_t place = state_->places[number_of(part)][index];
  BALLAST_CHECK(state_->archives[tensor.file].read_into(place, out, Checksum::kSkip));
  TensorHasher hasher(tensor.info);
  hasher.update(out);
  if (hasher.finish() == tensor.digest) return {};
  return corrupt(state_->path_of(tensor),
                 fmt::format("the bytes of tensor \"{}\" do not fit their digest", tensor.info.name));
}

Result<ByteVector> LoadedCheckpoint::read(CheckpointPart part, size_t index) const {
  return guarded([&]() -> Result<ByteVector> {
    // Opening has compared this size with that of the file.
    ByteVector bytes(static_cast<size_t>(tensors(part)[index].info.byte_size));
    BALLAST_CHECK(read_into(part, index, bytes));
    return bytes;
  });
}

Result<Archive> LoadedCheckpoint::weights_archive() const {
  return guarded([&]() -> Result<Archive> {
    std::vector<std::shared_ptr<const ByteSource>> sources;
    std::vector<size_t> first_source;  // of each file
    for (const Archive& archive : state_->archives) {
      first_source.push_back(sources.size());
      sources.insert(sources.end(), archive.sources().begin(), archive.sources().end());
    }
    if (sources.size() > std::numeric_limits<uint16_t>::max()) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: the checkpoint of step {} is spread over {} files, more than one archive can "
                                    "have",
                                    state_->folder, step(), sources.size()));
    }
    Description description;
    description.config = manifest().model_config;
    description.tensors = state_->infos[number_of(CheckpointPart::kWeights)];
    std::vector<StoredExtent> extents;
    for (size_t i = 0; i < weights().size(); ++i) {
      const uint32_t file = weights()[i].file;
      StoredExtent extent = state_->archives[file].extent(state_->places[number_of(CheckpointPart::kWeights)][i]);
      extent.source = static_cast<uint16_t>(extent.source + first_source[file]);
      extents.push_back(std::move(extent));
    }
    return Archive(std::move(description), std::move(extents), std::move(sources));
  });
}

// All tensors of this checkpoint that stand in one file. Where there is memory for them in `out` they stay there.
Status LoadedCheckpoint::State::add_damage(uint32_t file, std::span<const MutableByteSpan> out, unsigned threads,
                                           const Progress& progress, std::vector<std::string>& damage) const {
  const Archive& archive = archives[file];
  struct Wanted {
    const CheckpointTensor* tensor = nullptr;
    size_t number = 0;  // among all tensors of the checkpoint
  };
  std::vector<Wanted> wanted(archive.tensors().size());
  size_t number = 0;
  for (const CheckpointPart part : {CheckpointPart::kWeights, CheckpointPart::kState}) {
    const auto tensors = manifest.tensors(part);
    for (size_t i = 0; i < tensors.size(); ++i, ++number) {
      if (tensors[i].file == file) wanted[places[number_of(part)][i]] = {&tensors[i], number};
    }
  }
  WritePlan plan = make_plan(archive);
  std::vector<bool> keep;
  for (size_t place = 0; place < wanted.size(); ++place) {
    keep.push_back(wanted[place].tensor != nullptr);
    if (!keep.back() || out.empty()) continue;
    plan.providers[place] = [&archive, place, memory = out[wanted[place].number]](ByteSink& sink) -> Status {
      BALLAST_CHECK(archive.read_into(place, memory, Checksum::kSkip));
      return sink.write(memory);
    };
  }
  keep_tensors(plan, keep);
  std::erase_if(wanted, [](const Wanted& one) { return one.tensor == nullptr; });
  for (size_t i = 0; i < wanted.size(); ++i) plan.description.tensors[i] = wanted[i].tensor->info;
  DigestOptions options;
  options.threads = threads;
  options.progress = progress;
  const auto digests = digest_plan(plan, options);
  if (!digests) {
    if (digests.error().code == ErrorCode::kCancelled || digests.error().code == ErrorCode::kOutOfMemory) {
      return digests.error();
    }
    damage.push_back(digests.error().message);
    return {};
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const CheckpointTensor& tensor = *wanted[i].tensor;
    if ((*digests)[i].blake3 == tensor.digest) continue;
    damage.push_back(
        fmt::format("{}: the bytes of tensor \"{}\" do not fit their digest", path_of(tensor), tensor.info.name));
  }
  return {};
}

Result<std::vector<std::string>> LoadedCheckpoint::State::find_damage(std::span<const MutableByteSpan> out,
                                                                      unsigned threads,
                                                                      const Progress& progress) const {
  return guarded([&]() -> Result<std::vector<std::string>> {
    std::vector<std::string> damage;
    for (uint32_t file = 0; file < archives.size(); ++file) {
      BALLAST_CHECK(add_damage(file, out, threads, progress, damage));
    }
    return damage;
  });
}

Status LoadedCheckpoint::State::check_memory(std::span<const MutableByteSpan> out) const {
  const size_t count = manifest.weights.size() + manifest.state.size();
  if (out.size() != count) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the checkpoint has {} tensors, there is memory for {}", count, out.size()));
  }
  size_t number = 0;
  for (const auto* tensors : {&manifest.weights, &manifest.state}) {
    for (const CheckpointTensor& tensor : *tensors) {
      const MutableByteSpan memory = out[number++];
      if (memory.size() != tensor.info.byte_size) return wrong_memory(tensor.info, memory);
    }
  }
  return {};
}

Result<std::vector<std::string>> LoadedCheckpoint::find_damage(unsigned threads, const Progress& progress) const {
  return state_->find_damage({}, threads, progress);
}

Result<std::vector<std::string>> LoadedCheckpoint::read_all(std::span<const MutableByteSpan> out, unsigned threads,
                                                            const Progress& progress) const {
  BALLAST_CHECK(state_->check_memory(out));
  return state_->find_damage(out, threads, progress);
}

// ---------------------------------------------------------------- a folder of them

namespace {

Result<CheckpointManifest> read_checkpoint_manifest(const WorkFolder& folder, const std::string& name, uint64_t step,
                                                    const FileSystem& files) {
  const std::string path = folder.path_of(name);
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional, &files));
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  BALLAST_TRY(CheckpointManifest manifest, parse_checkpoint_manifest(as_text(bytes), path));
  if (manifest.step != step) return corrupt(path, fmt::format("is the manifest of step {}", manifest.step));
  return manifest;
}

}  // namespace

Result<CheckpointList> list_checkpoints(const std::string& path, const FileSystem* file_system) {
  return guarded([&]() -> Result<CheckpointList> {
    const FileSystem& files = file_system != nullptr ? *file_system : os_file_system();
    BALLAST_TRY(const WorkFolder folder, WorkFolder::open(path, files));
    BALLAST_TRY(const std::vector<std::string> names, folder.list());
    CheckpointList list;
    for (const std::string& name : names) {
      const auto step = step_of_manifest_name(name);
      if (!step) continue;
      auto manifest = read_checkpoint_manifest(folder, name, *step, files);
      if (manifest) list.checkpoints.push_back(std::move(*manifest));
      // One that is gone by now was pruned by whoever works here.
      else if (manifest.error().code != ErrorCode::kNotFound) list.damaged.push_back({name, manifest.error().message});
    }
    std::ranges::stable_sort(list.checkpoints, {}, &CheckpointManifest::sequence);
    return list;
  });
}

}  // namespace ballast
