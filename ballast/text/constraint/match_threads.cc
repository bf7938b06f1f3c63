#include "ballast/text/constraint/match_threads.h"

#include <algorithm>

namespace ballast {

namespace {

constexpr size_t kSmallSet = 8;  // up to here looking through all of them is faster than a table

}  // namespace

// ---------------------------------------------------------------- stacks

uint32_t StackTree::push(uint32_t branch, bool is_repeat, uint32_t what, uint32_t count) {
  for (uint32_t child = frames_[branch].first_child; child != 0; child = frames_[child].next_sibling) {
    const Frame& known = frames_[child];
    if (known.what == what && known.count == count && known.is_repeat == is_repeat) return child;
  }
  const auto added = static_cast<uint32_t>(frames_.size());
  frames_.push_back({.parent = branch,
                     .what = what,
                     .count = count,
                     .is_repeat = is_repeat,
                     .depth = frames_[branch].depth + 1,
                     .next_sibling = frames_[branch].first_child});
  frames_[branch].first_child = added;
  return added;
}

void StackTree::truncate(size_t size) {
  while (frames_.size() > size) {
    const Frame& last = frames_.back();
    frames_[last.parent].first_child = last.next_sibling;  // children are added in front
    frames_.pop_back();
  }
}

// ---------------------------------------------------------------- sets without doubles

void MatchStepper::start_set() {
  if (seen_.size() > kSmallSet) std::ranges::fill(table_, 0);
  seen_.clear();
  open_.clear();
}

bool MatchStepper::may_be_at(const Grammar& grammar, StateId state, uint32_t depth) {
  const uint32_t needed = grammar.needed_depth(state);
  if (needed > Grammar::kMostDepth || depth + needed > Grammar::kMostDepth) return false;
  deepest_ = std::max(deepest_, depth + needed);
  return true;
}

bool MatchStepper::is_new(const Item& item) {
  const auto same = [&](const Item& known) {
    return known.state == item.state && known.branch == item.branch && known.fresh == item.fresh;
  };
  const auto place_of = [&](const Item& of) {
    const uint64_t mixed =
        (of.state * 0x9E3779B97F4A7C15U) ^ (of.branch * 0xC2B2AE3D27D4EB4FU) ^ (of.fresh * 0x165667B19E3779F9U);
    return (mixed ^ (mixed >> 29U)) & (table_.size() - 1);
  };
  const auto put = [&](size_t index) {
    size_t place = place_of(seen_[index]);
    while (table_[place] != 0) place = (place + 1) & (table_.size() - 1);
    table_[place] = static_cast<uint32_t>(index + 1);
  };
  if (seen_.size() < kSmallSet) {
    if (std::ranges::any_of(seen_, same)) return false;
    seen_.push_back(item);
    return true;
  }
  if (seen_.size() == kSmallSet) {
    if (table_.empty()) table_.resize(4 * MatchStepper::kMostThreads);
    for (size_t i = 0; i < seen_.size(); ++i) put(i);
  }
  for (size_t place = place_of(item); table_[place] != 0; place = (place + 1) & (table_.size() - 1)) {
    if (same(seen_[table_[place] - 1])) {
      // The table is filled again with the next one, so it must not be full of these already.
      if (seen_.size() == kSmallSet) std::ranges::fill(table_, 0);
      return false;
    }
  }
  seen_.push_back(item);
  put(seen_.size() - 1);
  return true;
}

// ---------------------------------------------------------------- what needs no byte

class MatchStepper::Closure {
 public:
  Closure(MatchStepper& stepper, const Grammar& grammar, StackTree& stacks, std::vector<MatchThread>& out)
      : stepper_(stepper), grammar_(grammar), stacks_(stacks), out_(out), first_(out.size()) {
    stepper_.start_set();
  }

  void add(const Item& item) {
    ++stepper_.work_;
    if (!stepper_.may_be_at(grammar_, item.state, stacks_[item.branch].depth)) return;
    if (step_.overflowed || !stepper_.is_new(item)) return;
    if (stepper_.seen_.size() > kMostThreads) {
      step_.overflowed = true;
      return;
    }
    out_.push_back({item.state, item.branch, item.is_called});
    if (!grammar_.is_plain(item.state)) stepper_.open_.push_back(item);
  }

  void end_rule(uint32_t branch, uint32_t fresh) {
    if (branch == 0) {
      step_.ended = true;
      return;
    }
    const StackTree::Frame frame = stacks_[branch];
    if (!frame.is_repeat) {
      add({frame.what, frame.parent, fresh == 0 ? 0 : fresh - 1, fresh != 0});
      return;
    }
    if (fresh != 0) return;  // the body matched nothing: that is as good as not matching it
    const GrammarRepeat& repeat = grammar_.repeat(frame.what);
    // Without an upper limit, it does not matter by how much the lower one is exceeded.
    const uint32_t count = repeat.most == kUnlimited ? std::min(frame.count + 1, repeat.least) : frame.count + 1;
    if (count >= repeat.least) add({repeat.next, frame.parent, 0, false});
    if (repeat.most != kUnlimited && count >= repeat.most) return;
    add({repeat.body, stacks_.push(frame.parent, true, frame.what, count), 1, false});
  }

  Step finish() {
    while (!stepper_.open_.empty() && !step_.overflowed) {
      const Item item = stepper_.open_.back();
      stepper_.open_.pop_back();
      for (const GrammarAction& action : grammar_.actions(item.state)) follow(item, action);
    }
    if (step_.overflowed) out_.resize(first_);
    return step_;
  }

 private:
  void follow(const Item& item, const GrammarAction& action) {
    switch (action.kind) {
      case GrammarAction::Kind::kByte: return;
      case GrammarAction::Kind::kCall:
        if (!can_go_on(action.next, item.branch)) return;
        return add({action.what, stacks_.push(item.branch, false, action.next, 0), item.fresh + 1, true});
      case GrammarAction::Kind::kTailCall: return add({action.what, item.branch, item.fresh, true});
      case GrammarAction::Kind::kRepeat: {
        const GrammarRepeat& repeat = grammar_.repeat(action.what);
        if (!can_go_on(action.next, item.branch)) return;
        if (repeat.least == 0) add({action.next, item.branch, item.fresh, true});
        return add({repeat.body, stacks_.push(item.branch, true, action.what, 0), item.fresh + 1, true});
      }
      case GrammarAction::Kind::kEnd: return end_rule(item.branch, item.fresh);
    }
  }

  // A call is of no use where its caller could not finish.
  bool can_go_on(StateId state, uint32_t branch) const {
    return stepper_.may_be_at(grammar_, state, stacks_[branch].depth);
  }

  MatchStepper& stepper_;
  const Grammar& grammar_;
  StackTree& stacks_;
  std::vector<MatchThread>& out_;
  size_t first_;
  Step step_;
};

// ---------------------------------------------------------------- steps

MatchStepper::Step MatchStepper::expand(const Grammar& grammar, StackTree& stacks, MatchThread thread,
                                        std::vector<MatchThread>& out) {
  Closure closure(*this, grammar, stacks, out);
  closure.add({thread.state, thread.branch, 0, false});
  return closure.finish();
}

MatchStepper::Step MatchStepper::begin(const Grammar& grammar, StackTree& stacks, std::vector<MatchThread>& out) {
  return expand(grammar, stacks, {grammar.start(), 0}, out);
}

MatchStepper::Step MatchStepper::pop(const Grammar& grammar, StackTree& stacks, uint32_t branch,
                                     std::vector<MatchThread>& out) {
  Closure closure(*this, grammar, stacks, out);
  closure.end_rule(branch, 0);
  return closure.finish();
}

MatchStepper::Step MatchStepper::advance(const Grammar& grammar, StackTree& stacks, std::span<const MatchThread> from,
                                         uint8_t byte, std::vector<MatchThread>& out) {
  Closure closure(*this, grammar, stacks, out);
  for (const MatchThread& thread : from) {
    for (const GrammarAction& action : grammar.actions(thread.state)) {
      if (action.kind == GrammarAction::Kind::kByte && grammar.set(action.what)[byte]) {
        closure.add({action.next, thread.branch, 0, false});
      }
    }
  }
  return closure.finish();
}

}  // namespace ballast
