// Which tokens may come next.
//
// An automaton follows the tree of tokens, and the mask of each of its states is computed once. Where everything below
// a node leads back to the same state, as it does for most words in a string, all of it is taken at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ballast/text/constraint/match_automaton.h"
#include "ballast/text/constraint/token_tree.h"

namespace ballast {

// Any number of threads may use it; they take turns.
class TokenMasks {
 public:
  // Grammars may come from strangers: masks take this much memory, the automaton this much or, while its tables grow,
  // twice as much.
  static constexpr size_t kMostBytes = size_t{8} << 20U;
  // Steps of threads for the masks of one token: about a second. The last step may exceed it.
  static constexpr uint64_t kMostWork = 20'000'000;

  TokenMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrees> trees,
             size_t most_bytes = kMostBytes)
      : trees_(std::move(trees)), most_bytes_(most_bytes), automaton_(std::move(grammar)), bytes_(held_bytes()) {}

  // Nothing else in here holds it, so its count tells whether somebody does outside.
  const std::shared_ptr<const Grammar>& grammar() const { return automaton_.grammar(); }
  const TokenTrees& trees() const { return *trees_; }

  // The tokens that may follow, without those that end a text. kUnsupported where that would take too long.
  Status find_allowed(const Matcher& matcher, bool is_first, TokenBits& allowed);
  // Of memory, with the grammar, when masks were last asked for. Never waits for those who ask for them now.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // For figures of what it costs, while nobody asks for masks.
  const MatchAutomaton& automaton() const { return automaton_; }

 private:
  using State = MatchAutomaton::State;
  struct Mask {
    TokenBits bits;            // where they are many
    std::vector<TokenId> ids;  // where they are few
  };
  // Of TokenTree::tokens().
  struct Range {
    uint32_t first, end;
  };
  class Walk;

  Status add_all_allowed(const Matcher& matcher, bool is_first, TokenBits& allowed);
  Status add_allowed(const TokenTree& tree, State state, TokenBits& allowed);
  Result<Mask> compute_mask(const TokenTree& tree, State& state);
  Mask mask_of_ranges(const TokenTree& tree, const std::vector<Range>& ranges) const;
  // The kinds of bytes that lead from the state to itself; none where finding them would exceed the limits.
  ByteKinds staying_kinds(State state);
  bool is_late() const { return automaton_.work() > most_work_; }
  bool is_large() const;
  size_t held_bytes() const;
  // Makes room where the automaton needs too much; these states stay.
  void make_room(std::span<State> kept);

  std::shared_ptr<const TokenTrees> trees_;
  size_t most_bytes_;
  std::mutex mutex_;  // of what follows
  MatchAutomaton automaton_;
  uint64_t most_work_ = 0;                    // of the automaton, until the mask that is asked for must be there
  std::unordered_map<uint64_t, Mask> masks_;  // by tree and state
  size_t mask_bytes_ = 0;
  std::unordered_map<State, ByteKinds> staying_;
  std::atomic<size_t> bytes_;
};

}  // namespace ballast
