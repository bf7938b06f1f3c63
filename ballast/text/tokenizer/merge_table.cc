#include "ballast/text/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace ballast {

MergeTable::MergeTable(size_t pairs) : pairs_(std::bit_ceil(std::max<size_t>(pairs * 2, 16))) {}

void MergeTable::add(const Pair& pair) {
  const size_t mask = pairs_.size() - 1;
  size_t at = slot_of(pair.left, pair.right) & mask;
  while (pairs_[at].rank != kNoRank && (pairs_[at].left != pair.left || pairs_[at].right != pair.right)) {
    at = (at + 1) & mask;
  }
  pairs_[at] = pair;
}

namespace {

// A list of what is left and a heap of the pairs in it. A pair in the heap that is no longer what stands at its place
// is stale and dropped when it comes up.
class SymbolMerger {
 public:
  using Symbol = MergeTable::Symbol;

  SymbolMerger(const MergeTable& table, const std::vector<Symbol>& symbols) : table_(table) {
    nodes_.reserve(symbols.size());
    for (uint32_t at = 0; at < symbols.size(); ++at) nodes_.push_back({symbols[at], at - 1, at + 1});
    heap_.reserve(nodes_.size());
    for (uint32_t i = 0; i + 1 < nodes_.size(); ++i) {
      if (look_up(i)) heap_.push_back(candidate(i));
    }
    std::ranges::make_heap(heap_, std::greater<>());
  }

  void run(std::vector<Symbol>& out) {
    while (!heap_.empty()) {
      std::ranges::pop_heap(heap_, std::greater<>());
      const uint64_t best = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<uint32_t>(best);
      if (nodes_[at].rank == best >> 32) merge(at);
    }
    out.clear();
    for (size_t at = 0; at < nodes_.size(); at = nodes_[at].next) out.push_back(nodes_[at].symbol);
  }

 private:
  struct Node {
    Symbol symbol;
    uint32_t previous;                    // wraps around before the first
    uint32_t next;                        // the size behind the last
    uint32_t rank = MergeTable::kNoRank;  // of the pair with the next; none for a node that was merged away
    Symbol merged = MergeTable::kNoSymbol;
  };

  // Ordered by rank, then from left to right.
  uint64_t candidate(uint32_t at) const { return uint64_t{nodes_[at].rank} << 32 | at; }

  bool look_up(uint32_t at) {
    Node& node = nodes_[at];
    const MergeTable::Pair* pair =
        node.next < nodes_.size() ? table_.find(node.symbol, nodes_[node.next].symbol) : nullptr;
    node.rank = pair != nullptr ? pair->rank : MergeTable::kNoRank;
    node.merged = pair != nullptr ? pair->merged : MergeTable::kNoSymbol;
    return pair != nullptr;
  }

  void offer(uint32_t at) {
    if (!look_up(at)) return;
    heap_.push_back(candidate(at));
    std::ranges::push_heap(heap_, std::greater<>());
  }

  void merge(uint32_t at) {
    Node& left = nodes_[at];
    Node& right = nodes_[left.next];
    left.symbol = left.merged;
    left.next = right.next;
    right.rank = MergeTable::kNoRank;
    if (left.next < nodes_.size()) nodes_[left.next].previous = at;
    offer(at);
    if (left.previous < nodes_.size()) offer(left.previous);
  }

  const MergeTable& table_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> heap_;
};

}  // namespace

void MergeTable::merge(std::vector<Symbol>& symbols) const {
  if (symbols.size() > 1) SymbolMerger(*this, symbols).run(symbols);
}

}  // namespace ballast
