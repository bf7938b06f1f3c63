// What `ballast train` needs before its first step.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/terminal/console.h"
#include "ballast/training/prepare_run.h"

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

// Where a run with checkpoints writes down all its steps, for its report.
std::string history_path(const std::string& checkpoints);

// Reads the configuration, opens data and model, finds out whether the results can be written, and restores the newest
// sound checkpoint. Writes nothing but the folder of the checkpoints, and not even that for a check.
Result<PreparedRun> prepare_run(const TrainFlags& flags, Console& console);

}  // namespace ballast::cli
