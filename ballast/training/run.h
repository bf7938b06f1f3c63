// A whole run: steps, evaluations and checkpoints when they are due, until the end or until someone says stop.
#pragma once

#include "ballast/training/checkpoint.h"
#include "ballast/training/trainer.h"

namespace ballast {

// Is told of everything as it happens, on the thread that trains.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual Status on_event(const TrainEvent& event) = 0;
  // Asked after each step: true ends the run behind a checkpoint.
  virtual bool wants_stop() = 0;
};

struct RunEnd {
  bool finished = false;  // false: it was stopped
  std::optional<EvalRecord> last_evaluation;
  double last_loss = 0;
  uint64_t steps = 0;  // made in this run
};

// `checkpoints` null: none are written. A CheckpointRecord comes when the copy was taken; `bytes` is what was copied.
// On an error the last checkpoint that became durable stays.
Result<RunEnd> run_training(Trainer& trainer, CheckpointManager* checkpoints, RunObserver& observer);

// The policy that a configuration asks for.
CheckpointOptions checkpoint_options(const CheckpointSpec& spec);

}  // namespace ballast
