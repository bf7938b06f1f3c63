// Which weights are multiplied with several rows again and again, as happens where many texts are written at once.
#pragma once

#include <atomic>
#include <cstdint>

namespace ballast::host {

// How many products in a row with one weight were batches; kept with the forms that are derived from the weight
// (ParamStore::derived_uses). May be used by any number of threads; where two count at once, one of them may not count.
class BatchCount {
 public:
  // So many rows are a batch. Fewer are a text alone, and the count starts again; more are a long prompt, which says
  // nothing.
  static constexpr uint64_t kLeastRows = 4, kMostRows = 64;
  // Batches in a row after which a weight is said to be used by batches, from then on.
  static constexpr uint32_t kEnough = 8;

  explicit BatchCount(std::atomic<uint32_t>& batches) : batches_(batches) {}

  bool is_enough() const { return batches_.load(std::memory_order_relaxed) == kEnough; }

  // Counts a product with so many rows, and tells whether it is enough.
  bool add(uint64_t rows) {
    const uint32_t before = batches_.load(std::memory_order_relaxed);
    if (before == kEnough || rows > kMostRows) return before == kEnough;
    const uint32_t now = rows >= kLeastRows ? before + 1 : 0;
    if (now != before) batches_.store(now, std::memory_order_relaxed);
    return now == kEnough;
  }

 private:
  std::atomic<uint32_t>& batches_;
};

}  // namespace ballast::host
