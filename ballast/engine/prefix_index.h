// Finds the pages of texts that begin alike. A text is a chain of blocks of kPagePositions tokens. A block is known by
// its own tokens and by the digest of the block before it, which covers all tokens up to there.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "ballast/base/hash.h"
#include "ballast/base/token_id.h"
#include "ballast/ops/kv_pages.h"

namespace ballast {

struct KvBlock;

// The page that a block has of one group of layers.
struct KvSlot {
  KvBlock* block = nullptr;
  size_t group = 0;
  KvPage page;         // null: not kept
  uint64_t users = 0;  // sequences that have this page
  KvSlot* older = nullptr;
  KvSlot* newer = nullptr;  // among the slots whose page has no user
};

struct KvBlock {
  Digest before{};              // of the block before it, or first_link()
  std::vector<TokenId> tokens;  // fewer than kPagePositions: the end of a text that is gone
  Digest digest{};
  uint64_t sequences = 0;     // that this block is part of
  std::vector<KvSlot> slots;  // one per group
};

// Tokens that a block begins with.
struct KvRun {
  KvBlock* block = nullptr;  // null where there are none
  uint64_t length = 0;
};

// The digest before the first block of a text, and those of the blocks that follow.
Digest first_link(uint64_t kind);
Digest next_link(const Digest& before, std::span<const TokenId> block);
// How many tokens they have in common before they part.
uint64_t common_run(std::span<const TokenId> a, std::span<const TokenId> b);

// Pages that no sequence uses are kept in the order in which they were given up. A sequence gives up its last page
// first, so eviction takes the end of a text before its beginning, without which the end is of no use.
//
// Everything but find_prefix() and find_or_add() leaves memory allocation alone and cannot fail.
class PrefixIndex {
 public:
  explicit PrefixIndex(std::shared_ptr<const KvLayout> layout);

  // The blocks of the longest beginning of `ids`, in whole blocks, of which everything is here that positions behind it
  // look at. Null: a block that nobody looks at any more and that is not here.
  std::vector<KvBlock*> find_prefix(uint64_t kind, std::span<const TokenId> ids) const;
  // Of the blocks that follow `before` and have all their pages, one that begins with the most of `ids`.
  KvRun find_run(const Digest& before, std::span<const TokenId> ids) const;
  // The block of these tokens, which may be new and without pages. Lives while a sequence is part of it or it has a
  // page: join() it before anything else.
  KvBlock* find_or_add(const Digest& before, std::span<const TokenId> tokens);

  void join(KvBlock& block) { ++block.sequences; }
  void leave(KvBlock& block);
  // The slot has a page, and from now on one user more.
  void use(KvSlot& slot);
  void release(KvSlot& slot);
  // Takes over a page that one sequence uses.
  void fill(KvSlot& slot, const KvPage& page);
  // Hands a page that one sequence uses over to it.
  void hand_over(KvSlot& slot);

  // Gives up the page that was unused for longest; false where there is none.
  bool evict_oldest();
  // Gives up ends of texts that nobody uses and that this block begins with, where it has all its pages.
  void drop_covered_by(const KvBlock& block);
  uint64_t pages_kept(size_t group) const { return kept_[group]; }  // without users

 private:
  struct Key {
    const Digest& before;
    std::span<const TokenId> tokens;
  };
  // Blocks that follow the same one are neighbours, and so are those that begin alike: what has most in common with
  // some tokens is next to the place where they would be.
  struct InOrder {
    using is_transparent = void;
    static Key key(const Key& key) { return key; }
    static Key key(const KvBlock& block) { return {block.before, block.tokens}; }
    static Key key(const std::unique_ptr<KvBlock>& block) { return key(*block); }
    static bool is_before(const Key& a, const Key& b);
    bool operator()(const auto& a, const auto& b) const { return is_before(key(a), key(b)); }
  };
  using Blocks = std::set<std::unique_ptr<KvBlock>, InOrder>;

  KvBlock* find(const Digest& before, std::span<const TokenId> tokens) const;
  void keep(KvSlot& slot);
  void unkeep(KvSlot& slot);
  void give_up(KvSlot& slot);
  void erase_if_empty(const KvBlock& block);
  bool add_to_runs(const KvBlock* block, std::span<uint64_t> runs) const;
  bool is_whole(uint64_t blocks, std::span<const uint64_t> runs) const;

  std::shared_ptr<const KvLayout> layout_;
  Blocks blocks_;
  std::vector<uint64_t> kept_;  // per group
  KvSlot* oldest_ = nullptr;
  KvSlot* newest_ = nullptr;
};

}  // namespace ballast
