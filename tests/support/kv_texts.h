// Stands in for the passes of a model: writes keys and values that tell which text they belong to, and checks that a
// sequence still has its own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "ballast/engine/kv_pool.h"
#include "tests/support/ledger_device.h"

namespace ballast::testing {

// `layers` is as many as `windows`; a row has 8 bytes.
KvShape small_kv_shape(std::vector<uint64_t> windows, uint64_t most_positions = 4096);

// A pool on a device of its own. Stops the test program where it cannot be made.
struct KvLab {
  explicit KvLab(const KvShape& shape, const KvPoolOptions& options = {});
  KvSequence sequence(uint64_t kind = 0) const { return KvSequence(pool, kind); }

  std::shared_ptr<DeviceLedger> ledger = std::make_shared<DeviceLedger>();
  std::shared_ptr<KvPool> pool;
};

// Of one layer that sees everything, whose pages have kPlainPageBytes. No pages: no limit.
inline constexpr uint64_t kPlainPageBytes = 2048;
KvLab plain_lab(uint64_t most_pages = 0, bool share = true);

// `count` tokens, beginning with first, first + 1, ...
std::vector<TokenId> counting_ids(uint64_t count, TokenId first = 0);

// What a pass over `ids` writes, behind the sequence's last position. There is room for it.
void write_rows(const KvSequence& sequence, std::span<const TokenId> ids);
// Room, a pass, and its tokens.
Status extend(KvSequence& sequence, std::span<const TokenId> ids);
// A new text with these tokens; as much of it as possible is adopted.
KvSequence text_of(const KvLab& lab, std::span<const TokenId> ids, uint64_t kind = 0);

// Whether every position that the next one looks at has what was written for the tokens of this sequence.
::testing::AssertionResult holds_its_text(const KvSequence& sequence);

}  // namespace ballast::testing
