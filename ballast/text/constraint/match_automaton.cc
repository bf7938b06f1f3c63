#include "ballast/text/constraint/match_automaton.h"

#include <algorithm>

namespace ballast {

namespace {

constexpr size_t kFramesPerWork = 8;  // passing over a frame is that much quicker than moving it

size_t hash_of_threads(std::span<const MatchThread> threads) {
  uint64_t hash = threads.size();
  for (const MatchThread& thread : threads) {
    hash = (hash ^ ((uint64_t{thread.state} << 32U) | thread.branch)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
  }
  return hash;
}

// A text has at least a byte for each time that it matches the body.
uint32_t count_from_afar(const GrammarRepeat& repeat, uint32_t count, uint32_t longest) {
  if (count < repeat.least) return repeat.least - count > longest ? kFarBelow : count;
  return repeat.most != kUnlimited && repeat.most - count > longest ? kFarInside : count;
}

}  // namespace

MatchAutomaton::MatchAutomaton(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  forget_but({});
}

size_t MatchAutomaton::bytes() const {
  return stacks_.bytes() + threads_.size() * sizeof(MatchThread) + states_.size() * sizeof(Threads) +
         (steps_.size() + table_.size()) * sizeof(State);
}

MatchAutomaton::State MatchAutomaton::state_of(const Matcher& matcher, uint32_t longest) {
  scratch_.clear();
  StackMover mover(matcher.stacks(), stacks_);
  const auto count_of = [&](const StackTree::Frame& frame) {
    return frame.is_repeat ? count_from_afar(grammar_->repeat(frame.what), frame.count, longest) : frame.count;
  };
  for (const MatchThread& thread : matcher.threads()) {
    scratch_.push_back({thread.state, mover.move(thread.branch, count_of)});
  }
  return find(scratch_, matcher.is_complete());
}

MatchAutomaton::State MatchAutomaton::compute_step(State state, uint8_t byte) {
  scratch_.clear();
  const auto step = stepper_.advance(*grammar_, stacks_, threads_of(state), byte, scratch_);
  overflowed_ = overflowed_ || step.overflowed;
  const State reached = find(scratch_, step.ended);
  steps_[state * grammar_->class_count() + grammar_->class_of(byte)] = reached;
  return reached;
}

MatchAutomaton::State MatchAutomaton::find(std::vector<MatchThread>& threads, bool ended) {
  if (threads.empty()) return ended ? kEnd : kDead;
  std::ranges::sort(threads);
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  if (2 * states_.size() >= table_.size()) grow_table();
  size_t place = hash_of_threads(threads) & (table_.size() - 1);
  for (; table_[place] != kDead; place = (place + 1) & (table_.size() - 1)) {
    if (std::ranges::equal(threads_of(table_[place]), threads)) return table_[place];
  }
  return table_[place] = add(threads);
}

// The state comes last: where memory is short, there is none without its threads and steps.
MatchAutomaton::State MatchAutomaton::add(std::span<const MatchThread> threads) {
  const Threads place = {static_cast<uint32_t>(threads_.size()), static_cast<uint32_t>(threads.size())};
  steps_.resize((states_.size() + 1) * grammar_->class_count(), kUnknown);
  threads_.insert(threads_.end(), threads.begin(), threads.end());
  states_.push_back(place);
  return static_cast<State>(states_.size() - 1);
}

void MatchAutomaton::grow_table() {
  table_.assign(2 * table_.size(), kDead);
  for (State state = kEnd + 1; state < states_.size(); ++state) {
    size_t place = hash_of_threads(threads_of(state)) & (table_.size() - 1);
    while (table_[place] != kDead) place = (place + 1) & (table_.size() - 1);
    table_[place] = state;
  }
}

void MatchAutomaton::forget_but(std::span<State> states) {
  // Everything is new, so that no capacity stays behind, and there before anything is lost.
  StackTree stacks;
  std::vector<MatchThread> threads;
  std::vector<Threads> places(kEnd + 1);
  std::vector<State> steps(places.size() * grammar_->class_count(), kDead), table(64, kDead);
  std::swap(stacks_, stacks);
  std::swap(threads_, threads);
  std::swap(states_, places);
  std::swap(steps_, steps);
  std::swap(table_, table);
  StackMover mover(stacks, stacks_);
  for (State& state : states) {
    if (state <= kEnd) continue;
    scratch_.clear();
    for (const MatchThread& thread : std::span(threads).subspan(places[state].first, places[state].count)) {
      scratch_.push_back({thread.state, mover.move(thread.branch)});
    }
    moved_ += scratch_.size();
    state = find(scratch_, false);
  }
  moved_ += stacks_.size() + stacks.size() / kFramesPerWork;
}

}  // namespace ballast
