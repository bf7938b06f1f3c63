// Text models (ballast/models) as something to train: the next token at each place.
#pragma once

#include "ballast/models/kind_config.h"
#include "ballast/models/model.h"
#include "ballast/training/trainable.h"

namespace ballast {

// A fresh model: weights from a normal distribution of deviation 0.02 (what ends a residual branch: that over the root
// of twice the layers), biases 0, gains 1. `config` goes into its files, too.
Result<std::unique_ptr<Trainable>> make_text_trainable(const ModelKind& kind, const KindConfig& config, uint64_t seed);
// With the parameters of a file: any archive that holds what the kind asks for, as floats of any width.
Result<std::unique_ptr<Trainable>> load_text_trainable(const ModelKind& kind, const KindConfig& config,
                                                       const std::string& path);

}  // namespace ballast
