#include "ballast/text/constraint/token_masks.h"

#include <algorithm>

namespace ballast {

namespace {

// Of an entry of a table of kinds, roughly.
constexpr size_t kStayingBytes = 48;

void add_token(TokenBits& bits, TokenId id) { bits[id / 64] |= uint64_t{1} << (id % 64); }
void remove_token(TokenBits& bits, TokenId id) { bits[id / 64] &= ~(uint64_t{1} << (id % 64)); }

Error too_ambiguous() {
  return make_error(ErrorCode::kUnsupported,
                    "the grammar can match the text in so many ways at once that finding the next token takes too "
                    "long; make its alternatives begin differently");
}

}  // namespace

// One way through a tree: finds the tokens that an automaton can take from a state.
class TokenMasks::Walk {
 public:
  Walk(TokenMasks& masks, const TokenTree& tree, State state)
      : masks_(masks), automaton_(masks.automaton_), tree_(tree), levels_(tree.deepest() + 1) {
    levels_[0] = state;
  }

  // False: it took too long. Only steps that are new cost anything, so nothing is checked after others.
  bool run() {
    uint64_t work = automaton_.work();
    for (uint32_t node = 1; node < tree_.size();) {
      const TokenTree::Node& at = tree_[node];
      const uint32_t next = step(node, at);
      const size_t open = next < at.end ? at.depth + 1 : at.depth;  // levels of ways that are not done
      node = next;
      if (automaton_.work() == work) continue;
      if (masks_.is_late()) return false;
      make_room(open);
      work = automaton_.work();
    }
    return true;
  }

  State start() const { return levels_[0]; }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  // Gives the node to look at next: the first one below this one, or behind all that is.
  uint32_t step(uint32_t node, const TokenTree::Node& at) {
    const State before = levels_[at.depth - 1];
    const State state = automaton_.next(before, at.byte);
    if (state == MatchAutomaton::kDead) return at.end;
    const uint32_t next = state == before && stays(state, at.below) ? at.end : node + 1;
    levels_[at.depth] = state;
    take(node, next);
    return next;
  }

  bool stays(State state, ByteKinds below) {
    if (below == 0) return true;
    if (staying_state_ != state) {
      staying_ = masks_.staying_kinds(state);
      staying_state_ = state;
    }
    return (below & ~staying_) == 0;
  }

  void take(uint32_t node, uint32_t end) {
    const uint32_t first = tree_[node].first_token, behind = tree_[end].first_token;
    if (first == behind) return;
    if (!ranges_.empty() && ranges_.back().end == first) ranges_.back().end = behind;
    else ranges_.push_back({first, behind});
  }

  void make_room(size_t open) {
    if (!masks_.is_large()) return;
    masks_.make_room(std::span(levels_).first(open));
    staying_state_ = MatchAutomaton::kDead;
  }

  TokenMasks& masks_;
  MatchAutomaton& automaton_;
  const TokenTree& tree_;
  std::vector<State> levels_;  // by depth
  std::vector<Range> ranges_;
  State staying_state_ = MatchAutomaton::kDead;
  ByteKinds staying_ = 0;
};

ByteKinds TokenMasks::staying_kinds(State state) {
  if (const auto found = staying_.find(state); found != staying_.end()) return found->second;
  ByteKinds staying = ~ByteKinds{0};
  uint64_t work = automaton_.work();
  for (unsigned i = 0; i < 256; ++i) {
    const auto byte = static_cast<uint8_t>(i);
    if ((staying & kind_of_byte(byte)) == 0) continue;
    if (automaton_.next(state, byte) != state) staying &= ~kind_of_byte(byte);
    if (automaton_.work() == work) continue;
    if (is_late() || is_large()) return 0;
    work = automaton_.work();
  }
  staying_.emplace(state, staying);
  return staying;
}

bool TokenMasks::is_large() const { return automaton_.bytes() + staying_.size() * kStayingBytes > most_bytes_; }

size_t TokenMasks::held_bytes() const {
  return automaton_.grammar()->bytes() + automaton_.bytes() + staying_.size() * kStayingBytes + mask_bytes_;
}

// What names states goes first: there may be no memory to number them anew.
void TokenMasks::make_room(std::span<State> kept) {
  masks_.clear();
  mask_bytes_ = 0;
  staying_ = {};
  automaton_.forget_but(kept);
}

// Of many tokens, those that are not allowed are named.
TokenMasks::Mask TokenMasks::mask_of_ranges(const TokenTree& tree, const std::vector<Range>& ranges) const {
  Mask mask;
  const auto ids = tree.tokens();
  size_t count = 0;
  for (const Range& range : ranges) count += range.end - range.first;
  const size_t words = tree.all().size();
  if (count <= words) {
    mask.ids.reserve(count);
    for (const Range& range : ranges) mask.ids.insert(mask.ids.end(), &ids[range.first], &ids[0] + range.end);
  } else if (count <= ids.size() / 2) {
    mask.bits.resize(words);
    for (const Range& range : ranges) {
      for (uint32_t i = range.first; i < range.end; ++i) add_token(mask.bits, ids[i]);
    }
  } else {
    mask.bits = tree.all();
    uint32_t last = 0;
    for (const Range& range : ranges) {
      for (; last < range.first; ++last) remove_token(mask.bits, ids[last]);
      last = range.end;
    }
    for (; last < ids.size(); ++last) remove_token(mask.bits, ids[last]);
  }
  return mask;
}

Result<TokenMasks::Mask> TokenMasks::compute_mask(const TokenTree& tree, State& state) {
  Walk walk(*this, tree, state);
  if (!walk.run()) return too_ambiguous();
  state = walk.start();
  return mask_of_ranges(tree, walk.ranges());
}

Status TokenMasks::add_allowed(const TokenTree& tree, State state, TokenBits& allowed) {
  const auto key = [&] { return (uint64_t{trees_->number_of(tree)} << 32U) | state; };
  auto found = masks_.find(key());
  if (found == masks_.end()) {
    BALLAST_TRY(Mask made, compute_mask(tree, state));
    if (mask_bytes_ > most_bytes_) {
      masks_.clear();
      mask_bytes_ = 0;
    }
    mask_bytes_ += sizeof(Mask) + made.bits.size() * sizeof(uint64_t) + made.ids.size() * sizeof(TokenId);
    found = masks_.emplace(key(), std::move(made)).first;
  }
  for (const TokenId id : found->second.ids) add_token(allowed, id);
  const TokenBits& bits = found->second.bits;
  for (size_t i = 0; i < bits.size(); ++i) allowed[i] |= bits[i];
  return {};
}

Status TokenMasks::find_allowed(const Matcher& matcher, bool is_first, TokenBits& allowed) {
  allowed.assign((trees_->id_count() + 63) / 64, 0);
  const std::lock_guard lock(mutex_);
  if (is_large()) make_room({});  // memory ran out the last time
  most_work_ = automaton_.work() + kMostWork;
  const Status added = add_all_allowed(matcher, is_first, allowed);
  if (is_large()) make_room({});
  bytes_.store(held_bytes(), std::memory_order_relaxed);
  return added;
}

Status TokenMasks::add_all_allowed(const Matcher& matcher, bool is_first, TokenBits& allowed) {
  for (const TokenTree& tree : trees_->trees(is_first)) {
    BALLAST_CHECK(add_allowed(tree, automaton_.state_of(matcher, tree.deepest()), allowed));
  }
  if (!automaton_.overflowed() || matcher.is_complete()) return {};
  const bool is_any = std::ranges::any_of(allowed, [](uint64_t bits) { return bits != 0; });
  return is_any ? Status() : too_ambiguous();
}

}  // namespace ballast
