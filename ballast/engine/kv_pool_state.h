// What a pool and its sequences have in common.
#pragma once

#include <algorithm>
#include <memory>

#include "ballast/engine/kv_page_store.h"
#include "ballast/engine/kv_pool.h"
#include "ballast/engine/prefix_index.h"

namespace ballast {

struct KvPool::State {
  State(std::shared_ptr<const KvLayout> layout_, std::shared_ptr<Queue> queue, const KvPoolOptions& options_);

  // Evicts what nobody uses where that makes room.
  Result<KvPage> take(size_t group);
  uint64_t limit() const;  // in bytes; 0: not known
  uint64_t bytes_in_use() const;
  uint64_t kept_bytes() const;
  // What texts have needed at once is known of every device, unlike its memory, and grows with the work.
  uint64_t most_kept() const;
  // Before sequences give pages up.
  void note_use() { most_in_use = std::max(most_in_use, bytes_in_use()); }
  // And after: the oldest of those that are kept go, as far as there are too many.
  void limit_kept() noexcept;

  const std::shared_ptr<const KvLayout> layout;
  const KvPoolOptions options;
  const std::shared_ptr<KvPageStore> store;
  PrefixIndex index;
  const uint64_t kept_at_least;     // bytes: several short prompts in turn keep their prefixes
  KvSequence* sequences = nullptr;  // all that there are, linked with each other: their last pages are nowhere else
  uint64_t most_in_use = 0;         // bytes, at once
  uint64_t positions_found = 0, pages_copied = 0, pages_evicted = 0;
};

}  // namespace ballast
