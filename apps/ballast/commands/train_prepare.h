// What `ballast train` needs before its first step.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/ballast/terminal/console.h"
#include "ballast/training/trainer.h"

namespace ballast::cli {

struct TrainFlags {
  std::string config;
  std::vector<std::string> set;
  std::string log;
  std::string report;
  std::string output;
  std::string checkpoints;
  std::string resume;
  std::string backend;
  uint64_t steps = 0;
  unsigned threads = 0;
  bool check = false;
  bool overwrite = false;
  bool quiet = false;
  bool json = false;
};

// A run that is ready to go on from where its checkpoints end.
struct PreparedRun {
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<CheckpointManager> checkpoints;  // null: none are written, or only a check was asked for
  std::optional<uint64_t> resumed;                 // from this step
  Metrics so_far;                                  // of the checkpoint it was resumed from
  std::string data_name;
  uint64_t examples = 0;
  uint64_t held_out = 0;  // examples
  std::vector<std::string> class_names;
  uint64_t parameters = 0;

  const TrainConfig& config() const { return trainer->config(); }
  // All steps were made before this command ran.
  bool was_finished() const { return resumed && trainer->step() == trainer->total_steps(); }
};

// Reads the configuration, opens data and model, finds out whether the results can be written, and restores the newest
// sound checkpoint. Writes nothing but the folder of the checkpoints, and not even that for a check.
Result<PreparedRun> prepare_run(const TrainFlags& flags, Console& console);

}  // namespace ballast::cli
