// Payloads from one element type to another.
#pragma once

#include <cstdint>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"
#include "ballast/base/result.h"

namespace ballast {

struct CastReport {
  bool exact = true;         // every value arrived unchanged; a NaN that is still a NaN counts as unchanged
  double max_abs_error = 0;  // infinite where a finite value became infinity or NaN
  uint64_t overflowed = 0;   // how many did

  void merge(const CastReport& other);
};

// True where cast_elements knows the pair: both have arithmetic and both are real (integers, truth values and blocks
// included) or both complex. Blocks are only cast from, which is dequantising them; making them is tensor/blocks.h's.
bool can_cast(DType from, DType to);
// The same as an error: kUnsupported, and why.
Status check_cast(DType from, DType to);

// Converts the elements of `in` into `out`, whose size must be that of as many elements of `to`; a whole payload or any
// part of it that begins and ends on a whole byte in both types.
//
// Floating targets round to nearest, ties to even (what is too large for them: see small_float.h). Integer targets
// truncate fractions. A value that the target cannot hold at all (out of range of an integer, a truth value other than
// 0 and 1, NaN for a type without it) is kInvalidArgument; the text names the value and the element, counted from
// `first_index`. `out` is unspecified then.
Result<CastReport> cast_elements(DType from, ByteSpan in, DType to, MutableByteSpan out, uint64_t first_index = 0);

}  // namespace ballast
