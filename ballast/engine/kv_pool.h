// Memory for the past of many sequences: pages that are shared where texts begin alike.
//
// Whoever computes appends: reserve() gets the pages, the pass writes them, append() makes their tokens part of the
// sequence. Between the two an error leaves the sequence as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ballast/base/byte_source.h"
#include "ballast/base/hash.h"
#include "ballast/base/result.h"
#include "ballast/base/token_id.h"
#include "ballast/engine/kv_pool_counters.h"
#include "ballast/ops/kv_pages.h"

namespace ballast {

struct KvBlock;  // prefix_index.h

inline constexpr uint64_t kKeptPositions = 4096;

struct KvPoolOptions {
  uint64_t most_bytes = 0;  // of all pages; 0: as many as the device has, but for a reserve
  // Keep pages that no sequence needs any more, for texts that begin alike, until others need their memory.
  bool share_prefixes = true;
  // Of those that are kept so. 0: within most_bytes; where that is no limit, as much as sequences have used at once, or
  // as a text of kKeptPositions takes if that is more.
  uint64_t most_kept_bytes = 0;
  // Positions before its windows that a sequence keeps, while there is room: so far it can be taken back without being
  // computed anew.
  uint64_t kept_before = 0;
};

// One thread at a time, with all its sequences. They keep it alive.
class KvPool {
 public:
  static Result<std::shared_ptr<KvPool>> make(const KvShape& shape, std::shared_ptr<Queue> queue,
                                              const KvPoolOptions& options = {});
  const KvLayout& layout() const;
  KvPoolCounters counters() const;
  // Whether a sequence of so many positions could be held if there were no other. It grows position by position: a pass
  // over more rows needs pages for all of them, which matters to layers with a window.
  bool could_hold(uint64_t positions) const;
  // Bytes that all pages together can have; 0: not known.
  uint64_t limit() const;
  // Bytes that are free, or are kept for nobody; the largest number there is where nothing limits them.
  uint64_t free_bytes() const;
  // Gives up what is kept for nobody, and returns the memory to the device.
  void forget_kept();

 private:
  friend class KvSequence;
  struct State;
  explicit KvPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;

 public:
  ~KvPool();
};

class KvSequence {
 public:
  // Empty. `kind`: what CausalLm::past_kind says of its text; pages of different kinds are not shared.
  explicit KvSequence(std::shared_ptr<KvPool> pool, uint64_t kind = 0);
  KvSequence(KvSequence&& other) noexcept;
  KvSequence& operator=(KvSequence&& other) noexcept;
  ~KvSequence();

  uint64_t length() const { return tokens_.size(); }
  std::span<const TokenId> tokens() const { return tokens_; }
  uint64_t kind() const { return kind_; }
  const KvPast& past() const { return past_; }
  KvPool& pool() const { return *pool_; }
  uint64_t bytes() const;  // of its pages, those that it shares too

  // Takes up what the pool has of the beginning of `ids`, to the token; never all of `ids`, because the last token must
  // be computed for its logits. Whole pages are shared. Of the page in which the texts part, the sequence gets a copy,
  // in pages that reserve() would take otherwise; where there are none, or the device fails, it has the whole pages
  // only. Does nothing unless the sequence is empty or consists of whole pages of `ids`. Tells how many positions it
  // has now.
  uint64_t adopt(std::span<const TokenId> ids);
  // Its two steps. adopt_pages() shares whole pages, takes no memory and does nothing unless the sequence is empty;
  // adopt_end() copies the page in which the texts part, behind the whole pages that the sequence has already.
  uint64_t adopt_pages(std::span<const TokenId> ids);
  uint64_t adopt_end(std::span<const TokenId> ids);
  // Pages for positions [length(), length() + rows), its own; those that nobody behind length() looks at go.
  // kInvalidArgument beyond the context; kOutOfMemory where the pool has no room, with the numbers. Either way nothing
  // is lost.
  Status reserve(uint64_t rows);
  // After a pass over these ids: they are part of the sequence now. reserve() made room for them.
  void append(std::span<const TokenId> ids);
  // Forgets everything from position `length` on; everything at all where pages that are needed then are gone already.
  // length() tells.
  void truncate(uint64_t length);
  // Forgets everything, and begins with another kind.
  void clear(uint64_t kind);
  // Another with the same past, which costs a page only when one of the two goes on. kOutOfMemory leaves everything as
  // it was.
  Result<KvSequence> fork() const;

  // To a file, whole or not at all, which may replace another. Bound to `model`, a digest of everything that keys and
  // values depend on.
  Status save(const std::string& path, const Digest& model) const;
  // kCorrupt for damage, kInvalidArgument for the past of another model or of another shape; both say which.
  static Result<KvSequence> restore(const std::string& path, const Digest& model, std::shared_ptr<KvPool> pool);

 private:
  struct NewPage {
    size_t group = 0;
    size_t index = 0;
    KvPage page;
  };
  struct Source;  // of a copy

  void join_pool();
  void leave_pool() noexcept;
  void take_place_of(KvSequence& other) noexcept;
  // These ids without the last, and no more than fit into the context. There must be at least one id.
  std::span<const TokenId> adoptable(std::span<const TokenId> ids) const;
  bool can_adopt_part_of(std::span<const TokenId> ids) const;
  Status adopt_part(std::span<const TokenId> ids);
  Source find_source(std::span<const TokenId> rest) const;
  bool is_followed_by_page_of(const KvSequence& other) const;
  Result<std::vector<KvPage>> copy_of(const Source& source) const;

  size_t page_count() const { return blocks_.size(); }
  bool is_partly_filled(size_t index) const;
  bool is_shared(size_t group, size_t index) const;
  Status check_context(uint64_t rows) const;
  void make_room_for(uint64_t positions);
  void drop_unseen(uint64_t kept_before);
  Status reserve_within(uint64_t positions);
  Status reserve_pages(uint64_t positions);
  Result<std::vector<NewPage>> take_pages(size_t end) const;
  void leave_partial_block(size_t index);
  void put_pages(std::vector<NewPage> pages, size_t end);
  void share_blocks(size_t first);
  void share_block(size_t index);
  void share_end() noexcept;
  Digest link_before(size_t index) const;
  void drop_page(size_t group, size_t index) noexcept;
  void drop_from(size_t first) noexcept;
  bool can_end_at(uint64_t length) const;
  void take_back(uint64_t length);
  Status load_pages(const ByteSource& file, uint64_t offset, std::vector<TokenId> tokens);

  std::shared_ptr<KvPool> pool_;
  uint64_t kind_ = 0;
  std::vector<TokenId> tokens_;
  KvPast past_;
  // Those that the pages belong to, one for each; null where the sequence has the pages for itself, or with forks.
  std::vector<KvBlock*> blocks_;
  KvSequence* previous_ = nullptr;
  KvSequence* next_ = nullptr;  // among those of the pool
};

}  // namespace ballast
