// Finds the pages of texts that begin alike. A text is a chain of blocks of kPagePositions tokens; the digest of a
// block covers all tokens up to its end, so that equal digests mean equal beginnings.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <unordered_map>
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
  Digest digest{};
  uint64_t sequences = 0;     // that this block is part of
  std::vector<KvSlot> slots;  // one per group
};

// The digest before the first block of a text, and those of the blocks that follow.
Digest first_link(uint64_t kind);
Digest next_link(const Digest& before, std::span<const TokenId> block);

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
  // The block with this digest, which may be new and without pages. Lives while a sequence is part of it or it has a
  // page: join() it before anything else.
  KvBlock* find_or_add(const Digest& digest);

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
  uint64_t pages_kept(size_t group) const { return kept_[group]; }  // without users

 private:
  struct DigestHash {
    size_t operator()(const Digest& digest) const {
      size_t hash = 0;
      std::memcpy(&hash, digest.data(), sizeof(hash));
      return hash;
    }
  };

  void keep(KvSlot& slot);
  void unkeep(KvSlot& slot);
  void erase_if_empty(const KvBlock& block);
  bool add_to_runs(const KvBlock* block, std::span<uint64_t> runs) const;
  bool is_whole(uint64_t blocks, std::span<const uint64_t> runs) const;

  std::shared_ptr<const KvLayout> layout_;
  std::unordered_map<Digest, std::unique_ptr<KvBlock>, DigestHash> blocks_;
  std::vector<uint64_t> kept_;  // per group
  KvSlot* oldest_ = nullptr;
  KvSlot* newest_ = nullptr;
};

}  // namespace ballast
