#include "ballast/engine/prefix_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ballast {

namespace {

bool has_all_pages(const KvBlock& block) {
  return std::ranges::all_of(block.slots, [](const KvSlot& slot) { return slot.page != nullptr; });
}

}  // namespace

Digest first_link(uint64_t kind) {
  Blake3 hasher;
  hasher.update("ballast past");
  hasher.update_le(kind);
  return hasher.finish();
}

Digest next_link(const Digest& before, std::span<const TokenId> block) {
  Blake3 hasher;
  hasher.update(before);
  for (const TokenId id : block) hasher.update_le(id);
  return hasher.finish();
}

uint64_t common_run(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<uint64_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool PrefixIndex::InOrder::is_before(const Key& a, const Key& b) {
  if (a.before != b.before) return a.before < b.before;
  return std::ranges::lexicographical_compare(a.tokens, b.tokens);
}

PrefixIndex::PrefixIndex(std::shared_ptr<const KvLayout> layout)
    : layout_(std::move(layout)), kept_(layout_->groups().size()) {}

// ---------------------------------------------------------------- finding

KvBlock* PrefixIndex::find(const Digest& before, std::span<const TokenId> tokens) const {
  const auto found = blocks_.find(Key{before, tokens});
  return found != blocks_.end() ? found->get() : nullptr;
}

std::vector<KvBlock*> PrefixIndex::find_prefix(uint64_t kind, std::span<const TokenId> ids) const {
  std::vector<KvBlock*> found;
  size_t longest = 0;
  std::vector<uint64_t> runs(layout_->groups().size());  // pages without a gap, up to the last block, of each group
  Digest digest = first_link(kind);
  for (; ids.size() >= kPagePositions; ids = ids.subspan(kPagePositions)) {
    const auto tokens = ids.first(kPagePositions);
    found.push_back(find(digest, tokens));
    if (!add_to_runs(found.back(), runs)) break;
    if (found.back() != nullptr && is_whole(found.size(), runs)) longest = found.size();
    digest = found.back() != nullptr ? found.back()->digest : next_link(digest, tokens);
  }
  found.resize(longest);
  return found;
}

// On either side of where the tokens would be, what has less in common is farther away: the first that has its pages is
// the best of its side.
KvRun PrefixIndex::find_run(const Digest& before, std::span<const TokenId> ids) const {
  KvRun best;
  // False where nothing better follows on this side.
  const auto consider = [&](KvBlock& block) {
    const uint64_t length = block.before == before ? common_run(ids, block.tokens) : 0;
    if (length <= best.length) return false;
    if (has_all_pages(block)) best = {&block, length};
    return true;
  };
  const auto place = blocks_.lower_bound(Key{before, ids});
  for (auto next = place; next != blocks_.end() && consider(**next);) ++next;
  for (auto next = place; next != blocks_.begin() && consider(**std::prev(next));) --next;
  return best;
}

// False where a page is missing that all positions behind it look at.
bool PrefixIndex::add_to_runs(const KvBlock* block, std::span<uint64_t> runs) const {
  for (size_t group = 0; group < runs.size(); ++group) {
    const bool is_there = block != nullptr && block->slots[group].page != nullptr;
    runs[group] = is_there ? runs[group] + 1 : 0;
    if (!is_there && layout_->groups()[group].window == 0) return false;
  }
  return true;
}

bool PrefixIndex::is_whole(uint64_t blocks, std::span<const uint64_t> runs) const {
  for (size_t group = 0; group < runs.size(); ++group) {
    if (runs[group] < blocks - layout_->groups()[group].first_page(blocks * kPagePositions)) return false;
  }
  return true;
}

// ---------------------------------------------------------------- entering and leaving

KvBlock* PrefixIndex::find_or_add(const Digest& before, std::span<const TokenId> tokens) {
  if (KvBlock* const block = find(before, tokens)) return block;
  auto block = std::make_unique<KvBlock>();
  block->before = before;
  block->tokens.assign(tokens.begin(), tokens.end());
  block->digest = next_link(before, tokens);
  block->slots.resize(layout_->groups().size());
  for (size_t group = 0; group < block->slots.size(); ++group) {
    block->slots[group].block = block.get();
    block->slots[group].group = group;
  }
  return blocks_.insert(std::move(block)).first->get();
}

void PrefixIndex::leave(KvBlock& block) {
  --block.sequences;
  erase_if_empty(block);
}

void PrefixIndex::use(KvSlot& slot) {
  if (slot.users++ == 0) unkeep(slot);
}

void PrefixIndex::release(KvSlot& slot) {
  if (--slot.users == 0) keep(slot);
}

void PrefixIndex::fill(KvSlot& slot, const KvPage& page) {
  slot.page = page;
  slot.users = 1;
}

void PrefixIndex::hand_over(KvSlot& slot) {
  slot.page.reset();
  slot.users = 0;
}

// ---------------------------------------------------------------- giving up

bool PrefixIndex::evict_oldest() {
  if (oldest_ == nullptr) return false;
  KvBlock& block = *oldest_->block;
  give_up(*oldest_);
  erase_if_empty(block);
  return true;
}

// A beginning of these tokens that nothing lies between is the neighbour before them; others are left to eviction.
void PrefixIndex::drop_covered_by(const KvBlock& block) {
  if (!has_all_pages(block)) return;
  for (auto place = blocks_.find(block); place != blocks_.begin();) {
    KvBlock& covered = **std::prev(place);
    if (covered.before != block.before || covered.sequences != 0) return;
    if (common_run(covered.tokens, block.tokens) != covered.tokens.size()) return;
    for (KvSlot& slot : covered.slots) {
      if (slot.page != nullptr) give_up(slot);
    }
    erase_if_empty(covered);
  }
}

void PrefixIndex::give_up(KvSlot& slot) {
  unkeep(slot);
  slot.page.reset();
}

void PrefixIndex::keep(KvSlot& slot) {
  slot.older = newest_;
  slot.newer = nullptr;
  (newest_ != nullptr ? newest_->newer : oldest_) = &slot;
  newest_ = &slot;
  ++kept_[slot.group];
}

void PrefixIndex::unkeep(KvSlot& slot) {
  (slot.older != nullptr ? slot.older->newer : oldest_) = slot.newer;
  (slot.newer != nullptr ? slot.newer->older : newest_) = slot.older;
  slot.older = slot.newer = nullptr;
  --kept_[slot.group];
}

void PrefixIndex::erase_if_empty(const KvBlock& block) {
  const auto has_page = [](const KvSlot& slot) { return slot.page != nullptr; };
  if (block.sequences != 0 || std::ranges::any_of(block.slots, has_page)) return;
  blocks_.erase(blocks_.find(block));
}

}  // namespace ballast
