#include "ballast/text/constraint/matcher.h"

#include <algorithm>

namespace ballast {

namespace {

constexpr size_t kFewStacks = 64;  // not worth tidying

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
  if (stacks_.size() > kFewStacks) tidy();
  return true;
}

bool Matcher::advance(std::string_view bytes) {
  Matcher after = *this;
  for (const char c : bytes) {
    if (after.advance(static_cast<uint8_t>(c))) continue;
    overflowed_ = after.overflowed_;
    return false;
  }
  *this = std::move(after);
  return true;
}

void Matcher::tidy() {
  constexpr uint32_t kUnknown = kUnlimited;
  std::vector<uint32_t> moved(stacks_.size(), kUnknown);
  moved[0] = 0;
  StackTree kept;
  std::vector<uint32_t> chain;
  for (MatchThread& thread : threads_) {
    for (uint32_t branch = thread.branch; moved[branch] == kUnknown; branch = stacks_[branch].parent)
      chain.push_back(branch);
    for (; !chain.empty(); chain.pop_back()) {
      const StackTree::Frame& frame = stacks_[chain.back()];
      moved[chain.back()] = kept.push(moved[frame.parent], frame.is_repeat, frame.what, frame.count);
    }
    thread.branch = moved[thread.branch];
  }
  stacks_ = std::move(kept);
}

}  // namespace ballast
