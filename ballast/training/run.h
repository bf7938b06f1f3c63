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
  double last_loss = 0;  // of the last step's batch, also where an earlier run made it
  uint64_t steps = 0;    // made in this run
};

// `checkpoints` null: none are written. A CheckpointRecord comes when the copy was taken; `bytes` is what was copied.
// On an error the last checkpoint that became durable stays. `so_far`: the metrics of the checkpoint that the trainer
// was restored from.
Result<RunEnd> run_training(Trainer& trainer, CheckpointManager* checkpoints, RunObserver& observer,
                            const Metrics& so_far = {});

// Why these parameters, which no gradient reaches, are worth a word; empty for none.
std::string describe_idle_params(const std::vector<std::string>& names);

// The policy that a configuration asks for.
CheckpointOptions checkpoint_options(const CheckpointSpec& spec);

}  // namespace ballast
