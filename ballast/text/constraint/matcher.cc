#include "ballast/text/constraint/matcher.h"

#include <algorithm>

namespace ballast {

namespace {

// Of all bytes of a token: some tens of milliseconds.
constexpr uint64_t kMostTokenWork = 500'000;

}  // namespace

Matcher::Matcher(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  last_ = stepper_.begin(*grammar_, stacks_, threads_);
  overflowed_ = last_.overflowed;
}

bool Matcher::advance(uint8_t byte) {
  next_.clear();
  const MatchStepper::Step step = stepper_.advance(*grammar_, stacks_, threads_, byte, next_);
  overflowed_ = step.overflowed;
  if (next_.empty() && !step.ended) return false;
  std::swap(threads_, next_);
  last_ = step;
  if (stacks_.size() > tidy_beyond_) tidy();
  return true;
}

bool Matcher::advance(std::string_view bytes) {
  const StackTree stacks = stacks_;
  const std::vector<MatchThread> threads = threads_;
  const MatchStepper::Step last = last_;
  const uint64_t most_work = stepper_.work() + kMostTokenWork;
  for (const char c : bytes) {
    const bool goes_on = advance(static_cast<uint8_t>(c));
    overflowed_ = overflowed_ || stepper_.work() > most_work;
    if (goes_on && !overflowed_) continue;
    stacks_ = stacks;
    threads_ = threads;
    last_ = last;
    return false;
  }
  return true;
}

void Matcher::tidy() {
  StackTree kept;
  StackMover mover(stacks_, kept);
  for (MatchThread& thread : threads_) thread.branch = mover.move(thread.branch);
  stacks_ = std::move(kept);
  tidy_beyond_ = std::max(tidy_beyond_, 2 * stacks_.size());
}

}  // namespace ballast
