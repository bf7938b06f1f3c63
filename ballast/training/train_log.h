// What a run tells about itself as JSON lines in a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/io/append_file.h"
#include "ballast/training/train_event.h"

namespace ballast {

uint64_t step_of(const TrainEvent& event);

// JSON lines in a file that grows. Each line is handed to the operating system whole, so a run that is killed leaves
// whole lines; they are not synced.
class TrainLog {
 public:
  // A new log replaces an older one, and nothing else: see check_log_place. `files` (null = the operating system) must
  // outlive the log.
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

// Whether a new log may be written there: nothing is there, or an empty file, or another log. kExists otherwise.
Status check_log_place(const std::string& path);

// All records of a log, for reports. A longer one is refused.
inline constexpr uint64_t kMostLog = uint64_t{1} << 30;
Result<std::vector<TrainEvent>> read_train_log(const std::string& path, uint64_t most = kMostLog);

}  // namespace ballast
