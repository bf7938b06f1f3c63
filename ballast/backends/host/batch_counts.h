// Which weights are multiplied with several rows again and again, as happens where many texts are written at once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "ballast/base/param_id.h"

namespace ballast::host {

// Remembers a bounded number of weights of all models; one that had to make way for others starts anew. Keys of loaded
// models are unique, so nothing has to be forgotten when one goes. May be used by any number of threads; where two
// count the same weight at once, one of them may not count.
class BatchCounts {
 public:
  // So many rows are a batch. Fewer are a text alone, and the count starts again; more are a long prompt, which says
  // nothing.
  static constexpr uint64_t kLeastRows = 4, kMostRows = 64;
  // Batches in a row after which a weight is said to be used by batches, from then on.
  static constexpr uint64_t kEnough = 8;

  // Counts a product with so many rows.
  void count(const ParamKey& weight, uint64_t rows) {
    if (rows > kMostRows) return;
    const Place place(weight);
    std::atomic<uint64_t>* entry = find(place);
    const bool is_batch = rows >= kLeastRows;
    if (entry == nullptr) {
      if (is_batch) enter(place);
      return;
    }
    const uint64_t batches = entry->load(std::memory_order_relaxed) & kCountMask;
    if (batches == kEnough || (batches == 0 && !is_batch)) return;
    entry->store(place.tag | (is_batch ? batches + 1 : 0), std::memory_order_relaxed);
  }

  bool is_used_by_batches(const ParamKey& weight) {
    const Place place(weight);
    const std::atomic<uint64_t>* entry = find(place);
    return entry != nullptr && (entry->load(std::memory_order_relaxed) & kCountMask) == kEnough;
  }

 private:
  static constexpr uint64_t kCountMask = 0xFF;
  static constexpr size_t kSets = 1024, kWays = 4;
  using Set = std::array<std::atomic<uint64_t>, kWays>;

  struct Place {
    explicit Place(const ParamKey& key) {
      uint64_t words[2];
      static_assert(sizeof(key) == sizeof(words));
      std::memcpy(words, &key, sizeof(words));
      set = words[0] % kSets;
      tag = words[1] & ~kCountMask;
    }
    size_t set;
    uint64_t tag;  // with room for the count
  };

  std::atomic<uint64_t>* find(const Place& place) {
    for (std::atomic<uint64_t>& entry : sets_[place.set]) {
      const uint64_t value = entry.load(std::memory_order_relaxed);
      if (value != 0 && (value & ~kCountMask) == place.tag) return &entry;
    }
    return nullptr;
  }

  // The oldest of the set goes.
  void enter(const Place& place) {
    Set& set = sets_[place.set];
    for (size_t way = kWays - 1; way > 0; --way) {
      set[way].store(set[way - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    set[0].store(place.tag | 1, std::memory_order_relaxed);
  }

  std::array<Set, kSets> sets_{};
};

}  // namespace ballast::host
