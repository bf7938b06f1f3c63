// What a pool and its sequences have in common.
#pragma once

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

  const std::shared_ptr<const KvLayout> layout;
  const KvPoolOptions options;
  const std::shared_ptr<KvPageStore> store;
  PrefixIndex index;
  uint64_t positions_found = 0, pages_copied = 0, pages_evicted = 0;
};

}  // namespace ballast
