#include "tests/support/kv_texts.h"

#include <cstdlib>
#include <cstring>
#include <numeric>

#include "ballast/base/counter_random.h"

namespace ballast::testing {

namespace {

// Calls `visit` with the place of every row of a position, and the number that belongs there. `text`: a number of all
// tokens up to that position.
template <typename Visit>
void for_kv_rows(const KvSequence& sequence, uint64_t position, uint64_t text, const Visit& visit) {
  const KvLayout& layout = *sequence.past().layout;
  uint64_t row = 0;
  for (uint64_t layer = 0; layer < layout.shape().layers; ++layer) {
    const KvPage& page = sequence.past().pages[layout.group_of(layer)][position / kPagePositions];
    for (const uint64_t plane : {layout.keys_offset(layer), layout.values_offset(layer)}) {
      for (uint64_t head = 0; head < layout.shape().kv_heads; ++head) {
        const uint64_t index = head * kPagePositions + position % kPagePositions;
        visit(layer, page, plane + index * layout.row_bytes(), counter_random(text, ++row));
      }
    }
  }
}

uint64_t text_with(uint64_t text, TokenId id) { return counter_random(text, id); }

uint64_t text_number(const KvSequence& sequence) {
  uint64_t text = sequence.kind();
  for (const TokenId id : sequence.tokens()) text = text_with(text, id);
  return text;
}

}  // namespace

KvShape small_kv_shape(std::vector<uint64_t> windows, uint64_t most_positions) {
  return {.layers = windows.size(),
          .kv_heads = 2,
          .head_dim = 2,
          .most_positions = most_positions,
          .dtype = DType::kF32,
          .windows = std::move(windows)};
}

KvLab::KvLab(const KvShape& shape, const KvPoolOptions& options) {
  auto made = KvPool::make(shape, make_ledger_queue(ledger), options);
  if (!made) std::abort();
  pool = *std::move(made);
}

KvLab plain_lab(uint64_t most_pages, bool share) {
  return KvLab(small_kv_shape({0}), {.most_bytes = most_pages * kPlainPageBytes, .share_prefixes = share});
}

std::vector<TokenId> counting_ids(uint64_t count, TokenId first) {
  std::vector<TokenId> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

void write_rows(const KvSequence& sequence, std::span<const TokenId> ids) {
  uint64_t text = text_number(sequence);
  for (size_t i = 0; i < ids.size(); ++i) {
    text = text_with(text, ids[i]);
    for_kv_rows(sequence, sequence.length() + i, text,
                [](uint64_t, const KvPage& page, uint64_t offset, uint64_t number) {
                  std::memcpy(page->host_address() + offset, &number, sizeof(number));
                });
  }
}

Status extend(KvSequence& sequence, std::span<const TokenId> ids) {
  BALLAST_CHECK(sequence.reserve(ids.size()));
  write_rows(sequence, ids);
  sequence.append(ids);
  return {};
}

KvSequence text_of(const KvLab& lab, std::span<const TokenId> ids, uint64_t kind) {
  KvSequence sequence = lab.sequence(kind);
  const uint64_t found = sequence.adopt(ids);
  const auto extended = extend(sequence, ids.subspan(found));
  EXPECT_TRUE(extended) << extended.error().message;
  return sequence;
}

::testing::AssertionResult holds_its_text(const KvSequence& sequence) {
  const KvLayout& layout = *sequence.past().layout;
  ::testing::AssertionResult result = ::testing::AssertionSuccess();
  uint64_t text = sequence.kind();
  for (uint64_t position = 0; result && position < sequence.length(); ++position) {
    text = text_with(text, sequence.tokens()[position]);
    for_kv_rows(sequence, position, text, [&](uint64_t layer, const KvPage& page, uint64_t offset, uint64_t number) {
      const uint64_t index = position / kPagePositions;
      if (!result || index < layout.groups()[layout.group_of(layer)].first_page(sequence.length())) return;
      uint64_t there = 0;
      if (page != nullptr) std::memcpy(&there, page->host_address() + offset, sizeof(there));
      if (there == number) return;
      result = ::testing::AssertionFailure() << "position " << position << " of " << sequence.length() << ", layer "
                                             << layer << (page == nullptr ? ": no page" : ": other bytes");
    });
  }
  return result;
}

}  // namespace ballast::testing
