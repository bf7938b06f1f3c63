// Checkpoints of a training run: one commit of weights, optimizer, schedule, random state, data position and
// configuration, in a folder that is sound whenever the process or the machine stops.
//
// A folder holds one run. Everything in it is a standard file: the tensors are in safetensors files (the weights, on
// request, in another format), and each checkpoint is a JSON manifest "step-00001200.json" that names them with their
// digests. The manifest is the commit: the files that it names are on the disk before it appears, under its name there
// is never anything but a whole one, and nothing that it names is removed before it is. docs/checkpoints.md has the
// format and what happens after a crash.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/base/hash.h"
#include "ballast/base/progress.h"
#include "ballast/base/result.h"
#include "ballast/formats/description.h"

namespace ballast {

class Archive;
class FileSystem;

// ---------------------------------------------------------------- what is saved

// Bytes of the caller: canonical (little-endian, row-major), info.byte_size of them.
struct SnapshotTensor {
  TensorInfo info;  // name, dtype, shape, byte_size, and what the model says of it: param_id, requires_grad
  ByteSpan bytes;
};

using Metrics = std::vector<std::pair<std::string, double>>;

struct TrainingSnapshot {
  uint64_t step = 0;                    // of the optimizer; the checkpoint's name
  std::vector<SnapshotTensor> weights;  // what the model is: parameters and buffers
  std::vector<SnapshotTensor> state;    // what training adds: moments, averages, accumulated gradients
  std::string state_json = "{}";        // one JSON object: optimizer scalars, schedule, scaler, random state, position
  std::string config_json;              // model and training configuration, kept byte for byte; any UTF-8 text
  std::optional<ModelConfig> model_config;  // for weight files whose format has a field for it (GPTRSCHK needs it)
  Metrics metrics;                          // what "best" is chosen by
};

// ---------------------------------------------------------------- what is read

enum class CheckpointPart : uint8_t { kWeights, kState };

struct CheckpointTensor {
  TensorInfo info;
  Digest digest;      // content digest, as `ballast hash` prints it
  uint32_t file = 0;  // which of the checkpoint's files holds it, under its own name
};

struct CheckpointFile {
  std::string name;     // in the folder
  std::string format;   // the driver's name
  uint64_t bytes = 0;   // on disk
  Digest digest;        // of its content, as `ballast hash` prints it
  bool is_new = false;  // written for this checkpoint; otherwise by an earlier one
};

// What a manifest says.
struct CheckpointManifest {
  uint64_t step = 0;
  uint64_t sequence = 0;  // counts the saves in a folder: later is newer, also after going back to an earlier step
  int64_t saved_at = 0;   // seconds since 1970, UTC
  Metrics metrics;
  std::string state_json;
  std::string config_json;
  std::optional<ModelConfig> model_config;
  std::vector<CheckpointTensor> weights;
  std::vector<CheckpointTensor> state;
  std::vector<CheckpointFile> files;

  std::span<const CheckpointTensor> tensors(CheckpointPart part) const {
    return part == CheckpointPart::kWeights ? weights : state;
  }
  uint64_t payload_bytes() const;  // of all tensors
  uint64_t new_bytes() const;      // of the files that were written for it
};

// A checkpoint that was opened: its files are there, have their sizes and describe their tensors as the manifest does.
// Payloads are read on demand, each checked against its digest. The files stay readable while this lives, even when the
// checkpoint is pruned. May be read from several threads at once.
class LoadedCheckpoint {
 public:
  // Fails with kCorrupt, saying what does not fit, or kNotFound.
  static Result<LoadedCheckpoint> open(const std::string& folder, CheckpointManifest manifest);
  ~LoadedCheckpoint();
  LoadedCheckpoint(LoadedCheckpoint&&) noexcept;
  LoadedCheckpoint& operator=(LoadedCheckpoint&&) noexcept;

  const CheckpointManifest& manifest() const;
  uint64_t step() const { return manifest().step; }
  const Metrics& metrics() const { return manifest().metrics; }
  const std::string& state_json() const { return manifest().state_json; }
  const std::string& config_json() const { return manifest().config_json; }
  std::span<const CheckpointTensor> tensors(CheckpointPart part) const { return manifest().tensors(part); }
  std::span<const CheckpointTensor> weights() const { return manifest().weights; }
  std::span<const CheckpointTensor> state() const { return manifest().state; }

  std::optional<size_t> find(CheckpointPart part, std::string_view name) const;
  // `out` has info.byte_size bytes. kCorrupt, naming tensor and file, when the digest does not fit; `out` is then
  // filled with what was there.
  Status read_into(CheckpointPart part, size_t index, MutableByteSpan out) const;
  Result<ByteVector> read(CheckpointPart part, size_t index) const;

  // The weights as one archive with the model's config, for whoever plans what becomes of them. What is read through it
  // is not compared with the digests; it may outlive this.
  Result<Archive> weights_archive() const;

  // Reads everything and compares all digests. One text per thing that is wrong; empty = sound.
  Result<std::vector<std::string>> find_damage(unsigned threads = 0, const Progress& progress = {}) const;
  // The same, and what was read stays in `out`, which has memory for each tensor: the weights in their order, then the
  // state.
  Result<std::vector<std::string>> read_all(std::span<const MutableByteSpan> out, unsigned threads = 0,
                                            const Progress& progress = {}) const;

 private:
  struct State;
  explicit LoadedCheckpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// ---------------------------------------------------------------- looking at a folder, without its lock

struct DamagedManifest {
  std::string file;  // name in the folder
  std::string why;
};

struct CheckpointList {
  std::vector<CheckpointManifest> checkpoints;  // oldest first, by sequence
  std::vector<DamagedManifest> damaged;
};

// Reads the manifests, no tensors. A folder without checkpoints is an empty list; no folder is kNotFound.
Result<CheckpointList> list_checkpoints(const std::string& folder, const FileSystem* files = nullptr);

// "step-00001200.json"
std::string checkpoint_manifest_name(uint64_t step);

// ---------------------------------------------------------------- what is kept

// A checkpoint stays while any of the rules wants it; the newest always does.
struct CheckpointPolicy {
  uint64_t keep_last = 3;  // the newest n; 0: all are kept, whatever else is said
  uint64_t keep_best = 0;  // the best n by `metric`; those without it, or with NaN, are no candidates
  std::string metric = {};
  bool larger_is_better = false;
  uint64_t keep_every = 0;  // those whose step is a multiple of this; 0: no such rule
};

// For each checkpoint (in the order of the list) why it is kept: "last", "best", "every 1000", several joined by ", ";
// empty: it is not.
std::vector<std::string> find_kept(std::span<const CheckpointManifest> checkpoints, const CheckpointPolicy& policy);

struct PruneReport {
  std::vector<uint64_t> steps;     // of the checkpoints removed
  std::vector<std::string> files;  // removed besides their manifests, among them leftovers of killed processes
  uint64_t bytes = 0;              // that these files had
  std::vector<std::string> notes;  // what could not be removed, and why
};

// ---------------------------------------------------------------- the manager

struct CheckpointOptions {
  CheckpointPolicy policy;
  // "safetensors", or another format that writes one file ("burnpack", "gptrs-checkpoint", "netcl", "npz"): then all
  // weights are written again as soon as one of them changed.
  std::string weights_format = "safetensors";
  bool incremental = true;  // tensors that did not change since an earlier checkpoint are not written again
  bool sync = true;         // false: survives the process, not a power failure
  unsigned threads = 0;     // for copying and digests; 0: as many as the machine has
  const FileSystem* file_system = nullptr;  // null: the operating system; must outlive the manager
};

// What a call of save() cost the caller.
struct SaveReport {
  double pause_seconds = 0;  // all of it: waiting and copying
  double wait_seconds = 0;   // for the write of the checkpoint before
  double copy_seconds = 0;
  uint64_t bytes = 0;   // copied
  bool waited = false;  // the checkpoint before was still being written
};

// What became of a checkpoint in the background.
struct CommitReport {
  uint64_t step = 0;
  double seconds = 0;         // from the end of the copy until it was durable
  double digest_seconds = 0;  // of it
  uint64_t bytes_written = 0;
  uint64_t bytes_reused = 0;  // payload that stands in files of earlier checkpoints
  PruneReport pruned;
};

// Gives memory for all payloads of a checkpoint, as LoadedCheckpoint::read_all() takes it.
using PayloadMemory = std::function<Result<std::vector<MutableByteSpan>>(const LoadedCheckpoint&)>;

struct ResumeReport {
  std::optional<LoadedCheckpoint> checkpoint;  // none: there is nothing sound to go on from
  std::vector<std::string> rejected;           // newer ones that were passed over, each with its reason
};

// The writer of a folder; one per folder at a time. Methods are called from one thread; the writing happens on a thread
// of the manager's own.
class CheckpointManager {
 public:
  // Creates the folder with its parents where it is missing, takes its lock, and removes what killed processes left.
  // kExists when another process (named where it can be told) holds the lock; that of a dead process holds nothing.
  static Result<std::unique_ptr<CheckpointManager>> open(const std::string& folder, CheckpointOptions options);
  // Waits for the write in progress; its error, if nobody asked for it, is lost: call finish() first.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Finds the newest sound checkpoint, reading and checking all of it. What it holds need not be written again. With
  // `memory`, which is asked for each checkpoint that is tried, what was read stays there and need not be read again.
  Result<ResumeReport> resume(const Progress& progress = {}, const PayloadMemory& memory = {});
  // The checkpoint of this step, or an error that says what is wrong with it.
  Result<LoadedCheckpoint> resume_from(uint64_t step, const Progress& progress = {}, const PayloadMemory& memory = {});

  // Copies the snapshot and returns; the rest happens in the background. The copy goes into memory that is kept for the
  // next one, so that only the first save, or a larger one, allocates. While an earlier checkpoint is still being
  // written, waits for it first. When that one failed, fails with its error, the snapshot is not taken, and the next
  // call starts afresh. Fails at once on a snapshot that cannot be stored (names twice, sizes that do not fit their
  // shapes, state that is no JSON object).
  Result<SaveReport> save(const TrainingSnapshot& snapshot);

  // Before the first save: gets memory for its copy ready in the background, if it is to have about this size. Fresh
  // memory costs several times as much as the copy. Does nothing if that would be more than half of what is available.
  // A save in the meantime does not wait.
  void reserve(uint64_t bytes);

  // Waits until everything is durable; the error of the last write, once.
  Status finish();
  // Waits at most this long for the write in progress; true: there is none any more, so that nothing else waits either.
  // For callers that have to look up now and then, for a signal say.
  bool wait_for(std::chrono::milliseconds time) const;

  // In a child of fork(), before anything else: it has no writer's thread, and its copy of the lock would hold the
  // folder when the parent is gone. Closes that copy; afterwards only the destructor may be called, which does nothing.
  void abandon_after_fork();

  // The last checkpoint that became durable through this manager, without waiting.
  std::optional<CommitReport> last_commit() const;

  // Applies a policy now; not while a write is in progress (it waits). `dry_run` only says what would go.
  Result<PruneReport> prune(const CheckpointPolicy& policy, bool dry_run = false);

 private:
  struct State;
  explicit CheckpointManager(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ballast
