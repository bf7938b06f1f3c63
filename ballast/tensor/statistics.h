// What the numbers of a payload look like: range, moments, special values, distribution.
//
// A payload is measured in parts, each in one pass; parts are merged. Merging the same parts in the same order gives
// the same bits on every machine, whoever measured them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"

namespace ballast {

// Complex elements count as two numbers, truth values as 0 and 1. Integers beyond 2^53 are rounded to double.
struct Statistics {
  uint64_t count = 0;
  uint64_t zeros = 0;      // of either sign
  uint64_t denormals = 0;  // in the type they are stored in; of blocks, as f32
  uint64_t nan = 0;
  uint64_t positive_infinity = 0;
  uint64_t negative_infinity = 0;
  // Of the finite numbers alone; NaN when there are none.
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  double squared_deviations = 0;  // sum of (x - mean)^2

  uint64_t non_finite() const { return nan + positive_infinity + negative_infinity; }
  uint64_t finite() const { return count - non_finite(); }
  double std() const;  // of the whole population, as NumPy's default; NaN without finite numbers
  double abs_max() const;
  bool all_zero() const { return count != 0 && zeros == count; }
  bool constant() const { return count > 1 && non_finite() == 0 && min == max; }

  void merge(const Statistics& other);
};

// Counts between evenly spaced edges.
struct Histogram {
  double low = 0;
  double high = 0;
  uint64_t below = 0;            // numbers under `low`
  uint64_t above = 0;            // numbers over `high`
  std::vector<uint64_t> counts;  // empty when there are no finite numbers; one when they are all the same
};

// How often which value occurs, at 32 steps per power of two: fine enough to draw any histogram from once the range is
// known, and never larger than 16384 bins however many numbers there are. Values beyond the range of f32 share the
// outermost bins.
class ValueCounts {
 public:
  void merge(const ValueCounts& other);

  // `statistics` are those of the same numbers. Edges fall between steps, so counts are exact to about 3 % of the
  // numbers whose value is next to an edge; their sum is exact.
  Histogram to_histogram(const Statistics& statistics, double low, double high, size_t bins) const;
  // The usual view: mean +- 4 standard deviations, or less where there is nothing more.
  Histogram to_histogram(const Statistics& statistics, size_t bins) const;

 private:
  friend class ValueCounter;

  struct Bin {
    uint32_t place;  // ascends with the value
    uint64_t count;
  };
  std::vector<Bin> bins_;  // by place, none empty
};

struct Measured {
  Statistics statistics;
  ValueCounts values;

  void merge(const Measured& other) {
    statistics.merge(other.statistics);
    values.merge(other.values);
  }
};

// `in` holds whole elements, or blocks, of an arithmetic type (tensor/elements.h), fewer than 2^32 numbers.
Measured measure(DType dtype, ByteSpan in);

}  // namespace ballast
