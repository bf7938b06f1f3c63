// Small training runs that several tests make: a network of layers on images, and text models on a text of letters.
#pragma once

#include <memory>
#include <string>

#include "ballast/training/run.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {

// 37 images of 2 x 6 x 6 in 4 classes.
TrainingData image_data();
// A network with every kind of state: running statistics, dropout, averaged weights, accumulated gradients, a schedule.
TrainConfig image_config(const std::string& optimizer, uint64_t steps);

// Training on a text of letters, which is written into the folder.
TrainConfig letters_config(const TempFolder& folder);
TrainingData open_letters(const TrainConfig& config, uint64_t context);

// Fails the test, and ends the test program, where the model cannot be made.
std::unique_ptr<Trainer> trainer_of(const TrainConfig& config, TrainingData data, const TrainerSettings& settings);
// Makes this many steps.
void advance(Trainer& trainer, uint64_t steps);
// Every byte that the next step depends on.
std::string bits_of(const Trainer& trainer);

}  // namespace ballast::testing
