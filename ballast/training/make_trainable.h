// The model that a configuration names, made or loaded.
#pragma once

#include "ballast/training/open_data.h"
#include "ballast/training/train_config.h"
#include "ballast/training/trainable.h"

namespace ballast {

// What the configuration leaves open (sizes of the first and last layer, the vocabulary) follows from the data.
Result<std::unique_ptr<Trainable>> make_trainable(const TrainConfig& config, const TrainingData& data);

// Tokens of an example of text: the model's context. 0 for models that are not of text.
Result<uint64_t> context_of(const ModelSpec& model);

}  // namespace ballast
