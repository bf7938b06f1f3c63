// From the sections of a configuration to the sets that a run takes its batches from.
#pragma once

#include <memory>
#include <optional>

#include "ballast/exchange/exchange.h"
#include "ballast/training/batch_order.h"
#include "ballast/training/dataset.h"
#include "ballast/training/train_config.h"

namespace ballast {

struct TrainingData {
  std::shared_ptr<const Dataset> training;
  std::shared_ptr<const Dataset> evaluation;   // null: nothing is evaluated
  std::shared_ptr<const Tokenizer> tokenizer;  // null: no text, or bytes
  std::vector<CompanionFile> companions;       // text: the tokenizer's files, which belong beside the trained model
  Sampling sampling = Sampling::kShuffled;
  uint64_t drawn_per_epoch = 0;  // text: windows that lie side by side
  bool drop_last = false;

  // Batches of a step for training. `batch_size` 0: all examples.
  Result<BatchOrder> training_order(uint64_t batch_size, uint64_t seed) const;
  // The evaluation set from its first example to its last.
  Result<BatchOrder> evaluation_order(uint64_t batch_size) const;
};

struct OpenDataSettings {
  uint64_t context = 0;             // text: tokens of an example, as the model takes them
  uint64_t seed = 0;                // chooses what is held out, where [data] shuffle is on
  unsigned threads = 0;             // for decoding pictures
  PictureReader read_picture = {};  // for "images"
  Progress progress = {};
};

Result<TrainingData> open_training_data(const DataSpec& data, const EvalSpec& eval, const OpenDataSettings& settings);

}  // namespace ballast
