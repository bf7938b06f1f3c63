// Snapshots whose content follows from the step, so that every test can tell whether a checkpoint is the right one.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ballast/training/checkpoint.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

inline ByteVector bytes_of_step(size_t count, uint64_t step, unsigned salt) {
  ByteVector bytes(count);
  uint64_t state = step * 0x9E3779B97F4A7C15U + salt + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// A model of three tensors: "frozen" never changes, "weight" and "bias" change at every step; one moment each.
class SampleRun {
 public:
  // `elements`: of the weight.
  explicit SampleRun(size_t elements = 1000) : elements_(elements) {}

  // Valid until the next call.
  const TrainingSnapshot& at(uint64_t step) {
    snapshot_ = {};
    memory_.clear();
    snapshot_.step = step;
    add(snapshot_.weights, "frozen", {elements_, 2}, 0, 1, false);
    add(snapshot_.weights, "layer.weight", {elements_}, step, 2, true);
    add(snapshot_.weights, "layer.bias", {}, step, 3, true);
    for (size_t i = 0; i < snapshot_.weights.size(); ++i) snapshot_.weights[i].info.param_id = 0xFFFFFFFF00000000U + i;
    add(snapshot_.state, "exp_avg.layer.weight", {elements_}, step, 4, {});
    add(snapshot_.state, "exp_avg.layer.bias", {}, step, 5, {});
    snapshot_.state_json = fmt::format(R"({{"optimizer": {{"lr": 0.001,"t":{}}}, "position":[1, 2]}})", step);
    snapshot_.config_json = "{ \"kind\" : \"mlp\" }\n";
    snapshot_.metrics = {{"loss", 100.0 / static_cast<double>(step + 1)}};
    return snapshot_;
  }

 private:
  void add(std::vector<SnapshotTensor>& to, std::string name, Shape shape, uint64_t step, unsigned salt,
           std::optional<bool> requires_grad) {
    SnapshotTensor tensor{make_info(std::move(name), DType::kF32, std::move(shape)), {}};
    tensor.info.requires_grad = requires_grad;
    memory_.push_back(std::make_unique<ByteVector>(bytes_of_step(tensor.info.byte_size, step, salt)));
    tensor.bytes = *memory_.back();
    to.push_back(std::move(tensor));
  }

  size_t elements_;
  TrainingSnapshot snapshot_;
  std::vector<std::unique_ptr<ByteVector>> memory_;
};

inline std::string describe_difference(const std::vector<SnapshotTensor>& expected, const LoadedCheckpoint& loaded,
                                       CheckpointPart part) {
  if (loaded.tensors(part).size() != expected.size()) return "another number of tensors";
  for (const SnapshotTensor& tensor : expected) {
    const std::string& name = tensor.info.name;
    const auto found = loaded.find(part, name);
    if (!found) return name + " is missing";
    const TensorInfo& info = loaded.tensors(part)[*found].info;
    if (info.dtype != tensor.info.dtype || !(info.shape == tensor.info.shape)) return name + " has another type";
    if (info.param_id != tensor.info.param_id) return name + " has another id";
    if (info.requires_grad != tensor.info.requires_grad) return name + ": requires_grad differs";
    const auto bytes = loaded.read(part, *found);
    if (!bytes) return bytes.error().message;
    if (!same_bytes(*bytes, tensor.bytes)) return name + " has other bytes";
  }
  return "";
}

// "" when the checkpoint is exactly this snapshot, else what differs.
inline std::string describe_difference(const TrainingSnapshot& expected, const LoadedCheckpoint& loaded) {
  if (loaded.step() != expected.step) return "another step";
  if (loaded.state_json() != expected.state_json) return "another state: " + loaded.state_json();
  if (loaded.config_json() != expected.config_json) return "another config: " + loaded.config_json();
  if (loaded.metrics() != expected.metrics) return "other metrics";
  std::string difference = describe_difference(expected.weights, loaded, CheckpointPart::kWeights);
  if (difference.empty()) difference = describe_difference(expected.state, loaded, CheckpointPart::kState);
  return difference;
}

// Keeps everything, and leaves out waiting for the disk.
inline CheckpointOptions quick_options() {
  CheckpointOptions options;
  options.policy.keep_last = 0;
  options.sync = false;
  options.threads = 1;
  return options;
}

inline std::unique_ptr<CheckpointManager> open_or_fail(const std::string& folder,
                                                       const CheckpointOptions& options = quick_options()) {
  auto manager = CheckpointManager::open(folder, options);
  if (manager) return std::move(*manager);
  ADD_FAILURE() << manager.error().message;
  return nullptr;
}

inline void save_or_fail(CheckpointManager& manager, const TrainingSnapshot& snapshot) {
  const auto saved = manager.save(snapshot);
  ASSERT_TRUE(saved) << saved.error().message;
  const Status finished = manager.finish();
  ASSERT_TRUE(finished) << finished.error().message;
}

inline std::vector<uint64_t> steps_in(const std::string& folder) {
  std::vector<uint64_t> steps;
  const auto list = list_checkpoints(folder);
  EXPECT_TRUE(list) << list.error().message;
  if (list) {
    for (const CheckpointManifest& checkpoint : list->checkpoints) steps.push_back(checkpoint.step);
  }
  return steps;
}

}  // namespace ballast::testing
