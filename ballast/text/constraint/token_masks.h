// Which tokens may come next.
//
// Each thread of a matcher is looked at by itself, with nothing but its state: what it allows as long as its rule does
// not end is the same wherever the rule was called from, and is computed once. Only tokens that go beyond the end of
// the rule are matched against the real stack; they are few.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ballast/text/constraint/matcher.h"
#include "ballast/text/constraint/token_tree.h"

namespace ballast {

// A set of token ids.
using TokenBits = std::vector<uint64_t>;

// Any number of threads may use it.
class TokenMasks {
 public:
  TokenMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrees> trees)
      : grammar_(std::move(grammar)), trees_(std::move(trees)) {}

  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }
  const TokenTrees& trees() const { return *trees_; }

  // The tokens that may follow, without those that end a text. kUnsupported where that would take too long.
  Status find_allowed(const Matcher& matcher, bool is_first, TokenBits& allowed);

 private:
  struct Key {
    bool is_first;
    StateId state;
    uint32_t repeat;  // on top of the stack; kUnlimited: none
    uint32_t count;   // of it, or another that makes no difference to a single token
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct RuleMask {
    TokenBits bits;               // where they are many
    std::vector<TokenId> ids;     // where they are few
    std::vector<uint32_t> exits;  // nodes of the tree at which the rule ends
    uint32_t deepest = 0;         // that it goes, beyond the depth of the rule
  };
  class Walk;

  Key key_of(const MatchThread& thread, const StackTree& stacks, bool is_first) const;
  std::shared_ptr<const RuleMask> find(const Key& key);
  Result<std::shared_ptr<const RuleMask>> mask_of(const Key& key, Walk& walk);
  Status add_thread(const MatchThread& thread, bool is_first, Walk& walk, TokenBits& allowed);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTrees> trees_;
  std::mutex mutex_;  // of the masks
  std::map<Key, std::shared_ptr<const RuleMask>> masks_;
};

}  // namespace ballast
