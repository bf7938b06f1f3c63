// A checkpoint of `ballast train` as the records that Burn's own trainer would go on from.
#pragma once

#include "ballast/training/checkpoints/burn_records.h"

namespace ballast {

// What export_burn_records() takes: the weights, each with the id it has or one that follows from its name, and what
// the optimizer keeps under Burn's names (Adam and AdamW: momentum.moment_1, momentum.moment_2, momentum.time; SGD and
// Momentum: momentum.velocity). Averaged weights and the schedule are left out. A checkpoint of imported records comes
// back as they were. kUnsupported: Burn has no such optimizer, or it keeps nothing.
Result<ImportedBurnRecords> make_burn_snapshot(const LoadedCheckpoint& checkpoint);

}  // namespace ballast
