// Sequential models (ballast/nn) as something to train: examples against labels or values.
#pragma once

#include "ballast/nn/sequential.h"
#include "ballast/training/losses/loss.h"
#include "ballast/training/trainable.h"

namespace ballast {

// kInvalidArgument where the loss is none, or is not one number.
Result<std::unique_ptr<Trainable>> make_layers_trainable(std::unique_ptr<nn::Sequential> model, const LossConfig& loss);

}  // namespace ballast
