#include "ballast/io/read_ahead.h"

#include <algorithm>

namespace ballast {

void ReadAhead::reading(uint64_t at, uint64_t end) {
  uint64_t from = 0;
  uint64_t goal = 0;
  {
    const std::lock_guard lock(mutex_);
    if (at < begin_ || at > asked_ + kGap) begin_ = asked_ = at;  // a jump
    const uint64_t beyond = end + (at - begin_) / 2;
    goal = std::min({at + kWindow, beyond, source_.size()});
    // Small steps beyond what is certain wait until they make a request worth its while.
    if (goal <= asked_ || (asked_ >= end && goal - asked_ < kStep)) return;
    from = std::exchange(asked_, goal);
  }
  source_.prefetch(from, goal - from);
}

}  // namespace ballast
