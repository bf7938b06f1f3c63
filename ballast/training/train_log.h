// What a run tells about itself: one record a step, and events between them; as values, and as JSON lines in a file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/io/append_file.h"

namespace ballast {

// One step of the optimizer. Steps count from 1: record n speaks of the n-th step.
struct StepRecord {
  uint64_t step = 0;
  double loss = 0;  // of the step's batch, before the weights changed
  double lr = 0;
  std::optional<double> grad_norm = std::nullopt;  // before clipping
  uint64_t items = 0;                              // examples, or tokens for text, of this step
  double seconds = 0;                              // that this step took
  bool skipped = false;                            // the gradients were not finite, so the weights stayed
};

struct EvalRecord {
  uint64_t step = 0;  // after this many steps
  double loss = 0;
  std::optional<double> accuracy = std::nullopt;
  uint64_t items = 0;
  double seconds = 0;
};

struct CheckpointRecord {
  uint64_t step = 0;
  std::string path;
  uint64_t bytes = 0;         // written
  double paused_seconds = 0;  // during which training stood still
};

struct ResumeRecord {
  uint64_t step = 0;
  std::string path;
};

// Something that a run goes on with, and that its user should know.
struct WarningRecord {
  uint64_t step = 0;
  std::string text;
};

using TrainEvent = std::variant<StepRecord, EvalRecord, CheckpointRecord, ResumeRecord, WarningRecord>;

// {"step":12,"loss":0.5,"lr":0.001,"grad_norm":1.25,"items":64,"seconds":0.002}; other events have an "event" first:
// {"event":"eval","step":12,"loss":...}. Decimals are the shortest that give the same number back; what is not finite
// is a text ("nan"). Without a newline.
std::string to_json_line(const TrainEvent& event);
// The reverse. Unknown keys are passed over, so that later releases may add some.
Result<TrainEvent> parse_json_line(std::string_view line, const std::string& where);

uint64_t step_of(const TrainEvent& event);

// JSON lines in a file that grows. Each line is handed to the operating system whole, so a run that is killed leaves
// whole lines; they are not synced.
class TrainLog {
 public:
  // A new log replaces the file. `files` (null = the operating system) must outlive the log.
  static Result<TrainLog> create(const std::string& path, const FileSystem* files = nullptr);
  // For a run that goes on after `step`: keeps what the file says of steps up to it and drops the rest, which is going
  // to be done again, and a last line that was cut. A file that is not there is created; one that is no log is an error
  // and stays as it is.
  static Result<TrainLog> resume(const std::string& path, uint64_t step, const FileSystem* files = nullptr);

  Status write(const TrainEvent& event);

 private:
  explicit TrainLog(AppendFile file) : file_(std::move(file)) {}

  AppendFile file_;
};

// All records of a log, for reports. A longer one is refused.
inline constexpr uint64_t kMostLog = uint64_t{1} << 30;
Result<std::vector<TrainEvent>> read_train_log(const std::string& path, uint64_t most = kMostLog);

}  // namespace ballast
