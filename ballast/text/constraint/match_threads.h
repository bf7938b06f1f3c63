// What the matching of a grammar consists of: threads, each at a state of its own with a stack of calls, and the step
// that a byte makes them take.
//
// Stacks are branches of one tree, so threads share what they have in common, and equal stacks are the same branch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ballast/text/constraint/grammar.h"

namespace ballast {

// The tree of stacks. Branch 0 is the empty stack.
class StackTree {
 public:
  struct Frame {
    uint32_t parent = 0;
    uint32_t what = 0;   // the state to go on at, or the repeat
    uint32_t count = 0;  // of a repeat: times that its body was matched
    bool is_repeat = false;
    uint32_t depth = 0;
    uint32_t first_child = 0, next_sibling = 0;  // 0: none
  };

  StackTree() : frames_(1) {}
  const Frame& operator[](uint32_t branch) const { return frames_[branch]; }
  uint32_t push(uint32_t branch, bool is_repeat, uint32_t what, uint32_t count);
  size_t size() const { return frames_.size(); }
  // Forgets the branches made last.
  void truncate(size_t size);

 private:
  std::vector<Frame> frames_;
};

struct MatchThread {
  StateId state = 0;
  uint32_t branch = 0;
  // It came by a call from another thread of the set, so what that one matches includes what this one matches.
  bool is_called = false;
};

// Computes steps. Keeps memory from step to step; one thread at a time.
class MatchStepper {
 public:
  // More threads at once than any sensible grammar needs.
  static constexpr size_t kMostThreads = 1024;

  // Of a set of threads: what it becomes, appended to `out`. Nothing where a step would have too many threads, which
  // `overflowed` remembers.
  struct Step {
    bool ended = false;  // the empty stack was popped: the text may end here
    bool overflowed = false;
  };
  Step begin(const Grammar& grammar, StackTree& stacks, std::vector<MatchThread>& out);
  Step advance(const Grammar& grammar, StackTree& stacks, std::span<const MatchThread> from, uint8_t byte,
               std::vector<MatchThread>& out);
  // What follows where the rule of this branch ends.
  Step pop(const Grammar& grammar, StackTree& stacks, uint32_t branch, std::vector<MatchThread>& out);
  // The thread and what it can become without a byte.
  Step expand(const Grammar& grammar, StackTree& stacks, MatchThread thread, std::vector<MatchThread>& out);

  // Threads that were looked at so far: a measure of work.
  uint64_t work() const { return work_; }
  // The deepest that a thread was, or will have to go, since the last reset.
  uint32_t deepest() const { return deepest_; }
  void reset_deepest() { deepest_ = 0; }

 private:
  struct Item {
    StateId state;
    uint32_t branch;
    uint32_t fresh;  // calls on top of the stack that were made since the last byte
    bool is_called;
  };
  class Closure;

  // Whether a thread may be at this state with this stack: from elsewhere it could not reach its end any more.
  bool may_be_at(const Grammar& grammar, StateId state, uint32_t depth);
  bool is_new(const Item& item);
  void start_set();

  std::vector<Item> seen_, open_;
  std::vector<uint32_t> table_;  // 1 + place in seen_, by hash
  uint64_t work_ = 0;
  uint32_t deepest_ = 0;
};

}  // namespace ballast
