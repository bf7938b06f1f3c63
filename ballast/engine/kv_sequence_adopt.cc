// KvSequence::adopt: taking up a beginning that the pool has.
#include <algorithm>

#include "ballast/engine/kv_pool.h"
#include "ballast/engine/kv_pool_state.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

// While this lives nobody evicts the block.
class HeldBlock {
 public:
  HeldBlock(PrefixIndex& index, KvBlock* block) : index_(index), block_(block) {
    if (block_ == nullptr) return;
    index_.join(*block_);
    for (KvSlot& slot : block_->slots) index_.use(slot);
  }
  ~HeldBlock() {
    if (block_ == nullptr) return;
    for (KvSlot& slot : block_->slots) index_.release(slot);
    index_.leave(*block_);
  }
  HeldBlock(const HeldBlock&) = delete;
  HeldBlock& operator=(const HeldBlock&) = delete;

 private:
  PrefixIndex& index_;
  KvBlock* block_;
};

}  // namespace

// A page that begins with the most of what comes next: of a block, or the last one of a sequence, which is not full.
struct KvSequence::Source {
  uint64_t run = 0;  // positions
  KvBlock* block = nullptr;
  const KvSequence* sequence = nullptr;
  size_t index = 0;  // of the page

  const DeviceMemory* page(size_t group) const {
    return block != nullptr ? block->slots[group].page.get() : sequence->past_.pages[group][index].get();
  }
};

std::span<const TokenId> KvSequence::adoptable(std::span<const TokenId> ids) const {
  return ids.first(std::min<uint64_t>(ids.size() - 1, past_.layout->shape().most_positions));
}

uint64_t KvSequence::adopt_pages(std::span<const TokenId> ids) {
  if (!tokens_.empty() || ids.empty() || !pool_->state_->options.share_prefixes) return length();
  PrefixIndex& index = pool_->state_->index;
  std::vector<KvBlock*> blocks;
  drop_from(0);  // what was reserved; before the search, whose blocks nobody has joined yet
  const Status found = guarded([&]() -> Status {
    blocks = index.find_prefix(kind_, adoptable(ids));
    make_room_for(blocks.size() * kPagePositions);
    return {};
  });
  if (!found || blocks.empty()) return 0;  // no memory to look it up: the text is computed instead
  tokens_.assign(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(blocks.size() * kPagePositions));
  blocks_.assign(blocks.begin(), blocks.end());
  for (std::vector<KvPage>& pages : past_.pages) pages.resize(blocks.size());
  for (KvBlock* block : blocks) {
    if (block != nullptr) index.join(*block);
  }
  take_back(length());
  pool_->state_->positions_found += length();
  return length();
}

uint64_t KvSequence::adopt(std::span<const TokenId> ids) {
  adopt_pages(ids);
  return adopt_end(ids);
}

uint64_t KvSequence::adopt_end(std::span<const TokenId> ids) {
  // What cannot be copied is computed.
  if (can_adopt_part_of(ids)) static_cast<void>(guarded([&] { return adopt_part(ids); }));
  return length();
}

bool KvSequence::can_adopt_part_of(std::span<const TokenId> ids) const {
  if (!pool_->state_->options.share_prefixes || length() % kPagePositions != 0) return false;
  if (length() > 0 && blocks_[length() / kPagePositions - 1] == nullptr) return false;
  return ids.size() > length() && common_run(tokens_, ids) == length();
}

Status KvSequence::adopt_part(std::span<const TokenId> ids) {
  KvPool::State& state = *pool_->state_;
  const size_t index = length() / kPagePositions;
  drop_from(index);  // what was reserved
  auto rest = adoptable(ids);
  rest = rest.subspan(std::min<size_t>(length(), rest.size()));
  rest = rest.first(std::min<size_t>(kPagePositions, rest.size()));
  const Source source = find_source(rest);
  if (source.run == 0) return {};
  make_room_for(length() + source.run);
  BALLAST_TRY(std::vector<KvPage> pages, copy_of(source));
  state.pages_copied += pages.size();
  state.positions_found += source.run;
  blocks_.push_back(nullptr);
  for (size_t group = 0; group < pages.size(); ++group) past_.pages[group].push_back(std::move(pages[group]));
  append(rest.first(source.run));
  return {};
}

// Sequences are looked through one by one: they are few, and most have nothing to do with this one.
KvSequence::Source KvSequence::find_source(std::span<const TokenId> rest) const {
  const size_t index = length() / kPagePositions;
  const KvRun known = pool_->state_->index.find_run(link_before(index), rest);
  Source best{.run = known.length, .block = known.block, .index = index};
  for (const KvSequence* other = pool_->state_->sequences; other != nullptr; other = other->next_) {
    if (!is_followed_by_page_of(*other)) continue;
    const uint64_t run = common_run(rest, other->tokens().subspan(length()));
    if (run > best.run) best = {.run = run, .sequence = other, .index = index};
  }
  return best;
}

// Whether the other one begins with all of this one and goes on in a page that the index does not have.
bool KvSequence::is_followed_by_page_of(const KvSequence& other) const {
  const size_t index = length() / kPagePositions;
  if (other.length() <= length() || other.blocks_[index] != nullptr) return false;
  if (index > 0 ? other.blocks_[index - 1] != blocks_[index - 1] : other.kind_ != kind_) return false;
  return std::ranges::all_of(other.past_.pages, [index](const auto& pages) { return pages[index] != nullptr; });
}

// All pages before the first copy, so that none is left in the queue when there are too few. A copy that failed must
// not become part of the text, whoever asks for errors next.
Result<std::vector<KvPage>> KvSequence::copy_of(const Source& source) const {
  KvPool::State& state = *pool_->state_;
  const HeldBlock held(state.index, source.block);
  std::vector<KvPage> pages(past_.pages.size());
  for (size_t group = 0; group < pages.size(); ++group) BALLAST_CHECK(assign(pages[group], state.take(group)));
  Queue& queue = state.store->queue();
  for (size_t group = 0; group < pages.size(); ++group) {
    queue.copy({source.page(group)}, {pages[group].get()}, pages[group]->bytes());
  }
  BALLAST_CHECK(queue.finish());
  return pages;
}

}  // namespace ballast
