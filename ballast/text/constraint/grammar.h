// A compiled grammar: a pushdown automaton over bytes.
//
// A state is a list of actions, all of which are open at once. A call remembers where to go on, a counted repetition
// remembers how often its body was matched; everything else needs no memory.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ballast/text/constraint/grammar_draft.h"

namespace ballast {

using StateId = uint32_t;
using ByteSet = std::bitset<256>;

struct GrammarAction {
  enum class Kind : uint8_t {
    kByte,      // a byte of sets()[what], then `next`
    kCall,      // the rule that begins at state `what`, then `next`
    kTailCall,  // the same where nothing comes behind it: remembers nothing
    kRepeat,    // the body of repeats()[what] as often as it says, then `next`
    kEnd,       // of the rule or of the body
  };
  Kind kind;
  uint32_t what = 0;
  StateId next = 0;
};

struct GrammarRepeat {
  StateId body = 0;
  uint32_t least = 0;
  uint32_t most = 0;
  StateId next = 0;
};

// Immutable; any number of threads may use it.
class Grammar {
 public:
  // A text may nest this deep. Where a rule could go deeper, the matcher takes the ways that do not. Less than what
  // JSON readers accept, ours included.
  static constexpr uint32_t kMostDepth = 200;

  std::span<const GrammarAction> actions(StateId state) const {
    return std::span(actions_).subspan(begins_[state], begins_[state + 1] - begins_[state]);
  }
  // All its actions are kByte.
  bool is_plain(StateId state) const { return plain_[state]; }
  const ByteSet& set(uint32_t index) const { return sets_[index]; }
  const GrammarRepeat& repeat(uint32_t index) const { return repeats_[index]; }
  StateId start() const { return start_; }
  size_t state_count() const { return plain_.size(); }
  // Of memory, about.
  size_t bytes() const {
    return actions_.size() * sizeof(GrammarAction) + (begins_.size() + needed_depth_.size()) * sizeof(uint32_t) +
           plain_.size() / 8 + sets_.size() * sizeof(ByteSet) + repeats_.size() * sizeof(GrammarRepeat);
  }
  // Bytes of one class are in the same sets, so nothing tells them apart. Classes are numbered from 0.
  uint8_t class_of(uint8_t byte) const { return class_of_[byte]; }
  uint32_t class_count() const { return class_count_; }
  // How much deeper a text must nest, at least, to get from here to the end of the rule.
  uint32_t needed_depth(StateId state) const { return needed_depth_[state]; }

 private:
  friend class GrammarCompiler;

  std::vector<uint32_t> begins_;  // of each state's actions, and their end
  std::vector<GrammarAction> actions_;
  std::vector<bool> plain_;
  std::vector<uint32_t> needed_depth_;
  std::vector<ByteSet> sets_;
  std::vector<GrammarRepeat> repeats_;
  std::array<uint8_t, 256> class_of_{};
  uint32_t class_count_ = 1;
  StateId start_ = 0;
};

}  // namespace ballast
