// What a configuration leaves to the data and to the model, so that a run shows real numbers instead of placeholders.
#pragma once

#include "ballast/training/dataset.h"
#include "ballast/training/train_config.h"

namespace ballast {

// The loss for these targets: the one asked for, or where that is "auto" cross entropy for classes, shares of classes
// and tokens, and the mean squared error for other values. kInvalidArgument for one that cannot compare such targets,
// with those that can.
Result<LossSpec> choose_loss(const LossSpec& asked, const ExampleLayout& layout);

// Sizes of the first and last layer, vocabulary, classes, batch size, rate and length of the schedule, where they are
// 0. `calls`: of the schedule in the whole run.
void fill_in_config(TrainConfig& config, const ExampleLayout& layout, uint64_t batch_size, uint64_t calls);

}  // namespace ballast
