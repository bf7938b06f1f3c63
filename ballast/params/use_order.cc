#include "ballast/params/use_order.h"

namespace ballast {

namespace {

// Two cycles are kept, for what changes between passes; what never repeats is kept up to the second number.
constexpr uint64_t kFewUses = 4096;
constexpr uint64_t kManyUses = 1 << 20;
// Of one piece in one cycle. Beyond that the answer is a use that is a little too late, which only costs time.
constexpr int kMostRepeats = 256;

}  // namespace

void UseOrder::record(const PieceId& id) {
  if (!uses_.empty() && uses_.back().id == id) return;
  const auto found = last_.find(id);
  const std::optional<uint64_t> before = found == last_.end() ? std::nullopt : std::optional(found->second);
  // As predicted, or else wherever this piece was used last.
  if (at_ && use(*at_ + 1).id == id) ++*at_;
  else at_ = before;
  last_[id] = end();
  uses_.push_back({id, before});
  forget_old_uses();
}

PieceId UseOrder::ahead(uint64_t steps) const {
  const uint64_t cycle = end() - 1 - *at_;
  return use(*at_ + 1 + (steps - 1) % cycle).id;
}

std::optional<uint64_t> UseOrder::next_use(const PieceId& id) const {
  if (!at_) return std::nullopt;
  const auto found = last_.find(id);
  if (found == last_.end() || found->second <= *at_) return std::nullopt;
  uint64_t first_after = found->second;
  for (int i = 0; i < kMostRepeats && use(first_after).before.value_or(0) > *at_; ++i) {
    first_after = *use(first_after).before;
  }
  return first_after - *at_;
}

void UseOrder::forget_old_uses() {
  const uint64_t cycle = at_ ? end() - 1 - *at_ : 0;
  const uint64_t keep = at_ ? 2 * cycle + kFewUses : kManyUses;
  // In bulk, so that a use costs the same on average however many there are.
  if (uses_.size() < keep + keep / 2) return;
  while (uses_.size() > keep) {
    const auto found = last_.find(uses_.front().id);
    if (found != last_.end() && found->second == first_) last_.erase(found);
    uses_.pop_front();
    ++first_;
  }
}

}  // namespace ballast
