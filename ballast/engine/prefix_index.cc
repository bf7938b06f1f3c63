#include "ballast/engine/prefix_index.h"

#include <algorithm>
#include <utility>

namespace ballast {

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

PrefixIndex::PrefixIndex(std::shared_ptr<const KvLayout> layout)
    : layout_(std::move(layout)), kept_(layout_->groups().size()) {}

std::vector<KvBlock*> PrefixIndex::find_prefix(uint64_t kind, std::span<const TokenId> ids) const {
  std::vector<KvBlock*> found;
  size_t longest = 0;
  std::vector<uint64_t> runs(layout_->groups().size());  // pages without a gap, up to the last block, of each group
  Digest digest = first_link(kind);
  for (; ids.size() >= kPagePositions; ids = ids.subspan(kPagePositions)) {
    digest = next_link(digest, ids.first(kPagePositions));
    const auto block = blocks_.find(digest);
    found.push_back(block != blocks_.end() ? block->second.get() : nullptr);
    if (!add_to_runs(found.back(), runs)) break;
    if (found.back() != nullptr && is_whole(found.size(), runs)) longest = found.size();
  }
  found.resize(longest);
  return found;
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

KvBlock* PrefixIndex::find_or_add(const Digest& digest) {
  if (const auto found = blocks_.find(digest); found != blocks_.end()) return found->second.get();
  auto block = std::make_unique<KvBlock>();
  block->digest = digest;
  block->slots.resize(layout_->groups().size());
  for (size_t group = 0; group < block->slots.size(); ++group) {
    block->slots[group].block = block.get();
    block->slots[group].group = group;
  }
  return blocks_.emplace(digest, std::move(block)).first->second.get();
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

bool PrefixIndex::evict_oldest() {
  if (oldest_ == nullptr) return false;
  KvSlot& slot = *oldest_;
  unkeep(slot);
  slot.page.reset();
  erase_if_empty(*slot.block);
  return true;
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
  const Digest digest = block.digest;  // erase() by a key inside of what it erases would read it afterwards
  blocks_.erase(digest);
}

}  // namespace ballast
