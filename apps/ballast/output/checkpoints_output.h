// What `ballast checkpoints` says, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/terminal/console.h"
#include "ballast/archive/convert.h"
#include "ballast/training/checkpoint.h"

namespace ballast::cli {

struct ListedFolder {
  std::string folder;
  CheckpointList list;
  std::vector<std::string> kept;  // per checkpoint; empty where no policy was given
};
std::string checkpoint_list_json(const ListedFolder& listed);
void print_checkpoint_list(const ListedFolder& listed, Console& console);

struct CheckedCheckpoint {
  std::string name;  // "step 1200", or the file of a manifest that cannot be read
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  std::vector<std::string> damage;
};
std::string checkpoint_verify_json(const std::string& folder, const std::vector<CheckedCheckpoint>& checked);
void print_checkpoint_verify(const std::string& folder, const std::vector<CheckedCheckpoint>& checked,
                             Console& console);

std::string checkpoint_prune_json(const std::string& folder, const PruneReport& report, bool dry_run);
void print_checkpoint_prune(const PruneReport& report, bool dry_run, Console& console);

std::string checkpoint_export_json(const std::string& folder, uint64_t step, const std::string& destination,
                                   const ConvertReport& report, bool dry_run);
// The weights and what the optimizer keeps of them, as Burn's records.
std::string burn_export_json(const std::string& folder, const TrainingSnapshot& snapshot, const std::string& module,
                             const std::string& optimizer, bool dry_run);
void print_burn_export(const TrainingSnapshot& snapshot, const std::string& module, const std::string& optimizer,
                       bool dry_run, Console& console);
void print_checkpoint_export(uint64_t step, const std::string& destination, const ConvertReport& report,
                             const ConvertOptions& options, Console& console);

}  // namespace ballast::cli
