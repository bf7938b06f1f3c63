// A payload that comes in pieces of any length, handed on in pieces of whole units.
#pragma once

#include <algorithm>

#include "ballast/base/bytes.h"
#include "ballast/base/result.h"

namespace ballast {

class WholeUnits {
 public:
  // `unit` bytes belong together; no piece handed on is longer than `most`, which is at least a unit.
  WholeUnits(size_t unit, size_t most) : unit_(unit), most_(most / unit * unit) {}

  // take(ByteSpan) -> Status for every piece that is complete now.
  template <typename Take>
  Status add(ByteSpan bytes, Take&& take) {
    if (!carry_.empty()) {
      const size_t missing = std::min(unit_ - carry_.size(), bytes.size());
      carry_.insert(carry_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(missing));
      bytes = bytes.subspan(missing);
      if (carry_.size() < unit_) return {};
      BALLAST_CHECK(finish(take));
    }
    while (bytes.size() >= unit_) {
      const ByteSpan now = bytes.first(std::min(bytes.size() / unit_ * unit_, most_));
      BALLAST_CHECK(take(now));
      bytes = bytes.subspan(now.size());
    }
    carry_.assign(bytes.begin(), bytes.end());
    return {};
  }

  // After the last piece: what is left, which is less than a unit.
  template <typename Take>
  Status finish(Take&& take) {
    if (carry_.empty()) return {};
    const ByteVector rest = std::move(carry_);
    carry_.clear();
    return take(ByteSpan(rest));
  }

 private:
  size_t unit_;
  size_t most_;
  ByteVector carry_;
};

}  // namespace ballast
