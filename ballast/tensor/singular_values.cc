#include "ballast/tensor/singular_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace ballast {

namespace {

std::vector<double> transposed(const std::vector<double>& values, size_t rows, size_t columns) {
  std::vector<double> turned(values.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) turned[j * rows + i] = values[i * columns + j];
  }
  return turned;
}

// Makes `vector` the direction of the reflection that leaves of it its first element alone, which becomes `image`.
// Returns the factor f with which x - f * (vector . x) * vector reflects x; 0 where there is nothing to reflect.
double make_reflection(double* vector, size_t count, double& image) {
  double squares = 0;
  for (size_t i = 1; i < count; ++i) squares += vector[i] * vector[i];
  image = count == 0 ? 0 : vector[0];
  if (squares == 0) return 0;
  const double norm = std::sqrt(vector[0] * vector[0] + squares);
  image = vector[0] > 0 ? -norm : norm;
  vector[0] -= image;
  return 2 / (vector[0] * vector[0] + squares);
}

// In four sums, which the processor can work on at the same time.
double dot(const double* a, const double* b, size_t count) {
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// to -= factor * what
void subtract(double* to, double factor, const double* what, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] -= factor * what[i];
}

// The symmetric matrix with zeros on its diagonal and `beside` next to it has the singular values, and their negatives,
// as eigenvalues. How many eigenvalues are less than x is how many pivots of elimination are negative.
size_t count_below(const std::vector<double>& squares_beside, double x) {
  constexpr double kLeast = std::numeric_limits<double>::min();
  size_t negative = 0;
  double pivot = -x;
  for (size_t i = 0;; ++i) {
    if (std::abs(pivot) < kLeast) pivot = -kLeast;
    negative += pivot < 0;
    if (i == squares_beside.size()) return negative;
    pivot = -x - squares_beside[i] / pivot;
  }
}

class Bisection {
 public:
  Bisection(const std::vector<double>& diagonal, const std::vector<double>& beside) {
    for (size_t i = 0; i < diagonal.size(); ++i) {
      squares_.push_back(diagonal[i] * diagonal[i]);
      if (i < beside.size()) squares_.push_back(beside[i] * beside[i]);
      const double before = i == 0 ? 0 : std::abs(beside[i - 1]);
      const double after = i < beside.size() ? std::abs(beside[i]) : 0;
      limit_ = std::max(limit_, std::abs(diagonal[i]) + std::max(before, after));
    }
    limit_ *= 1 + 1e-10;
  }

  std::vector<double> find(size_t count) {
    std::vector<double> found(count);
    search(0, limit_, count, 0, found);
    std::ranges::reverse(found);
    return found;
  }

 private:
  // `below_low`, `below_high`: how many singular values are less than each end. Writes those between into `found`.
  void search(double low, double high, size_t below_high, size_t below_low, std::vector<double>& found) {
    const double middle = low + (high - low) / 2;
    const double close = std::numeric_limits<double>::epsilon() * (high + limit_ / 4);
    if (below_high == below_low) return;
    if (high - low <= close || middle <= low || middle >= high) {
      std::fill(found.begin() + static_cast<ptrdiff_t>(below_low), found.begin() + static_cast<ptrdiff_t>(below_high),
                middle);
      return;
    }
    const size_t below = values_below(middle);
    search(low, middle, std::clamp(below, below_low, below_high), below_low, found);
    search(middle, high, below_high, std::clamp(below, below_low, below_high), found);
  }

  // Of all eigenvalues, half are the negatives.
  size_t values_below(double x) const {
    const size_t half = (squares_.size() + 1) / 2;
    const size_t all = count_below(squares_, x);
    return all > half ? all - half : 0;
  }

  std::vector<double> squares_;
  double limit_ = 0;
};

}  // namespace

Result<SingularValues> SingularValues::begin(std::vector<double> values, size_t rows, size_t columns) {
  double largest = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "a matrix with NaN or Inf has no singular values; this one holds " + std::to_string(value));
    }
    largest = std::max(largest, std::abs(value));
  }
  int exponent = 0;
  std::frexp(largest, &exponent);
  const double scale = std::ldexp(1.0, std::clamp(exponent, -1000, 1000));
  for (double& value : values) value /= scale;
  if (rows < columns) {
    values = transposed(values, rows, columns);
    std::swap(rows, columns);
  }
  return SingularValues(std::move(values), rows, columns, scale);
}

double SingularValues::reflect_column(size_t k) {
  const size_t count = rows_ - k;
  for (size_t i = 0; i < count; ++i) column_[i] = row(k + i)[k];
  double image = 0;
  const double factor = make_reflection(column_.data(), count, image);
  diagonal_.push_back(image);
  std::fill(sums_.begin(), sums_.end(), 0.0);
  if (factor == 0) return 0;
  for (size_t i = 0; i < count; ++i) {
    subtract(sums_.data() + k + 1, -column_[i], row(k + i) + k + 1, columns_ - k - 1);
  }
  return factor;
}

// The reflections of column k and then of row k, in one pass over the rows below: memory is what takes the time.
void SingularValues::apply_both(size_t k, double column_factor, double row_factor) {
  const double* const direction = row(k) + k + 1;
  const size_t count = columns_ - k - 1;
  for (size_t i = k + 1; i < rows_; ++i) {
    double* const to = row(i) + k + 1;
    subtract(to, column_factor * column_[i - k], sums_.data() + k + 1, count);
    subtract(to, row_factor * dot(to, direction, count), direction, count);
  }
}

void SingularValues::step() {
  const size_t k = done_++;
  const double column_factor = reflect_column(k);
  if (k + 1 == columns_) return;
  double* const own = row(k) + k + 1;
  const size_t count = columns_ - k - 1;
  subtract(own, column_factor * column_[0], sums_.data() + k + 1, count);
  double image = 0;
  const double row_factor = make_reflection(own, count, image);
  beside_.push_back(image);
  apply_both(k, column_factor, row_factor);
}

std::vector<double> SingularValues::finish() const {
  std::vector<double> found = Bisection(diagonal_, beside_).find(columns_);
  for (double& value : found) value *= scale_;
  return found;
}

}  // namespace ballast
