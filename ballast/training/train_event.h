// What a run tells about itself: one record a step, and events between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "ballast/base/result.h"

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

}  // namespace ballast
