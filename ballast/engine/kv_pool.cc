#include "ballast/engine/kv_pool.h"

#include <fmt/format.h>

#include <limits>

#include "ballast/engine/kv_pool_state.h"
#include "ballast/io/guard.h"

namespace ballast {

KvPool::State::State(std::shared_ptr<const KvLayout> layout_, std::shared_ptr<Queue> queue,
                     const KvPoolOptions& options_)
    : layout(std::move(layout_)),
      options(options_),
      store(std::make_shared<KvPageStore>(std::move(queue), layout, options.most_bytes)),
      index(layout),
      kept_at_least(layout->bytes_for(std::min(kKeptPositions, layout->shape().most_positions)).value_or(0)) {}

Result<KvPage> KvPool::State::take(size_t group) {
  for (;;) {
    auto page = store->take(group);
    if (page || page.error().code != ErrorCode::kOutOfMemory || !index.evict_oldest()) return page;
    ++pages_evicted;
  }
}

uint64_t KvPool::State::limit() const {
  return options.most_bytes != 0 ? options.most_bytes : store->queue().device().limits().memory;
}

uint64_t KvPool::State::bytes_in_use() const {
  uint64_t bytes = 0;
  for (size_t group = 0; group < layout->groups().size(); ++group) {
    bytes += (store->pages_out(group) - index.pages_kept(group)) * layout->groups()[group].page_bytes;
  }
  return bytes;
}

uint64_t KvPool::State::kept_bytes() const {
  uint64_t bytes = 0;
  for (size_t group = 0; group < layout->groups().size(); ++group) {
    bytes += index.pages_kept(group) * layout->groups()[group].page_bytes;
  }
  return bytes;
}

uint64_t KvPool::State::most_kept() const {
  if (options.most_kept_bytes != 0) return options.most_kept_bytes;
  return options.most_bytes != 0 ? options.most_bytes : std::max(most_in_use, kept_at_least);
}

void KvPool::State::limit_kept() noexcept {
  while (kept_bytes() > most_kept() && index.evict_oldest()) ++pages_evicted;
}

Result<std::shared_ptr<KvPool>> KvPool::make(const KvShape& shape, std::shared_ptr<Queue> queue,
                                             const KvPoolOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<KvPool>> {
    BALLAST_TRY(KvLayout layout, KvLayout::make(shape));
    const uint64_t largest = queue->device().limits().largest_piece;
    for (const KvGroup& group : layout.groups()) {
      if (largest == 0 || group.page_bytes <= largest) continue;
      return make_error(
          ErrorCode::kOutOfMemory,
          fmt::format("a page of keys and values has {} bytes, and the device \"{}\" allocates {} at most",
                      group.page_bytes, queue->device().name(), largest));
    }
    auto state =
        std::make_unique<State>(std::make_shared<const KvLayout>(std::move(layout)), std::move(queue), options);
    return std::shared_ptr<KvPool>(new KvPool(std::move(state)));
  });
}

KvPool::KvPool(std::unique_ptr<State> state) : state_(std::move(state)) {}
KvPool::~KvPool() = default;

const KvLayout& KvPool::layout() const { return *state_->layout; }

KvPoolCounters KvPool::counters() const {
  KvPoolCounters counters;
  for (size_t group = 0; group < state_->layout->groups().size(); ++group) {
    const uint64_t out = state_->store->pages_out(group);
    const uint64_t kept = state_->index.pages_kept(group);
    counters.pages_in_use += out - kept;
    counters.pages_kept += kept;
    counters.bytes += out * state_->layout->groups()[group].page_bytes;
  }
  counters.kept_bytes = state_->kept_bytes();
  counters.most_bytes = state_->options.most_bytes;
  counters.peak_bytes = state_->store->peak_bytes();
  counters.positions_found = state_->positions_found;
  counters.pages_copied = state_->pages_copied;
  counters.pages_evicted = state_->pages_evicted;
  return counters;
}

bool KvPool::could_hold(uint64_t positions) const {
  if (positions > state_->layout->shape().most_positions) return false;
  const auto bytes = state_->layout->bytes_for(positions);
  return bytes && (state_->limit() == 0 || *bytes <= state_->limit());
}

uint64_t KvPool::limit() const { return state_->limit(); }

uint64_t KvPool::free_bytes() const {
  const uint64_t limit = state_->limit();
  const uint64_t used = state_->bytes_in_use();
  if (limit == 0) return std::numeric_limits<uint64_t>::max();
  return limit > used ? limit - used : 0;
}

void KvPool::forget_kept() {
  while (state_->index.evict_oldest()) {
  }
  state_->store->trim();
}

}  // namespace ballast
