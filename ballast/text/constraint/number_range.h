// Numbers between bounds, as expressions of a grammar: how they are written in JSON.
#pragma once

#include <cstdint>

#include "ballast/text/constraint/grammar_draft.h"

namespace ballast {

// The largest whole number up to which every one is exact as a double.
inline constexpr int64_t kLargestExact = (int64_t{1} << 53U) - 1;

// Whole numbers from `least` to `most`, which is not below it. Both within +-kLargestExact.
ExprId integer_range(GrammarDraft& draft, int64_t least, int64_t most);

struct NumberBounds {
  int64_t least = -kLargestExact, most = kLargestExact;
  bool above_least = false, below_most = false;  // and not equal
};
// The same with fractions of up to six digits. No alternatives (nothing matches) where there are none.
ExprId number_range(GrammarDraft& draft, const NumberBounds& bounds);

}  // namespace ballast
