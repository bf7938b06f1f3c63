// How far a text has come in a grammar.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "ballast/text/constraint/match_threads.h"

namespace ballast {

// A value: copies go on independently, and cost a few hundred bytes in most grammars.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Grammar> grammar);

  // False, and nothing changes, where no text of the grammar goes on like this.
  bool advance(uint8_t byte);
  // False, too, where it would take too long: `bytes` are those of a token, and others wait for it.
  bool advance(std::string_view bytes);

  // The text so far is one of the grammar.
  bool is_complete() const { return last_.ended; }
  // The last refusal was for want of threads or time: the grammar is too ambiguous there.
  bool overflowed() const { return overflowed_; }

  const Grammar& grammar() const { return *grammar_; }
  std::span<const MatchThread> threads() const { return threads_; }
  const StackTree& stacks() const { return stacks_; }

 private:
  // Forgets stacks that no thread has any more, once they may be half of all.
  void tidy();

  std::shared_ptr<const Grammar> grammar_;
  StackTree stacks_;
  std::vector<MatchThread> threads_, next_;
  MatchStepper stepper_;
  MatchStepper::Step last_;
  bool overflowed_ = false;
  size_t tidy_beyond_ = 64;  // stacks; fewer are not worth it
};

}  // namespace ballast
