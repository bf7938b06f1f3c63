#include "ballast/text/constraint/token_masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace ballast {

namespace {

constexpr size_t kMostMasks = 1024;
// Steps of threads for one token: about a second.
constexpr uint64_t kMostMaskWork = 20'000'000;

void add_token(TokenBits& bits, TokenId id) { bits[id / 64] |= uint64_t{1} << (id % 64); }

Error too_ambiguous() {
  return make_error(ErrorCode::kUnsupported,
                    "the grammar can match the text in so many ways at once that finding the next token takes too "
                    "long; make its alternatives begin differently");
}

}  // namespace

// Follows the tree of tokens with the threads of a matcher.
class TokenMasks::Walk {
 public:
  Walk(const Grammar& grammar, const TokenTree& tree) : grammar_(grammar), tree_(tree) {}

  StackTree stacks;
  MatchStepper stepper;

  bool is_too_long() const { return stepper.work() > kMostMaskWork; }

  // Calls visit(node, ended) for every node below `top` that the threads reach. False: it took too long.
  template <typename Visit>
  bool follow(uint32_t top, const std::vector<MatchThread>& threads, const Visit& visit) {
    const uint32_t base = tree_[top].depth;
    if (levels_.size() <= tree_.deepest()) levels_.resize(tree_.deepest() + 1);
    levels_[0].threads = threads;
    levels_[0].stacks = stacks.size();
    for (uint32_t node = top + 1; node < tree_[top].end;) {
      const TokenTree::Node& at = tree_[node];
      const Level& before = levels_[at.depth - base - 1];
      Level& level = levels_[at.depth - base];
      stacks.truncate(before.stacks);
      level.threads.clear();
      const auto step = stepper.advance(grammar_, stacks, before.threads, at.byte, level.threads);
      level.stacks = stacks.size();
      if (step.ended || !level.threads.empty()) visit(node, step.ended);
      node = level.threads.empty() ? at.end : node + 1;
      if (is_too_long()) return false;
    }
    stacks.truncate(levels_[0].stacks);
    return true;
  }

 private:
  struct Level {
    std::vector<MatchThread> threads;
    size_t stacks = 0;
  };
  const Grammar& grammar_;
  const TokenTree& tree_;
  std::vector<Level> levels_;
};

// A token has at least a byte for each time that it matches the body, so far from its limits a count makes no
// difference.
TokenMasks::Key TokenMasks::key_of(const MatchThread& thread, const StackTree& stacks, bool is_first) const {
  const StackTree::Frame& top = stacks[thread.branch];
  if (thread.branch == 0 || !top.is_repeat) return {is_first, thread.state, kUnlimited, 0};
  const GrammarRepeat& repeat = grammar_->repeat(top.what);
  const uint32_t longest = trees_->tree(is_first).deepest() + 1;
  uint32_t count = top.count;
  if (repeat.most != kUnlimited && repeat.most - count > longest) {
    if (count >= repeat.least) count = std::max(repeat.least, repeat.most - longest - 1);
    else if (repeat.least - count > longest) count = 0;
  } else if (repeat.most == kUnlimited && count < repeat.least && repeat.least - count > longest) {
    count = 0;
  }
  return {is_first, thread.state, top.what, count};
}

std::shared_ptr<const TokenMasks::RuleMask> TokenMasks::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = masks_.find(key);
  return found == masks_.end() ? nullptr : found->second;
}

Result<std::shared_ptr<const TokenMasks::RuleMask>> TokenMasks::mask_of(const Key& key, Walk& walk) {
  if (auto known = find(key)) return known;
  const TokenTree& tree = trees_->tree(key.is_first);
  StackTree real = std::exchange(walk.stacks, StackTree());
  const uint32_t branch = key.repeat == kUnlimited ? 0 : walk.stacks.push(0, true, key.repeat, key.count);
  std::vector<MatchThread> threads;
  auto mask = std::make_shared<RuleMask>();
  TokenBits bits((trees_->id_count() + 63) / 64);
  walk.stepper.reset_deepest();
  walk.stepper.expand(*grammar_, walk.stacks, {key.state, branch}, threads);
  const bool done = walk.follow(0, threads, [&](uint32_t node, bool ended) {
    for (const TokenId id : tree.tokens_at(node)) add_token(bits, id);
    if (ended && node + 1 < tree[node].end) mask->exits.push_back(node);
  });
  walk.stacks = std::move(real);
  if (!done) return too_ambiguous();
  mask->deepest = walk.stepper.deepest();
  size_t count = 0;
  for (const uint64_t word : bits) count += static_cast<size_t>(std::popcount(word));
  if (count > bits.size()) {
    mask->bits = std::move(bits);
  } else {
    for (size_t id = 0; id < 64 * bits.size(); ++id) {
      if ((bits[id / 64] >> (id % 64) & 1U) != 0) mask->ids.push_back(static_cast<TokenId>(id));
    }
  }
  const std::lock_guard lock(mutex_);
  if (masks_.size() >= kMostMasks) masks_.clear();
  masks_[key] = mask;
  return std::shared_ptr<const RuleMask>(std::move(mask));
}

Status TokenMasks::add_thread(const MatchThread& thread, bool is_first, Walk& walk, TokenBits& allowed) {
  const TokenTree& tree = trees_->tree(is_first);
  const auto add = [&](uint32_t node, bool) {
    for (const TokenId id : tree.tokens_at(node)) add_token(allowed, id);
  };
  const Key key = key_of(thread, walk.stacks, is_first);
  BALLAST_TRY(const std::shared_ptr<const RuleMask> mask, mask_of(key, walk));
  const uint32_t below = key.repeat == kUnlimited ? thread.branch : walk.stacks[thread.branch].parent;
  std::vector<MatchThread> threads;
  if (walk.stacks[below].depth + mask->deepest > Grammar::kMostDepth) {
    walk.stepper.expand(*grammar_, walk.stacks, thread, threads);
    return walk.follow(0, threads, add) ? Status() : Status(too_ambiguous());
  }
  for (const TokenId id : mask->ids) add_token(allowed, id);
  for (size_t i = 0; i < mask->bits.size(); ++i) allowed[i] |= mask->bits[i];
  if (below == 0 || mask->exits.empty()) return {};
  const size_t stacks = walk.stacks.size();
  walk.stepper.pop(*grammar_, walk.stacks, below, threads);
  for (const uint32_t exit : mask->exits) {
    if (!walk.follow(exit, threads, add)) return too_ambiguous();
  }
  walk.stacks.truncate(stacks);
  return {};
}

Status TokenMasks::find_allowed(const Matcher& matcher, bool is_first, TokenBits& allowed) {
  allowed.assign((trees_->id_count() + 63) / 64, 0);
  Walk walk(*grammar_, trees_->tree(is_first));
  walk.stacks = matcher.stacks();
  for (const MatchThread& thread : matcher.threads()) {
    if (!thread.is_called) BALLAST_CHECK(add_thread(thread, is_first, walk, allowed));
  }
  return {};
}

}  // namespace ballast
