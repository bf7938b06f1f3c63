#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ballast/engine/kv_pool.h"
#include "ballast/engine/kv_pool_state.h"
#include "ballast/io/guard.h"

namespace ballast {

KvSequence::KvSequence(std::shared_ptr<KvPool> pool, uint64_t kind) : pool_(std::move(pool)), kind_(kind) {
  past_.layout = pool_->state_->layout;
  past_.pages.resize(past_.layout->groups().size());
  join_pool();
}

KvSequence::KvSequence(KvSequence&& other) noexcept
    : pool_(std::move(other.pool_)),
      kind_(other.kind_),
      tokens_(std::move(other.tokens_)),
      past_(std::move(other.past_)),
      blocks_(std::move(other.blocks_)) {
  take_place_of(other);
}

KvSequence& KvSequence::operator=(KvSequence&& other) noexcept {
  if (this == &other) return *this;
  drop_from(0);
  leave_pool();
  pool_ = std::move(other.pool_);
  kind_ = other.kind_;
  tokens_ = std::move(other.tokens_);
  past_ = std::move(other.past_);
  blocks_ = std::move(other.blocks_);
  take_place_of(other);
  return *this;
}

KvSequence::~KvSequence() {
  drop_from(0);
  leave_pool();
}

void KvSequence::join_pool() {
  next_ = std::exchange(pool_->state_->sequences, this);
  if (next_ != nullptr) next_->previous_ = this;
}

void KvSequence::leave_pool() noexcept {
  if (pool_ == nullptr) return;  // moved from
  (previous_ != nullptr ? previous_->next_ : pool_->state_->sequences) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  previous_ = next_ = nullptr;
}

// Among those of the pool, which was moved here already.
void KvSequence::take_place_of(KvSequence& other) noexcept {
  previous_ = std::exchange(other.previous_, nullptr);
  next_ = std::exchange(other.next_, nullptr);
  if (pool_ == nullptr) return;
  (previous_ != nullptr ? previous_->next_ : pool_->state_->sequences) = this;
  if (next_ != nullptr) next_->previous_ = this;
}

uint64_t KvSequence::bytes() const {
  uint64_t bytes = 0;
  for (size_t group = 0; group < past_.pages.size(); ++group) {
    for (const KvPage& page : past_.pages[group]) bytes += page != nullptr ? page->bytes() : 0;
  }
  return bytes;
}

// ---------------------------------------------------------------- growing

Status KvSequence::reserve(uint64_t rows) {
  return guarded([&]() -> Status {
    BALLAST_CHECK(check_context(rows));
    if (rows == 0) return {};
    const uint64_t positions = length() + rows;
    Status reserved = guarded([&] { return reserve_within(positions); });
    if (reserved || reserved.error().code != ErrorCode::kOutOfMemory) return reserved;
    return std::move(reserved).error().with_context(
        fmt::format("no room for the keys and values of positions {} to {}", length(), positions - 1));
  });
}

Status KvSequence::reserve_within(uint64_t positions) {
  make_room_for(positions);
  const uint64_t kept_before = pool_->state_->options.kept_before;
  drop_unseen(kept_before);
  Status pages = reserve_pages(positions);
  if (pages || kept_before == 0 || pages.error().code != ErrorCode::kOutOfMemory) return pages;
  drop_unseen(0);
  return reserve_pages(positions);
}

Status KvSequence::reserve_pages(uint64_t positions) {
  BALLAST_TRY(std::vector<NewPage> pages, take_pages(kv_pages_for(positions)));
  put_pages(std::move(pages), kv_pages_for(positions));
  return {};
}

Status KvSequence::check_context(uint64_t rows) const {
  const uint64_t most = past_.layout->shape().most_positions;
  if (length() <= most && rows <= most - length()) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} positions after {} do not fit the model's context of {}", rows, length(), most));
}

// Everything that grows with the sequence, so that appending cannot fail.
void KvSequence::make_room_for(uint64_t positions) {
  const size_t pages = kv_pages_for(positions);
  make_room(tokens_, positions);
  make_room(blocks_, pages);
  for (std::vector<KvPage>& of_group : past_.pages) make_room(of_group, pages);
}

// What is left of a group lies without gaps, so the first page that is gone ends the search.
void KvSequence::drop_unseen(uint64_t kept_before) {
  const uint64_t position = length() - std::min(length(), kept_before);
  pool_->state_->note_use();
  for (size_t group = 0; group < past_.pages.size(); ++group) {
    size_t i = past_.layout->groups()[group].first_page(position);
    while (i > 0 && past_.pages[group][i - 1] != nullptr) drop_page(group, --i);
  }
  pool_->state_->limit_kept();
}

bool KvSequence::is_partly_filled(size_t index) const {
  return index == length() / kPagePositions && length() % kPagePositions != 0;
}

// Whether somebody else could read what is written there. The index alone does not count: it lets go of the page.
bool KvSequence::is_shared(size_t group, size_t index) const {
  return past_.pages[group][index].use_count() > (blocks_[index] != nullptr ? 2 : 1);
}

Result<std::vector<KvSequence::NewPage>> KvSequence::take_pages(size_t end) const {
  KvPool::State& state = *pool_->state_;
  std::vector<NewPage> pages;
  uint64_t copied = 0;
  for (size_t i = length() / kPagePositions; i < end; ++i) {
    for (size_t group = 0; group < past_.pages.size(); ++group) {
      const KvPage* const old = i < page_count() ? &past_.pages[group][i] : nullptr;
      const bool is_copy = old != nullptr && is_partly_filled(i) && is_shared(group, i);
      if (old != nullptr && !is_copy) continue;
      BALLAST_TRY(KvPage page, state.take(group));
      if (is_copy) state.store->queue().copy({old->get()}, {page.get()}, page->bytes());
      if (is_copy) ++copied;
      pages.push_back({group, i, std::move(page)});
    }
  }
  // A copy that failed must not become part of the text, whoever asks for errors next.
  if (copied != 0) BALLAST_CHECK(state.store->queue().finish());
  state.pages_copied += copied;
  return pages;
}

void KvSequence::put_pages(std::vector<NewPage> pages, size_t end) {
  if (const size_t last = length() / kPagePositions; is_partly_filled(last) && blocks_[last] != nullptr) {
    leave_partial_block(last);
  }
  blocks_.resize(std::max(end, page_count()));
  for (std::vector<KvPage>& of_group : past_.pages) of_group.resize(page_count());
  for (NewPage& page : pages) past_.pages[page.group][page.index] = std::move(page.page);
}

// The block was cut by truncate() and goes on with other tokens: what is not shared becomes the sequence's own.
void KvSequence::leave_partial_block(size_t index) {
  PrefixIndex& prefixes = pool_->state_->index;
  KvBlock& block = *blocks_[index];
  for (size_t group = 0; group < past_.pages.size(); ++group) {
    if (is_shared(group, index)) {
      prefixes.release(block.slots[group]);
    } else {
      prefixes.hand_over(block.slots[group]);
    }
  }
  prefixes.leave(block);
  blocks_[index] = nullptr;
}

void KvSequence::append(std::span<const TokenId> ids) {
  const size_t first = length() / kPagePositions;
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  if (pool_->state_->options.share_prefixes) share_blocks(first);
}

// Where there is no memory to write a block down, it is not shared; nor are those after it, which are of no use alone.
void KvSequence::share_blocks(size_t first) {
  static_cast<void>(guarded([&]() -> Status {
    for (size_t i = first; i < length() / kPagePositions; ++i) share_block(i);
    return {};
  }));
}

// Of a block that is not full, what there is.
void KvSequence::share_block(size_t i) {
  if (i > 0 && blocks_[i - 1] == nullptr) return;
  PrefixIndex& index = pool_->state_->index;
  const uint64_t first = i * kPagePositions;
  const auto tokens = std::span(tokens_).subspan(first, std::min(kPagePositions, length() - first));
  KvBlock* const block = index.find_or_add(link_before(i), tokens);
  index.join(*block);
  blocks_[i] = block;
  for (size_t group = 0; group < past_.pages.size(); ++group) {
    KvPage& page = past_.pages[group][i];
    KvSlot& slot = block->slots[group];
    if (page == nullptr) continue;
    if (slot.page == nullptr) {
      index.fill(slot, page);
    } else {
      index.use(slot);  // others have computed the same: one of the two is enough
      page = slot.page;
    }
  }
  index.drop_covered_by(*block);
}

// The digest that the block there follows. The one before it is shared, or it is the first.
Digest KvSequence::link_before(size_t index) const {
  return index > 0 ? blocks_[index - 1]->digest : first_link(kind_);
}

// ---------------------------------------------------------------- shrinking

void KvSequence::drop_page(size_t group, size_t index) noexcept {
  if (past_.pages[group][index] == nullptr) return;
  past_.pages[group][index].reset();
  if (blocks_[index] != nullptr) pool_->state_->index.release(blocks_[index]->slots[group]);
}

// Before the last page goes, which is not full: a text that begins alike may go on from it. Of no use where a fork
// still has the page, or where another block begins with all of it. Where there is no memory to write it down, it goes.
void KvSequence::share_end() noexcept {
  const size_t last = length() / kPagePositions;
  if (!pool_->state_->options.share_prefixes || !is_partly_filled(last) || blocks_[last] != nullptr) return;
  if (last > 0 && blocks_[last - 1] == nullptr) return;
  if (std::ranges::any_of(past_.pages, [last](const auto& pages) { return pages[last].use_count() > 1; })) return;
  static_cast<void>(guarded([&]() -> Status {
    const auto tokens = std::span(tokens_).subspan(last * kPagePositions);
    if (pool_->state_->index.find_run(link_before(last), tokens).length < tokens.size()) share_block(last);
    return {};
  }));
}

// The last pages first: eviction takes what was given up first, and of a text its end.
void KvSequence::drop_from(size_t first) noexcept {
  if (page_count() <= first) return;  // also where the sequence was moved from, and has no pool
  pool_->state_->note_use();
  if (first <= length() / kPagePositions) share_end();
  while (page_count() > first) {
    const size_t last = page_count() - 1;
    for (size_t group = 0; group < past_.pages.size(); ++group) {
      drop_page(group, last);
      past_.pages[group].pop_back();
    }
    if (blocks_[last] != nullptr) pool_->state_->index.leave(*blocks_[last]);
    blocks_.pop_back();
  }
  pool_->state_->limit_kept();
}

void KvSequence::truncate(uint64_t length) {
  length = std::min(length, this->length());
  if (!can_end_at(length)) length = 0;
  take_back(length);
  drop_from(kv_pages_for(length));
  tokens_.resize(length);
}

// Whether the sequence or the index has all pages that positions from there on look at.
bool KvSequence::can_end_at(uint64_t length) const {
  for (size_t group = 0; group < past_.pages.size(); ++group) {
    for (size_t i = past_.layout->groups()[group].first_page(length); i < kv_pages_for(length); ++i) {
      const bool is_kept = blocks_[i] != nullptr && blocks_[i]->slots[group].page != nullptr;
      if (past_.pages[group][i] == nullptr && !is_kept) return false;
    }
  }
  return true;
}

// Pages that the sequence does not have, but needs to go on from there; its blocks have them.
void KvSequence::take_back(uint64_t length) {
  for (size_t group = 0; group < past_.pages.size(); ++group) {
    for (size_t i = past_.layout->groups()[group].first_page(length); i < kv_pages_for(length); ++i) {
      if (past_.pages[group][i] != nullptr) continue;
      pool_->state_->index.use(blocks_[i]->slots[group]);
      past_.pages[group][i] = blocks_[i]->slots[group].page;
    }
  }
}

void KvSequence::clear(uint64_t kind) {
  truncate(0);
  kind_ = kind;
}

Result<KvSequence> KvSequence::fork() const {
  return guarded([&]() -> Result<KvSequence> {
    KvSequence other(pool_, kind_);
    other.make_room_for(length());                // all memory that it takes: from here on nothing fails
    const size_t pages = kv_pages_for(length());  // not those that were reserved beyond it
    other.tokens_.assign(tokens_.begin(), tokens_.end());
    other.blocks_.assign(blocks_.begin(), blocks_.begin() + static_cast<ptrdiff_t>(pages));
    for (KvBlock* block : other.blocks_) {
      if (block != nullptr) pool_->state_->index.join(*block);
    }
    for (size_t group = 0; group < past_.pages.size(); ++group) {
      for (size_t i = 0; i < pages; ++i) {
        const KvPage& page = past_.pages[group][i];
        if (page != nullptr && blocks_[i] != nullptr) pool_->state_->index.use(blocks_[i]->slots[group]);
        other.past_.pages[group].push_back(page);
      }
    }
    return other;
  });
}

}  // namespace ballast
