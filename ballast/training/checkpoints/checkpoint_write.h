// From a snapshot in memory to a checkpoint on the disk.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ballast/io/large_memory.h"
#include "ballast/training/checkpoint.h"

namespace ballast {

// kInvalidArgument, saying what: names that stand twice, sizes that do not fit, state that is no JSON object.
Status check_snapshot(const TrainingSnapshot& snapshot);

// A snapshot's copy in memory that is used again for the next one: only a larger snapshot allocates.
class SnapshotCopy {
 public:
  // Gets memory for a first snapshot of about this size; does nothing once there is some, or where there is none to be
  // had. Ends early when `stop` becomes true: the copy then goes on where this ended.
  void reserve(size_t bytes, const std::atomic<bool>& stop);
  // The caller has checked the snapshot.
  Status take(const TrainingSnapshot& snapshot, unsigned threads);
  // Its tensors view the copy.
  const TrainingSnapshot& get() const { return copy_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Block {
    LargeMemory memory;
    size_t size = 0;
  };
  struct Layout {
    std::vector<std::byte*> places;  // of the weights, then of the state
    size_t missing = 0;              // bytes that no block has room for
  };

  bool add_block(size_t size);
  Layout lay_out(const TrainingSnapshot& snapshot) const;
  Result<Layout> make_room(const TrainingSnapshot& snapshot);

  TrainingSnapshot copy_;
  std::vector<Block> blocks_;  // at most two: the first, and what that one lacked
  uint64_t bytes_ = 0;
};

// Files of earlier checkpoints whose content this process knows to be sound: it wrote them, or read and checked them.
// Nothing else is relied on, or damage in one file would spoil every checkpoint that comes after.
class KnownFiles {
 public:
  void add(const CheckpointManifest& manifest);
  // Drops files that none of these name.
  void keep_only(std::span<const CheckpointManifest> manifests);

  struct Tensor {
    CheckpointPart part;
    Digest digest;
    std::optional<bool> requires_grad;
    std::optional<uint64_t> param_id;
    uint64_t bytes = 0;
  };
  struct File {
    CheckpointFile file;
    std::optional<ModelConfig> config;
    std::map<std::string, Tensor> tensors;  // as far as they are known
  };
  const std::map<std::string, File>& files() const { return files_; }

 private:
  std::map<std::string, File> files_;
};

struct CheckpointWrite {
  const std::string& folder;
  const CheckpointOptions& options;
  const KnownFiles& known;
  uint64_t sequence = 0;
};

struct WrittenCheckpoint {
  CheckpointManifest manifest;
  CommitReport report;
};

// Durable when this returns; nothing is visible when it fails before the manifest is in place.
Result<WrittenCheckpoint> write_checkpoint(const TrainingSnapshot& snapshot, const CheckpointWrite& request);

}  // namespace ballast
