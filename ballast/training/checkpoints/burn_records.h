// What Burn's trainer saves, as it saves it: a module record, an optimizer record and a scheduler record (.bpk).
//
// All three are Burnpack files and open as archives; here is what their names mean. The module record holds tensors by
// module path, each with its parameter id. The optimizer record knows parameters by these ids only: tensors and scalars
// are called "<id>.<field path>" ("2632338486986739134.momentum.moment_1"), the scalar "<id>.__rank" is the rank of the
// parameter, the text "<id>" its module path. The scheduler record is scalars, "<index>.<field>".
#pragma once

#include <string>
#include <vector>

#include "ballast/archive/write.h"
#include "ballast/training/checkpoint.h"

namespace ballast {

// What an optimizer keeps for one parameter.
struct BurnOptimizerEntry {
  std::string parameter;  // module path
  uint64_t param_id = 0;
  uint64_t rank = 0;
  std::vector<SnapshotTensor> tensors;  // info.name is the field path: "momentum.moment_1"
  std::vector<MetaEntry> scalars;       // key is the field path: "momentum.time"
};

struct BurnOptimizerRecord {
  std::vector<BurnOptimizerEntry> entries;
  std::vector<ByteVector> memory;  // of a record that was read: what the tensors view
};

// kCorrupt, naming the entry, where something is called as nothing in such a record is.
Result<BurnOptimizerRecord> read_burn_optimizer(const Archive& archive);
// The bytes of the tensors must outlive the plan. kInvalidArgument when two entries have one id.
Result<WritePlan> plan_burn_optimizer(const BurnOptimizerRecord& record);

// Where the three files are; an empty path: there is none.
struct BurnRecordFiles {
  std::string module;
  std::string optimizer;
  std::string scheduler;
};

struct ImportedBurnRecords {
  TrainingSnapshot snapshot;
  std::vector<ByteVector> memory;  // what its tensors view
};

// A snapshot of what the files hold: the weights with their ids; the optimizer's tensors as state, called
// "<module path>.<field path>" and carrying the id of their parameter; all scalars in state_json, as
// {"burn":{"optimizer":{"<module path>":{"<field path>":{"u64":2}}},"scheduler":{"0.current_iter":{"u64":2}}}}.
// Where there is a module record, every id in the optimizer record must be one of its parameters.
Result<ImportedBurnRecords> import_burn_records(const BurnRecordFiles& files);

// The way back, for snapshots of that form; all files appear together. A scheduler that is asked for and is not in
// state_json is an error, and so is a state tensor without the id of a weight.
Status export_burn_records(const TrainingSnapshot& snapshot, const BurnRecordFiles& files,
                           const CommitOptions& commit = {});

}  // namespace ballast
