// A matcher that remembers its steps.
//
// Every set of threads with their stacks that was ever reached is a state with a number; where a byte leads from it is
// computed once. Most texts go through few states: all of a JSON string at one place is one.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "ballast/text/constraint/matcher.h"

namespace ballast {

// One thread at a time.
class MatchAutomaton {
 public:
  using State = uint32_t;
  // No text of the grammar goes on like this.
  static constexpr State kDead = 0;
  // The text may end here, and does not go on.
  static constexpr State kEnd = 1;

  explicit MatchAutomaton(std::shared_ptr<const Grammar> grammar);
  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }

  // For texts of at most `longest` bytes: counts that are farther than that from their limits are all the same, so
  // that a string of bounded length is one state, too, until it is nearly full.
  State state_of(const Matcher& matcher, uint32_t longest);

  State next(State state, uint8_t byte) {
    const State known = steps_[state * grammar_->class_count() + grammar_->class_of(byte)];
    return known == kUnknown ? compute_step(state, byte) : known;
  }

  // A step makes it grow only where it makes work() grow.
  size_t bytes() const;
  // Forgets all states but these, which get other numbers.
  void forget_but(std::span<State> states);

  // What was computed and moved so far.
  uint64_t work() const { return stepper_.work() + moved_; }
  // Some step needed too many threads or too long. It leads to kDead.
  bool overflowed() const { return overflowed_; }

 private:
  static constexpr State kUnknown = std::numeric_limits<State>::max();

  struct Threads {
    uint32_t first;
    uint32_t count;
  };

  std::span<const MatchThread> threads_of(State state) const {
    return std::span(threads_).subspan(states_[state].first, states_[state].count);
  }
  State compute_step(State state, uint8_t byte);
  // The state with these threads; sorts them.
  State find(std::vector<MatchThread>& threads, bool ended);
  State add(std::span<const MatchThread> threads);
  void grow_table();

  std::shared_ptr<const Grammar> grammar_;
  uint64_t moved_ = 0;
  bool overflowed_ = false;
  // What a repetition counts from afar is another thread than what it counts from near, so there may be more of them
  // than in a matcher. It is the matcher that refuses a grammar as too ambiguous.
  MatchStepper stepper_{4 * MatchStepper::kMostThreads};
  StackTree stacks_;
  std::vector<MatchThread> threads_;  // of all states, one after the other
  std::vector<Threads> states_;
  std::vector<State> steps_;  // by state and class of the byte
  std::vector<State> table_;  // states by hash of their threads; kDead: none
  std::vector<MatchThread> scratch_;
};

}  // namespace ballast
