#include "ballast/text/constraint/match_threads.h"

#include <algorithm>

namespace ballast {

namespace {

constexpr uint64_t kActionsPerWork = 8;  // looking at an action is that much quicker than making a thread
constexpr size_t kSmallSet = 8;          // up to here looking through all of them is faster than a table

size_t place_of(const StackTree::Frame& frame, size_t places) {
  const uint64_t mixed = (((uint64_t{frame.parent} << 32U) | frame.what) * 0x9E3779B97F4A7C15U) ^
                         (((uint64_t{frame.count} << 1U) | (frame.is_repeat ? 1U : 0U)) * 0xC2B2AE3D27D4EB4FU);
  return (mixed ^ (mixed >> 29U)) & (places - 1);
}

}  // namespace

// ---------------------------------------------------------------- stacks

uint32_t StackTree::push(uint32_t branch, bool is_repeat, uint32_t what, uint32_t count) {
  if (2 * frames_.size() >= table_.size()) grow_table();
  const Frame made = {branch, what, count, is_repeat, frames_[branch].depth + 1};
  size_t place = place_of(made, table_.size());
  for (; table_[place] != 0; place = (place + 1) & (table_.size() - 1)) {
    const Frame& known = frames_[table_[place]];
    if (known.parent == branch && known.what == what && known.count == count && known.is_repeat == is_repeat)
      return table_[place];
  }
  frames_.push_back(made);  // first: where there is no memory for it, the table must not name it
  return table_[place] = static_cast<uint32_t>(frames_.size() - 1);
}

void StackTree::grow_table() {
  constexpr size_t kFewPlaces = 16;
  table_.assign(std::max(kFewPlaces, 2 * table_.size()), 0);
  for (uint32_t branch = 1; branch < frames_.size(); ++branch) {
    size_t place = place_of(frames_[branch], table_.size());
    while (table_[place] != 0) place = (place + 1) & (table_.size() - 1);
    table_[place] = branch;
  }
}

// ---------------------------------------------------------------- sets without doubles

void MatchStepper::start_set() {
  if (seen_.size() > kSmallSet) std::ranges::fill(table_, 0);
  seen_.clear();
  open_.clear();
}

bool MatchStepper::is_new(const Item& item) {
  const auto same = [&](const Item& known) {
    return known.state == item.state && known.branch == item.branch && known.fresh == item.fresh;
  };
  const auto item_place = [&](const Item& of) {
    const uint64_t mixed =
        (of.state * 0x9E3779B97F4A7C15U) ^ (of.branch * 0xC2B2AE3D27D4EB4FU) ^ (of.fresh * 0x165667B19E3779F9U);
    return (mixed ^ (mixed >> 29U)) & (table_.size() - 1);
  };
  const auto put = [&](size_t index) {
    size_t place = item_place(seen_[index]);
    while (table_[place] != 0) place = (place + 1) & (table_.size() - 1);
    table_[place] = static_cast<uint32_t>(index + 1);
  };
  if (seen_.size() < kSmallSet) {
    if (std::ranges::any_of(seen_, same)) return false;
    seen_.push_back(item);
    return true;
  }
  if (seen_.size() == kSmallSet) {
    if (table_.empty()) table_.resize(4 * most_threads_);
    for (size_t i = 0; i < seen_.size(); ++i) put(i);
  }
  for (size_t place = item_place(item); table_[place] != 0; place = (place + 1) & (table_.size() - 1)) {
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
      : stepper_(stepper),
        grammar_(grammar),
        stacks_(stacks),
        out_(out),
        first_(out.size()),
        most_work_(stepper.work_ + kMostStepWork) {
    stepper_.start_set();
  }

  bool overflowed() const { return step_.overflowed; }

  // The actions of a state, of which there may be tens of thousands. None where the step has overflowed.
  std::span<const GrammarAction> look_at(StateId state) {
    const auto actions = grammar_.actions(state);
    stepper_.work_ += 1 + actions.size() / kActionsPerWork;
    if (stepper_.work_ > most_work_) step_.overflowed = true;
    return step_.overflowed ? actions.first(0) : actions;
  }

  void add(const Item& item) {
    ++stepper_.work_;
    if (!may_be_at(item.state, item.branch)) return;
    if (step_.overflowed || !stepper_.is_new(item)) return;
    if (stepper_.seen_.size() > stepper_.most_threads_) {
      step_.overflowed = true;
      return;
    }
    out_.push_back({item.state, item.branch});
    if (!grammar_.is_plain(item.state)) stepper_.open_.push_back(item);
  }

  void end_rule(uint32_t branch, uint32_t fresh) {
    if (branch == 0) {
      step_.ended = true;
      return;
    }
    const StackTree::Frame frame = stacks_[branch];
    if (!frame.is_repeat) {
      add({frame.what, frame.parent, fresh == 0 ? 0 : fresh - 1});
      return;
    }
    if (fresh != 0) return;  // the body matched nothing: that is as good as not matching it
    end_body(frame, grammar_.repeat(frame.what));
  }

  Step finish() {
    while (!stepper_.open_.empty() && !step_.overflowed) {
      const Item item = stepper_.open_.back();
      stepper_.open_.pop_back();
      for (const GrammarAction& action : look_at(item.state)) {
        if (step_.overflowed) break;
        follow(item, action);
      }
    }
    if (step_.overflowed) {
      out_.resize(first_);
      step_.ended = false;  // the text goes no further, so nobody may take it as complete
    }
    return step_;
  }

 private:
  // The body of a counted repetition was matched once more.
  void end_body(const StackTree::Frame& frame, const GrammarRepeat& repeat) {
    uint32_t count = frame.count;
    if (count == kFarInside) {
      add({repeat.next, frame.parent, 0});
    } else if (count != kFarBelow) {
      // Without an upper limit, it does not matter by how much the lower one is exceeded.
      count = repeat.most == kUnlimited ? std::min(count + 1, repeat.least) : count + 1;
      if (count >= repeat.least) add({repeat.next, frame.parent, 0});
      if (repeat.most != kUnlimited && count >= repeat.most) return;
    }
    add({repeat.body, stacks_.push(frame.parent, true, frame.what, count), 1});
  }

  void follow(const Item& item, const GrammarAction& action) {
    switch (action.kind) {
      case GrammarAction::Kind::kByte: return;
      case GrammarAction::Kind::kCall:
        if (!may_be_at(action.next, item.branch)) return;  // a call is of no use where its caller could not finish
        if (!may_enter(action.what, item.branch)) return;
        return add({action.what, stacks_.push(item.branch, false, action.next, 0), item.fresh + 1});
      case GrammarAction::Kind::kTailCall: return add({action.what, item.branch, item.fresh});
      case GrammarAction::Kind::kRepeat: {
        const GrammarRepeat& repeat = grammar_.repeat(action.what);
        if (!may_be_at(action.next, item.branch)) return;
        if (repeat.least == 0) add({action.next, item.branch, item.fresh});
        if (step_.overflowed || !may_enter(repeat.body, item.branch)) return;
        return add({repeat.body, stacks_.push(item.branch, true, action.what, 0), item.fresh + 1});
      }
      case GrammarAction::Kind::kEnd: return end_rule(item.branch, item.fresh);
    }
  }

  // From elsewhere a thread could not reach its end any more.
  bool may_be_at(StateId state, uint32_t branch) const { return is_within(stacks_[branch].depth, state); }
  // Asked before a frame is made for it: frames that no thread has would be memory without a limit.
  bool may_enter(StateId body, uint32_t branch) const { return is_within(stacks_[branch].depth + 1, body); }
  bool is_within(uint32_t depth, StateId state) const {
    const uint32_t needed = grammar_.needed_depth(state);
    return needed <= Grammar::kMostDepth && depth + needed <= Grammar::kMostDepth;
  }

  MatchStepper& stepper_;
  const Grammar& grammar_;
  StackTree& stacks_;
  std::vector<MatchThread>& out_;
  size_t first_;
  uint64_t most_work_;
  Step step_;
};

// ---------------------------------------------------------------- steps

MatchStepper::Step MatchStepper::begin(const Grammar& grammar, StackTree& stacks, std::vector<MatchThread>& out) {
  Closure closure(*this, grammar, stacks, out);
  closure.add({grammar.start(), 0, 0});
  return closure.finish();
}

MatchStepper::Step MatchStepper::advance(const Grammar& grammar, StackTree& stacks, std::span<const MatchThread> from,
                                         uint8_t byte, std::vector<MatchThread>& out) {
  Closure closure(*this, grammar, stacks, out);
  for (const MatchThread& thread : from) {
    for (const GrammarAction& action : closure.look_at(thread.state)) {
      if (closure.overflowed()) break;
      if (action.kind == GrammarAction::Kind::kByte && grammar.set(action.what)[byte]) {
        closure.add({action.next, thread.branch, 0});
      }
    }
  }
  return closure.finish();
}

}  // namespace ballast
