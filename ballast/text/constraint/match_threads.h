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

// Counts of a repetition that is so far from its limits that what is matched next cannot reach them.
inline constexpr uint32_t kFarBelow = kUnlimited - 1;   // must go on
inline constexpr uint32_t kFarInside = kUnlimited - 2;  // may go on or end

// The tree of stacks. Branch 0 is the empty stack.
class StackTree {
 public:
  struct Frame {
    uint32_t parent = 0;
    uint32_t what = 0;   // the state to go on at, or the repeat
    uint32_t count = 0;  // of a repeat: times that its body was matched
    bool is_repeat = false;
    uint32_t depth = 0;
  };

  StackTree() : frames_(1) {}
  const Frame& operator[](uint32_t branch) const { return frames_[branch]; }
  uint32_t push(uint32_t branch, bool is_repeat, uint32_t what, uint32_t count);
  size_t size() const { return frames_.size(); }
  size_t bytes() const { return frames_.size() * sizeof(Frame) + table_.size() * sizeof(uint32_t); }

 private:
  void grow_table();

  std::vector<Frame> frames_;
  std::vector<uint32_t> table_;  // branches by hash; 0: none
};

// Brings branches of one tree into another.
class StackMover {
 public:
  StackMover(const StackTree& from, StackTree& to) : from_(from), to_(to), moved_(from.size(), kUnlimited) {
    moved_[0] = 0;
  }
  // `count_of(frame)` is the count that the frame gets.
  template <typename CountOf>
  uint32_t move(uint32_t branch, const CountOf& count_of) {
    for (uint32_t at = branch; moved_[at] == kUnlimited; at = from_[at].parent) chain_.push_back(at);
    for (; !chain_.empty(); chain_.pop_back()) {
      const StackTree::Frame& frame = from_[chain_.back()];
      moved_[chain_.back()] = to_.push(moved_[frame.parent], frame.is_repeat, frame.what, count_of(frame));
    }
    return moved_[branch];
  }
  uint32_t move(uint32_t branch) {
    return move(branch, [](const StackTree::Frame& frame) { return frame.count; });
  }

 private:
  const StackTree& from_;
  StackTree& to_;
  std::vector<uint32_t> moved_, chain_;
};

struct MatchThread {
  StateId state = 0;
  uint32_t branch = 0;
  friend auto operator<=>(const MatchThread&, const MatchThread&) = default;
};

// Computes steps. Keeps memory from step to step; one thread at a time.
class MatchStepper {
 public:
  // More threads at once than any sensible grammar needs.
  static constexpr size_t kMostThreads = 1024;
  // Of one step: some tens of milliseconds.
  static constexpr uint64_t kMostStepWork = 1'000'000;

  explicit MatchStepper(size_t most_threads = kMostThreads) : most_threads_(most_threads) {}

  // Of a set of threads: what it becomes, appended to `out`. Nothing, and no end, where a step would have too many
  // threads or take too long, which `overflowed` remembers.
  struct Step {
    bool ended = false;  // the empty stack was popped: the text may end here
    bool overflowed = false;
  };
  Step begin(const Grammar& grammar, StackTree& stacks, std::vector<MatchThread>& out);
  Step advance(const Grammar& grammar, StackTree& stacks, std::span<const MatchThread> from, uint8_t byte,
               std::vector<MatchThread>& out);

  // Threads and actions that were looked at so far: a measure of work.
  uint64_t work() const { return work_; }

 private:
  struct Item {
    StateId state;
    uint32_t branch;
    uint32_t fresh;  // calls on top of the stack that were made since the last byte
  };
  class Closure;

  bool is_new(const Item& item);
  void start_set();

  size_t most_threads_;
  std::vector<Item> seen_, open_;
  std::vector<uint32_t> table_;  // 1 + place in seen_, by hash
  uint64_t work_ = 0;
};

}  // namespace ballast
