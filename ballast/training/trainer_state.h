// What a checkpoint of the trainer holds beside tensors: one JSON object.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/training/checkpoint.h"
#include "ballast/training/optimizer.h"

namespace ballast {

// The parts are JSON of their own.
struct TrainerState {
  uint64_t step = 0;  // which is the position in the data too
  uint64_t seed = 0;
  std::string optimizer, schedule, scaler;
  std::string ema;  // "null": there are no averaged weights
};

std::string write_trainer_state(const TrainerState& state);
Result<TrainerState> read_trainer_state(std::string_view json);

// The payloads of these tensors, in their order. kInvalidArgument where the checkpoint has others, naming all that are
// missing, not expected, or of another shape or type.
Result<std::vector<ByteVector>> read_tensors(const LoadedCheckpoint& checkpoint, CheckpointPart part,
                                             const std::vector<StateTensor>& wanted);

}  // namespace ballast
