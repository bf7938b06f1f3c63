// Singular values of a matrix: how many directions it has, and how strong each is.
//
// Householder reflections make the matrix bidiagonal, in steps, so that a caller can show how far it is and stop;
// bisection then finds each value by counting, which always ends. Every value is within a few roundings (of the
// largest) of the exact one. For an m x n matrix with m >= n: about 4 n^2 (m - n/3) operations, in the memory of the
// matrix.
#pragma once

#include <cstdint>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

class SingularValues {
 public:
  // `values`: row by row. kInvalidArgument where one is not finite: such a matrix has no singular values.
  static Result<SingularValues> begin(std::vector<double> values, size_t rows, size_t columns);

  // Steps done and to do. Each takes less time than the one before it.
  size_t done() const { return done_; }
  size_t total() const { return columns_; }
  void step();
  // Elements that the next step goes through, twice.
  uint64_t work_of_step() const { return uint64_t{rows_ - done_} * (columns_ - done_); }

  // After the last step: min(rows, columns) values, the largest first.
  std::vector<double> finish() const;

 private:
  SingularValues(std::vector<double> values, size_t rows, size_t columns, double scale)
      : values_(std::move(values)), rows_(rows), columns_(columns), scale_(scale), column_(rows), sums_(columns) {}

  double* row(size_t i) { return values_.data() + i * columns_; }
  double reflect_column(size_t k);
  void apply_both(size_t k, double column_factor, double row_factor);

  std::vector<double> values_;  // at least as many rows as columns
  size_t rows_;
  size_t columns_;
  double scale_;  // a power of two, by which values were divided, so that no square overflows
  size_t done_ = 0;
  std::vector<double> column_;    // the reflection of the current column
  std::vector<double> sums_;      // what it does to the rows
  std::vector<double> diagonal_;  // of the bidiagonal matrix, and what is right of it
  std::vector<double> beside_;
};

}  // namespace ballast
