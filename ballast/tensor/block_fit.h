// How encoders of block types find scales: for a range of step widths the codes are rounded, and the best scale for
// those codes follows by least squares. Every element has a weight: how much a squared error of it counts.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace ballast::block_fit {

// Vectors of 16 bytes, which every machine has or the compiler takes apart: the order of additions is part of the code.
using FourFloats = float __attribute__((vector_size(16)));
using FourInts = int32_t __attribute__((vector_size(16)));

inline FourFloats load_four(const float* from) {
  FourFloats loaded;
  std::memcpy(&loaded, from, sizeof(loaded));
  return loaded;
}

inline double sum_of_four(const FourFloats& v) { return static_cast<double>((v[0] + v[1]) + (v[2] + v[3])); }

// To nearest, halves upwards; into 0..largest.
inline FourFloats to_codes(FourFloats steps, float largest) {
  const FourFloats shifted = steps + 0.5F;
  const FourFloats high = FourFloats{} + largest;
  const FourFloats above = shifted > 0.0F ? shifted : FourFloats{};
  const FourFloats bounded = above < high ? above : high;
  return __builtin_convertvector(__builtin_convertvector(bounded, FourInts), FourFloats);
}

// Weights where nobody gave any. Multiplying by one is exact, so there is one way to compute.
constexpr size_t kMostElements = 256;
inline constexpr std::array<float, kMostElements> kEvenWeights = [] {
  std::array<float, kMostElements> ones{};
  ones.fill(1.0F);
  return ones;
}();

// Value = step * code - least, code in 0..largest. With a `least` of half the codes this is a grid around zero.
struct Grid {
  float step;
  float least;
  float largest;

  FourFloats codes_of(FourFloats x, float inverse) const { return to_codes((x + least) * inverse, largest); }
  float inverse() const { return step == 0 ? 0 : 1 / step; }
};

inline Grid centred_grid(float step, float middle) { return {step, step * middle, 2 * middle - 1}; }

template <size_t kCount>
double squared_error(const float* x, const float* weights, const Grid& grid) {
  const float inverse = grid.inverse();
  FourFloats sum{};
  for (size_t i = 0; i < kCount; i += 4) {
    const FourFloats now = load_four(x + i);
    const FourFloats off = grid.codes_of(now, inverse) * grid.step - grid.least - now;
    sum += off * off * load_four(weights + i);
  }
  return sum_of_four(sum);
}

template <size_t kCount>
void store_codes(const float* x, const Grid& grid, uint8_t* codes) {
  const float inverse = grid.inverse();
  for (size_t i = 0; i < kCount; i += 4) {
    const FourFloats four = grid.codes_of(load_four(x + i), inverse);
    for (size_t k = 0; k < 4; ++k) codes[i + k] = static_cast<uint8_t>(four[k]);
  }
}

// Weighted sums over a part, with its codes on a grid.
struct Sums {
  double q = 0;
  double qq = 0;
  double xq = 0;
};

template <size_t kCount>
Sums sums_on(const float* x, const float* weights, const Grid& grid, float inverse, float middle) {
  FourFloats q{};
  FourFloats qq{};
  FourFloats xq{};
  for (size_t i = 0; i < kCount; i += 4) {
    const FourFloats now = load_four(x + i);
    const FourFloats code = grid.codes_of(now, inverse) - middle;
    const FourFloats weighted = code * load_four(weights + i);
    q += weighted;
    qq += weighted * code;
    xq += weighted * now;
  }
  return {sum_of_four(q), sum_of_four(qq), sum_of_four(xq)};
}

// Of scale * code and least, the pair with the smallest squared error so far.
struct Fit {
  double scale = 0;
  double least = 0;
  double gain = -std::numeric_limits<double>::infinity();  // what is taken off the sum of squares

  bool offer(double new_scale, double new_least, double new_gain) {
    if (!(new_gain > gain)) return false;
    *this = {new_scale, new_least, new_gain};
    return true;
  }
};

// Step widths to try, and how often the best is improved upon with the codes that it gives itself.
constexpr int kTries = 24;
constexpr int kRefinements = 2;

// ---------------------------------------------------------------- codes from a minimum up

enum class Minimum : uint8_t { kNotAboveZero, kAny };

// What does not depend on codes.
struct PartTotals {
  double weight = 0;
  double x = 0;  // weighted
};

// The best least and scale for given codes: two linear equations.
inline bool fit_line(const Sums& sums, const PartTotals& totals, Minimum minimum, Fit& best) {
  const auto gain_of = [&](double scale, double least) {
    return 2 * scale * sums.xq - scale * scale * sums.qq - totals.weight * least * least - 2 * least * totals.x +
           2 * scale * least * sums.q;
  };
  if (sums.qq == 0) return false;
  const double determinant = totals.weight * sums.qq - sums.q * sums.q;
  double scale = determinant > 0 ? (totals.weight * sums.xq - totals.x * sums.q) / determinant : 0;
  double least = (scale * sums.q - totals.x) / totals.weight;
  const bool is_above_zero = least < 0 && minimum == Minimum::kNotAboveZero;
  if (determinant <= 0 || is_above_zero) {  // one code for all, or a minimum that the type cannot say
    least = 0;
    scale = sums.xq / sums.qq;
  }
  return scale > 0 && best.offer(scale, least, gain_of(scale, least));
}

template <size_t kCount>
Fit fit_from_least(const float* x, const float* weights, int largest, Minimum minimum) {
  float low = minimum == Minimum::kAny ? x[0] : 0;
  float high = x[0];
  FourFloats weight_sum{};
  FourFloats x_sum{};
  for (size_t i = 0; i < kCount; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    weight_sum[i % 4] += weights[i];
    x_sum[i % 4] += x[i] * weights[i];
  }
  const PartTotals totals{sum_of_four(weight_sum), sum_of_four(x_sum)};
  Fit best;
  best.least = static_cast<double>(-low);
  if (!(high > low)) return best;
  const auto top = static_cast<float>(largest);
  for (int i = 0; i <= kTries; ++i) {
    // From a grid a little wider than the values, whose ends stay unused, to one that cuts off the outermost.
    const float steps = top - 1 + 0.1F * static_cast<float>(i);
    fit_line(sums_on<kCount>(x, weights, Grid{0, -low, top}, steps / (high - low), 0), totals, minimum, best);
  }
  for (int i = 0; i < kRefinements && best.scale > 0; ++i) {
    const Grid grid{0, static_cast<float>(best.least), top};
    const auto inverse = static_cast<float>(1 / best.scale);
    if (!fit_line(sums_on<kCount>(x, weights, grid, inverse, 0), totals, minimum, best)) break;
  }
  return best;
}

// ---------------------------------------------------------------- codes around a middle

template <size_t kCount>
bool fit_scale(const float* x, const float* weights, float middle, float inverse, Fit& best) {
  const Grid grid{0, middle / inverse, 2 * middle - 1};
  const Sums sums = sums_on<kCount>(x, weights, grid, inverse, middle);
  return sums.qq > 0 && best.offer(sums.xq / sums.qq, 0, sums.xq * sums.xq / sums.qq);
}

// The value farthest from zero goes to the end that has one code more.
template <size_t kCount>
Fit fit_around_middle(const float* x, const float* weights, float middle) {
  float farthest = 0;
  for (size_t i = 0; i < kCount; ++i) {
    if (std::abs(x[i]) > std::abs(farthest)) farthest = x[i];
  }
  Fit best;
  if (farthest == 0) return best;
  for (int i = 0; i <= kTries; ++i) {
    const float steps = middle - 1.5F + 0.125F * static_cast<float>(i);
    fit_scale<kCount>(x, weights, middle, -steps / farthest, best);
  }
  for (int i = 0; i < kRefinements && best.scale != 0; ++i) {
    if (!fit_scale<kCount>(x, weights, middle, static_cast<float>(1 / best.scale), best)) break;
  }
  return best;
}

}  // namespace ballast::block_fit
