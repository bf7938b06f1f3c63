// What a run that is resumed does otherwise than before.
#pragma once

#include <string>
#include <vector>

#include "ballast/training/train_config.h"

namespace ballast {

// One line for each key that has another value and changes what is computed: "[optimizer] lr is 0.01, and was 0.001".
// Where results go, how often they are saved and how many threads compute makes no difference and is left out.
std::vector<std::string> describe_changes(const TrainConfig& before, const TrainConfig& now);

}  // namespace ballast
