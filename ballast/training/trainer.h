// The training loop, a step at a time. What a step computes follows from the configuration, the seed and the number of
// the step alone: a run that was stopped and restored goes on with the same bits, with any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/ops/backend.h"
#include "ballast/training/checkpoint.h"
#include "ballast/training/open_data.h"
#include "ballast/training/train_config.h"
#include "ballast/training/train_event.h"

namespace ballast {

class Trainable;  // training/trainable.h, where make_trainable() gives one

struct TrainerSettings {
  const Backend* backend = nullptr;  // null: the default one
  unsigned threads = 0;              // 0: as many as the machine has
};

// One thread at a time.
class Trainer {
 public:
  // kInvalidArgument where data, loss and model do not fit each other.
  static Result<std::unique_ptr<Trainer>> make(const TrainConfig& config, std::unique_ptr<Trainable> model,
                                               TrainingData data, const TrainerSettings& settings = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // With what it leaves open filled in: sizes, the schedule's length, the loss.
  const TrainConfig& config() const;
  Trainable& model();
  // What save_model() writes beside the model: the files of its tokenizer.
  std::span<const CompanionFile> companions() const;
  uint64_t step() const;  // steps that were made
  uint64_t total_steps() const;
  uint64_t steps_per_epoch() const;
  bool evaluates() const;  // there is something to evaluate on
  // Whether the step made last ends an epoch.
  bool at_epoch_end() const;

  // Makes the next step. A loss or a gradient that is not finite is kInvalidArgument and says what to try; the weights
  // stay, and so they do where memory was short: the step can be tried again (running statistics have moved). A step
  // that fails while it changes the weights leaves them torn: from then on everything that computes with them or keeps
  // them is refused until restore().
  Result<StepRecord> advance();
  // Computes the next step and its gradients, but makes no step: parameters, optimizer and schedule stay (running
  // statistics do not). Finds what does not fit before hours are spent.
  Result<StepRecord> try_step();
  // Parameters whose gradient of the step computed last is all zeros or absent, by name: they learn nothing.
  Result<std::vector<std::string>> params_without_gradient();
  // Over the evaluation set, or the part of it that the configuration says; with averaged weights where there are any.
  // Also tells a schedule that waits for it.
  Result<EvalRecord> evaluate();

  // Everything that the next step depends on. Views: valid until the next step.
  Result<TrainingSnapshot> snapshot(Metrics metrics = {}) const;
  // All or nothing. kInvalidArgument where the checkpoint is of another model or optimizer, naming what differs.
  Status restore(const LoadedCheckpoint& checkpoint);

  // The model as a file; with averaged weights where there are any. Without `overwrite`, a file that is there is
  // kExists.
  Status save_model(const std::string& path, bool overwrite = true);

  // Of memory for tensors, ever: constant from the second step on.
  uint64_t allocations() const;

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ballast
