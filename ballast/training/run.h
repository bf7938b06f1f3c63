// A whole run: steps, evaluations and checkpoints when they are due, until the end or until someone says stop.
#pragma once

#include <string>
#include <vector>

#include "ballast/training/checkpoint.h"
#include "ballast/training/prepare_run.h"
#include "ballast/training/trainer.h"

namespace ballast {

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
