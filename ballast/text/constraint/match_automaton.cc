#include "ballast/text/constraint/match_automaton.h"

#include <algorithm>

namespace ballast {

namespace {

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

MatchAutomaton::MatchAutomaton(std::shared_ptr<const Grammar> grammar, size_t most_bytes)
    : grammar_(std::move(grammar)), most_bytes_(most_bytes) {
  clear();
}

void MatchAutomaton::clear() {
  stacks_ = StackTree();
  threads_.clear();
  states_.clear();
  steps_.clear();
  table_.assign(64, kDead);
  add({});  // kDead
  add({});  // kEnd
  std::ranges::fill(steps_, kDead);
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

MatchAutomaton::State MatchAutomaton::add(std::span<const MatchThread> threads) {
  states_.push_back({static_cast<uint32_t>(threads_.size()), static_cast<uint32_t>(threads.size())});
  threads_.insert(threads_.end(), threads.begin(), threads.end());
  steps_.resize(states_.size() * grammar_->class_count(), kUnknown);
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
  const StackTree stacks = std::move(stacks_);
  const std::vector<MatchThread> threads = std::move(threads_);
  const std::vector<Threads> places = std::move(states_);
  clear();
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
}

}  // namespace ballast
