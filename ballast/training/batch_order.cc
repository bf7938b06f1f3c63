#include "ballast/training/batch_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "ballast/base/counter_random.h"

namespace ballast {

namespace {

constexpr unsigned kRounds = 6;
// Draws and shuffles of one seed have nothing to do with each other.
constexpr uint64_t kDrawStream = 0x6472617773U;

// An even number in [0, count) from 64 random bits: the upper half of their product.
uint64_t below(uint64_t random, uint64_t count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(random) * count) >> 64);
}

}  // namespace

IndexPermutation::IndexPermutation(uint64_t size, uint64_t key) : size_(size), key_(counter_random(key, size)) {
  const auto bits = static_cast<unsigned>(std::bit_width(size == 0 ? uint64_t{0} : size - 1));
  half_bits_ = std::max(1U, (bits + 1) / 2);
}

// A Feistel network over 2 * half_bits_ bits: whatever the function of a round is, the whole can be undone, so no two
// positions meet.
uint64_t IndexPermutation::mix_once(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t mixed = (counter_random(key_ + round, right) >> 32) & mask;
    left = std::exchange(right, left ^ mixed);
  }
  return (left << half_bits_) | right;
}

// Values beyond the size are mixed again until one falls inside. There are at most four times as many values as
// positions, so four rounds are usual; walking a circle from inside, one always comes back inside.
uint64_t IndexPermutation::operator()(uint64_t position) const {
  if (size_ <= 1) return 0;
  do {
    position = mix_once(position);
  } while (position >= size_);
  return position;
}

Result<BatchOrder> BatchOrder::make(const BatchOrderOptions& options) {
  if (options.examples == 0) {
    return make_error(ErrorCode::kInvalidArgument, "there are no examples to make batches of");
  }
  BatchOrder order(options);
  const bool drawn = options.sampling == Sampling::kDrawn;
  order.epoch_examples_ = drawn && options.drawn_per_epoch != 0 ? options.drawn_per_epoch : options.examples;
  uint64_t& batch = order.options_.batch_size;
  if (batch == 0) batch = order.epoch_examples_;
  const uint64_t full = order.epoch_examples_ / batch;
  const uint64_t rest = order.epoch_examples_ % batch;
  if (drawn) {  // a batch of draws is always full
    order.batches_per_epoch_ = std::max<uint64_t>(full, 1);
    return order;
  }
  if (options.drop_last && full == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} examples do not fill one batch of {}, and the last batch is to be dropped; make "
                                  "the batch smaller or keep the last one",
                                  options.examples, batch));
  }
  batch = std::min(batch, order.epoch_examples_);
  order.batches_per_epoch_ = full + (rest != 0 && !options.drop_last ? 1 : 0);
  order.batches_per_epoch_ = std::max<uint64_t>(order.batches_per_epoch_, 1);
  return order;
}

void BatchOrder::fill(uint64_t step, std::vector<uint64_t>& out) const {
  const uint64_t size = options_.batch_size;
  if (options_.sampling == Sampling::kDrawn) {
    out.resize(size);
    for (uint64_t i = 0; i < size; ++i)
      out[i] = below(counter_random(options_.seed ^ kDrawStream, step * size + i), options_.examples);
    return;
  }
  const uint64_t first = step % batches_per_epoch_ * size;
  out.resize(std::min(size, epoch_examples_ - first));
  if (options_.sampling == Sampling::kFileOrder) {
    for (uint64_t i = 0; i < out.size(); ++i) out[i] = first + i;
    return;
  }
  const IndexPermutation permutation(options_.examples, counter_random(options_.seed, epoch_of(step)));
  for (uint64_t i = 0; i < out.size(); ++i) out[i] = permutation(first + i);
}

}  // namespace ballast
