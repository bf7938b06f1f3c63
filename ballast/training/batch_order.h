// Which examples are in the batch of a step: a function of the seed and the step alone.
//
// Nothing is stored and nothing is drawn one after the other, so a run that was stopped goes on with the batch that it
// would have had next, whatever the number of threads: the position in the data that a checkpoint saves is the step.
#pragma once

#include <cstdint>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

// A permutation of [0, size) chosen by `key`, computed at any position in constant time and memory.
class IndexPermutation {
 public:
  IndexPermutation(uint64_t size, uint64_t key);

  uint64_t size() const { return size_; }
  // `position` must be below the size.
  uint64_t operator()(uint64_t position) const;

 private:
  uint64_t mix_once(uint64_t value) const;

  uint64_t size_;
  uint64_t key_;
  unsigned half_bits_;
};

enum class Sampling : uint8_t {
  kShuffled,   // each epoch takes every example once, in an order of its own
  kFileOrder,  // each epoch takes every example once, as they lie in the file
  kDrawn,      // every example of every batch is drawn anew: for text, where nearly each token begins an example
};

struct BatchOrderOptions {
  uint64_t examples = 0;
  uint64_t batch_size = 1;  // 0: all of them
  Sampling sampling = Sampling::kShuffled;
  bool drop_last = false;  // the batch at the end of an epoch that is not full
  uint64_t seed = 0;
  // How many examples an epoch has with kDrawn, where it is a matter of taste; 0: as many as there are.
  uint64_t drawn_per_epoch = 0;
};

class BatchOrder {
 public:
  // kInvalidArgument without examples, or where dropping the last batch would leave none.
  static Result<BatchOrder> make(const BatchOrderOptions& options);

  uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  uint64_t epoch_of(uint64_t step) const { return step / batches_per_epoch_; }
  // The most examples that a batch has.
  uint64_t batch_size() const { return options_.batch_size; }

  // The examples of the batch of this step. `out` is made as long as the batch, and after the first full batch no
  // memory is asked for any more.
  void fill(uint64_t step, std::vector<uint64_t>& out) const;

 private:
  explicit BatchOrder(const BatchOrderOptions& options) : options_(options) {}

  BatchOrderOptions options_;
  uint64_t epoch_examples_ = 0;
  uint64_t batches_per_epoch_ = 1;
};

}  // namespace ballast
