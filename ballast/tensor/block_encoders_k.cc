// The types of 256 elements: parts of the block have integer scales of their own, which share a scale in half
// precision.
//
// First each part is fitted by itself: for a range of step widths the codes are rounded and the best scale for those
// codes follows by least squares. Then the scales are rounded too, and each part takes the codes and the neighbouring
// integer scale that come out best with them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ballast/tensor/block_encoders.h"
#include "ballast/tensor/block_fields.h"

namespace ballast {

namespace {

// Vectors of 16 bytes, which every machine has or the compiler takes apart: the order of additions is part of the code.
using FourFloats = float __attribute__((vector_size(16)));
using FourInts = int32_t __attribute__((vector_size(16)));

FourFloats load_four(const float* from) {
  FourFloats loaded;
  std::memcpy(&loaded, from, sizeof(loaded));
  return loaded;
}

// To nearest, halves upwards; into 0..largest.
FourFloats to_codes(FourFloats steps, float largest) {
  const FourFloats shifted = steps + 0.5F;
  const FourFloats high = FourFloats{} + largest;
  const FourFloats above = shifted > 0.0F ? shifted : FourFloats{};
  const FourFloats bounded = above < high ? above : high;
  return __builtin_convertvector(__builtin_convertvector(bounded, FourInts), FourFloats);
}

double sum_of_four(const FourFloats& v) { return static_cast<double>((v[0] + v[1]) + (v[2] + v[3])); }

// Value = step * code - least, code in 0..largest. With `largest` 63 and `least` 32 steps this is q6_k's too.
struct Grid {
  float step;
  float least;
  float largest;

  FourFloats codes_of(FourFloats x, float inverse) const { return to_codes((x + least) * inverse, largest); }
  float inverse() const { return step == 0 ? 0 : 1 / step; }
};

template <size_t kCount>
double squared_error(const float* x, const Grid& grid) {
  const float inverse = grid.inverse();
  FourFloats sum{};
  for (size_t i = 0; i < kCount; i += 4) {
    const FourFloats now = load_four(x + i);
    const FourFloats off = grid.codes_of(now, inverse) * grid.step - grid.least - now;
    sum += off * off;
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

// Sums over a part, with its codes on a grid.
struct Sums {
  double q = 0;
  double qq = 0;
  double xq = 0;
};

template <size_t kCount>
Sums sums_on(const float* x, const Grid& grid, float inverse, float middle) {
  FourFloats q{};
  FourFloats qq{};
  FourFloats xq{};
  for (size_t i = 0; i < kCount; i += 4) {
    const FourFloats now = load_four(x + i);
    const FourFloats code = grid.codes_of(now, inverse) - middle;
    q += code;
    qq += code * code;
    xq += code * now;
  }
  return {sum_of_four(q), sum_of_four(qq), sum_of_four(xq)};
}

// Of scale * code and least, the pair with the smallest squared error so far.
struct Fit {
  double scale = 0;
  double least = 0;
  double gain = -std::numeric_limits<double>::infinity();  // what is taken off the sum of squares

  void offer(double new_scale, double new_least, double new_gain) {
    if (new_gain > gain) *this = {new_scale, new_least, new_gain};
  }
};

constexpr size_t kSuperBlock = 256;

// ---------------------------------------------------------------- q4_k, q5_k: codes from a minimum up

constexpr size_t kPart = kSuperBlock / KScales::kCount;

// The best least (not negative) and scale for given codes: two linear equations.
void fit_line(const Sums& sums, double x_sum, Fit& best) {
  constexpr double kCount = kPart;
  const auto gain_of = [&](double scale, double least) {
    return 2 * scale * sums.xq - scale * scale * sums.qq - kCount * least * least - 2 * least * x_sum +
           2 * scale * least * sums.q;
  };
  if (sums.qq == 0) return;
  const double determinant = kCount * sums.qq - sums.q * sums.q;
  double scale = determinant > 0 ? (kCount * sums.xq - x_sum * sums.q) / determinant : 0;
  double least = (scale * sums.q - x_sum) / kCount;
  if (determinant <= 0 || least < 0) {  // one code for all, or a minimum above zero, which there is not
    least = 0;
    scale = sums.xq / sums.qq;
  }
  if (scale > 0) best.offer(scale, least, gain_of(scale, least));
}

Fit fit_part(const float* x, int largest) {
  float low = 0;  // a minimum is never above zero
  float high = x[0];
  FourFloats sum{};
  for (size_t i = 0; i < kPart; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    sum[i % 4] += x[i];
  }
  Fit best;
  best.least = static_cast<double>(-low);
  if (!(high > low)) return best;
  constexpr int kTries = 24;
  for (int i = 0; i <= kTries; ++i) {
    // From a grid a little wider than the values, whose ends stay unused, to one that cuts off the outermost.
    const float steps = static_cast<float>(largest) - 1 + 0.1F * static_cast<float>(i);
    const Grid grid{0, -low, static_cast<float>(largest)};
    fit_line(sums_on<kPart>(x, grid, steps / (high - low), 0), sum_of_four(sum), best);
  }
  return best;
}

// Rounded to nearest, but away from zero where half precision is so coarse that the integers could not make up for it.
void store_shared_scale(std::byte* to, float scale) {
  constexpr float kNear = 0.998F;  // normal numbers are nearer than that
  const uint16_t nearest = F16::encode(scale);
  const bool falls_short = std::abs(F16::decode(nearest)) < kNear * std::abs(scale);
  store_le<uint16_t>(to, static_cast<uint16_t>(nearest + (falls_short ? 1 : 0)));
}

// A scale in half precision, of which integers up to `largest` make all of `wanted`.
template <size_t kCount>
float shared_scale(const std::array<Fit, kCount>& fits, double Fit::*wanted, int largest) {
  double most = 0;
  for (const Fit& fit : fits) most = std::max(most, fit.*wanted);
  return static_cast<float>(most / largest);
}

int nearest_code(double value, double scale, int low, int high) {
  if (scale == 0) return 0;
  return static_cast<int>(std::clamp(std::round(value / scale), static_cast<double>(low), static_cast<double>(high)));
}

struct KBlock {
  KScales scales;
  std::array<uint8_t, kSuperBlock> codes;
};

// The integers near the fitted scale and minimum that do best, and the codes with them.
void round_part(const float* x, const Fit& fit, size_t k, float d, float dmin, int largest, KBlock& block) {
  const int scale_code = nearest_code(fit.scale, d, 0, KScales::kLargest);
  const int least_code = nearest_code(fit.least, dmin, 0, KScales::kLargest);
  double smallest = std::numeric_limits<double>::infinity();
  Grid best{0, 0, static_cast<float>(largest)};
  for (int s = std::max(0, scale_code - 1); s <= std::min(KScales::kLargest, scale_code + 1); ++s) {
    for (int m = std::max(0, least_code - 1); m <= std::min(KScales::kLargest, least_code + 1); ++m) {
      const Grid grid{d * static_cast<float>(s), dmin * static_cast<float>(m), best.largest};
      const double error = squared_error<kPart>(x, grid);
      if (!(error < smallest)) continue;
      smallest = error;
      best = grid;
      block.scales.scales[k] = static_cast<uint8_t>(s);
      block.scales.minima[k] = static_cast<uint8_t>(m);
    }
  }
  store_codes<kPart>(x, best, &block.codes[k * kPart]);
}

// Writes the two shared scales; codes are zero where one of them overflows.
KBlock encode_with_minima(const float* values, int largest, std::byte* out) {
  KBlock block{};
  std::array<Fit, KScales::kCount> fits;
  for (size_t k = 0; k < KScales::kCount; ++k) fits[k] = fit_part(values + k * kPart, largest);
  store_shared_scale(out, shared_scale(fits, &Fit::scale, KScales::kLargest));
  store_shared_scale(out + 2, shared_scale(fits, &Fit::least, KScales::kLargest));
  const float d = load_half(out);
  const float dmin = load_half(out + 2);
  if (!std::isfinite(d) || !std::isfinite(dmin)) return block;
  for (size_t k = 0; k < KScales::kCount; ++k) {
    round_part(values + k * kPart, fits[k], k, d, dmin, largest, block);
  }
  return block;
}

void store_pairs_of_parts(const KBlock& block, std::byte* out) {
  for (size_t k = 0; k < KScales::kCount; k += 2) {
    for (size_t r = 0; r < kPart; ++r) {
      const unsigned low = block.codes[k * kPart + r] & 15U;
      const unsigned high = block.codes[(k + 1) * kPart + r] & 15U;
      out[k / 2 * kPart + r] = static_cast<std::byte>(low | high << 4);
    }
  }
}

// ---------------------------------------------------------------- q6_k: codes around the middle

constexpr size_t kSmallParts = 16;
constexpr size_t kSmallPart = kSuperBlock / kSmallParts;
constexpr float kMiddleCode = 32;
constexpr float kLargestSix = 63;

Fit fit_small_part(const float* x) {
  float farthest = 0;
  for (size_t i = 0; i < kSmallPart; ++i) {
    if (std::abs(x[i]) > std::abs(farthest)) farthest = x[i];
  }
  Fit best;
  if (farthest == 0) return best;
  constexpr int kTries = 24;
  for (int i = 0; i <= kTries; ++i) {
    const float steps = kMiddleCode - 1.5F + 0.125F * static_cast<float>(i);
    const float inverse = -steps / farthest;
    const Grid grid{0, kMiddleCode / inverse, kLargestSix};
    const Sums sums = sums_on<kSmallPart>(x, grid, inverse, kMiddleCode);
    if (sums.qq > 0) best.offer(sums.xq / sums.qq, 0, sums.xq * sums.xq / sums.qq);
  }
  return best;
}

Grid centred_grid(float step) { return {step, step * kMiddleCode, kLargestSix}; }

int8_t round_small_part(const float* x, const Fit& fit, float d, uint8_t* codes) {
  constexpr int kLow = -128;
  constexpr int kHigh = 127;
  const int nearest = nearest_code(fit.scale, d, kLow, kHigh);
  double smallest = std::numeric_limits<double>::infinity();
  int chosen = 0;
  for (int s = std::max(kLow, nearest - 1); s <= std::min(kHigh, nearest + 1); ++s) {
    const double error = squared_error<kSmallPart>(x, centred_grid(d * static_cast<float>(s)));
    if (!(error < smallest)) continue;
    smallest = error;
    chosen = s;
  }
  store_codes<kSmallPart>(x, centred_grid(d * static_cast<float>(chosen)), codes);
  return static_cast<int8_t>(chosen);
}

void store_six_bits(const std::array<uint8_t, kSuperBlock>& codes, std::byte* block) {
  std::fill_n(block, 192, std::byte{0});
  for (size_t i = 0; i < kSuperBlock; ++i) {
    const size_t half = i / 128;
    const size_t quarter = i / 32 % 4;
    const size_t l = i % 32;
    block[64 * half + 32 * (quarter % 2) + l] |= static_cast<std::byte>((codes[i] & 15U) << (quarter / 2 * 4));
    block[128 + 32 * half + l] |= static_cast<std::byte>(codes[i] >> 4U << (quarter * 2));
  }
}

}  // namespace

void encode_q4_k(const float* values, std::byte* block) {
  const KBlock made = encode_with_minima(values, 15, block);
  made.scales.store(block + 4);
  store_pairs_of_parts(made, block + 4 + KScales::kBytes);
}

void encode_q5_k(const float* values, std::byte* block) {
  const KBlock made = encode_with_minima(values, 31, block);
  made.scales.store(block + 4);
  std::byte* high = block + 4 + KScales::kBytes;
  std::fill_n(high, kPart, std::byte{0});
  for (size_t i = 0; i < kSuperBlock; ++i)
    high[i % kPart] |= static_cast<std::byte>(made.codes[i] >> 4U << (i / kPart));
  store_pairs_of_parts(made, high + kPart);
}

void encode_q6_k(const float* values, std::byte* block) {
  std::array<Fit, kSmallParts> fits;
  double widest = 0;
  for (size_t k = 0; k < kSmallParts; ++k) {
    fits[k] = fit_small_part(values + k * kSmallPart);
    if (std::abs(fits[k].scale) > std::abs(widest)) widest = fits[k].scale;
  }
  store_shared_scale(block + 208, static_cast<float>(widest / -128));
  const float d = load_half(block + 208);
  std::array<uint8_t, kSuperBlock> codes{};
  for (size_t k = 0; k < kSmallParts; ++k) {
    const int8_t scale =
        std::isfinite(d) ? round_small_part(values + k * kSmallPart, fits[k], d, &codes[k * kSmallPart]) : int8_t{0};
    block[192 + k] = static_cast<std::byte>(scale);
  }
  store_six_bits(codes, block);
}

}  // namespace ballast
