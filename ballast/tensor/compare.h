// How far two payloads of the same number of elements are apart.
#pragma once

#include <cstdint>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"

namespace ballast {

// Values with |a - b| <= atol + rtol * |b| count as equal, and so do NaN and NaN. Without a tolerance, elements of the
// same type are equal when their bits are, and elements of different types, or in blocks, when their values are.
struct Tolerance {
  double rtol = 0;
  double atol = 0;

  bool is_exact() const { return rtol == 0 && atol == 0; }
};

struct ElementDifference {
  uint64_t differing = 0;  // elements that do not count as equal
  uint64_t elements = 0;
  double max_abs = 0;    // of |a - b|, tolerance or not; infinite where only one is NaN or infinite
  double max_rel = 0;    // of |a - b| / |b|; infinite where only b is 0
  uint64_t max_ulp = 0;  // steps between neighbouring values; floating types of the same dtype only; 2^64-1 for NaN

  void merge(const ElementDifference& other);
};

// True when compare_elements can say something: both types have arithmetic and both are real, or both complex.
bool are_comparable(DType a, DType b);

// Integers are compared as integers, everything else as double. Both spans hold the same number of whole elements, and
// of blocks whole ones.
ElementDifference compare_elements(DType dtype_a, ByteSpan a, DType dtype_b, ByteSpan b, const Tolerance& tolerance);

}  // namespace ballast
