// What a policy keeps, and removing the rest so that a crash in between leaves nothing that is named and missing.
#pragma once

#include <vector>

#include "ballast/io/work_folder.h"
#include "ballast/training/checkpoint.h"

namespace ballast {

struct PruneSettings {
  bool dry_run = false;
  bool sync = true;
};

// Removes the manifests of list.checkpoints[i] where keep[i] is false, brings that to the disk, and only then removes
// the files that no manifest names any more; takes the removed ones out of the list. `forgotten` are files that nobody
// names since their manifest was replaced. Files that nobody ever named (of processes that were killed before their
// commit) go too, unless a manifest is damaged: then nobody knows whose they are.
//
// Leftovers that cannot be removed are notes; that the manifests cannot be is an error.
Result<PruneReport> prune_checkpoints(const WorkFolder& folder, CheckpointList& list, const std::vector<bool>& keep,
                                      const std::vector<std::string>& forgotten, const PruneSettings& settings);

}  // namespace ballast
