// From a configuration to a run that is ready to go, and from there to the model that it leaves.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/base/progress.h"
#include "ballast/base/result.h"
#include "ballast/models/model_input.h"
#include "ballast/training/checkpoint.h"
#include "ballast/training/train_config.h"
#include "ballast/training/train_event.h"

namespace ballast {

class Trainer;  // training/trainer.h

struct PrepareOptions {
  std::string backend{};       // empty: the default
  bool overwrite = false;      // a model that is there is replaced
  bool checkpoints = true;     // false: none are looked for or written, whatever the configuration says
  bool writes_report = false;  // the caller does; otherwise a configuration that asks for a report is refused
  // Files that the caller itself reads or writes in the run, and what they are ("the configuration"): nothing that the
  // run writes may be one of them.
  std::vector<std::pair<std::string, std::string>> files_in_use = {};
  PictureReader read_picture = {};  // for data of kind "images"
  Progress progress = {};           // of reading the data
  // What the user should know: what changed since the checkpoint, and checkpoints that were passed over.
  std::function<void(std::string_view)> on_note = {};
  std::function<void(std::string_view)> on_complaint = {};
};

// A run that is ready to go on from where its checkpoints end.
struct PreparedRun {
  PreparedRun();
  ~PreparedRun();
  PreparedRun(PreparedRun&&) noexcept;
  PreparedRun& operator=(PreparedRun&&) noexcept;

  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<CheckpointManager> checkpoints;  // null: none are written
  std::optional<uint64_t> resumed;                 // from this step
  Metrics so_far;                                  // of the checkpoint it was resumed from
  std::string data_name;
  uint64_t examples = 0;
  uint64_t held_out = 0;  // examples
  std::vector<std::string> class_names;
  uint64_t parameters = 0;

  const TrainConfig& config() const;
  uint64_t step() const;  // steps that were made
  uint64_t total_steps() const;
  // All steps were made before this run was prepared.
  bool was_finished() const;
};

// Opens data and model, finds out whether the results can be written, and restores the newest sound checkpoint. Writes
// nothing but the folder of the checkpoints.
Result<PreparedRun> prepare_run(const TrainConfig& config, const PrepareOptions& options = {});

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

// What became of a run, beside the figures.
struct RunOutcome {
  RunEnd end;
  bool wrote_output = false;
  bool kept_output = false;  // a finished run left the model that was there alone
};

// Trains to the end, or until the observer says stop, and writes the model and the log where the configuration says
// (but not the report: that is the caller's). The observer is told of everything, first of where the run resumes. A run
// that was stopped writes it only where it has no checkpoints: it would lose everything otherwise.
Result<RunOutcome> complete_run(PreparedRun& run, RunObserver& observer, bool overwrite = false);

// What became of it, for programs: {"step":12,"total_steps":12,"steps_made":12,"parameters":340,"resumed_from":null,
// "loss":0.5,"eval_loss":null,"eval_accuracy":null,"finished":true,"output":null,"config":{...}}. "output" is where the
// model is, null where none was written or kept; "config" has all settings, also those that the configuration left out.
std::string to_json(const PreparedRun& run, const RunOutcome& outcome);

}  // namespace ballast
