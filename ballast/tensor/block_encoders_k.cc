// The types of 256 elements: parts of the block have integer scales of their own, which share a scale in half
// precision.
//
// First each part is fitted by itself (block_fit.h). Then the scales are rounded too, and each part takes the codes and
// the neighbouring integer scale that come out best with them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ballast/tensor/block_encoders.h"
#include "ballast/tensor/block_fields.h"
#include "ballast/tensor/block_fit.h"

namespace ballast {

namespace {

using block_fit::centred_grid;
using block_fit::Fit;
using block_fit::fit_around_middle;
using block_fit::fit_from_least;
using block_fit::Grid;
using block_fit::squared_error;
using block_fit::store_codes;

constexpr size_t kSuperBlock = 256;
using KCodes = std::array<uint8_t, kSuperBlock>;

const float* weights_or_even(const float* weights) {
  return weights != nullptr ? weights : block_fit::kEvenWeights.data();
}

// Rounded to nearest, but away from zero where half precision is so coarse that the integers could not make up for it.
void store_shared_scale(std::byte* to, float scale) {
  constexpr float kNear = 0.998F;  // normal numbers are nearer than that
  const uint16_t nearest = F16::encode(scale);
  const bool falls_short = std::abs(F16::decode(nearest)) < kNear * std::abs(scale);
  store_le<uint16_t>(to, static_cast<uint16_t>(nearest + (falls_short ? 1 : 0)));
}

int nearest_code(double value, double scale, int low, int high) {
  if (scale == 0) return 0;
  return static_cast<int>(std::clamp(std::round(value / scale), static_cast<double>(low), static_cast<double>(high)));
}

// ---------------------------------------------------------------- q2_k, q4_k, q5_k: codes from a minimum up

// A scale in half precision, of which integers up to `largest` make all of `wanted`.
template <size_t kCount>
float shared_scale(const std::array<Fit, kCount>& fits, double Fit::*wanted, int largest) {
  double most = 0;
  for (const Fit& fit : fits) most = std::max(most, fit.*wanted);
  return static_cast<float>(most / largest);
}

// What a type with minima is made of.
struct MinimaType {
  int largest_code;
  int largest_scale;
  size_t scale_at;  // where the block has its shared scale, and behind it that of the minima
};

template <size_t kPart>
struct KBlock {
  static constexpr size_t kParts = kSuperBlock / kPart;
  std::array<uint8_t, kParts> scales{};
  std::array<uint8_t, kParts> minima{};
  KCodes codes{};
};

// The integers near the fitted scale and minimum that do best, and the codes with them.
template <size_t kPart>
void round_part(const float* values, const float* weights, const Fit& fit, size_t k, float d, float dmin,
                const MinimaType& type, KBlock<kPart>& block) {
  const int most = type.largest_scale;
  const int scale_code = nearest_code(fit.scale, d, 0, most);
  const int least_code = nearest_code(fit.least, dmin, 0, most);
  const float* x = values + k * kPart;
  double smallest = std::numeric_limits<double>::infinity();
  Grid best{0, 0, static_cast<float>(type.largest_code)};
  for (int s = std::max(0, scale_code - 1); s <= std::min(most, scale_code + 1); ++s) {
    for (int m = std::max(0, least_code - 1); m <= std::min(most, least_code + 1); ++m) {
      const Grid grid{d * static_cast<float>(s), dmin * static_cast<float>(m), best.largest};
      const double error = squared_error<kPart>(x, weights + k * kPart, grid);
      if (!(error < smallest)) continue;
      smallest = error;
      best = grid;
      block.scales[k] = static_cast<uint8_t>(s);
      block.minima[k] = static_cast<uint8_t>(m);
    }
  }
  store_codes<kPart>(x, best, &block.codes[k * kPart]);
}

// Writes the two shared scales; codes are zero where one of them overflows.
template <size_t kPart>
KBlock<kPart> encode_with_minima(const float* values, const float* given_weights, const MinimaType& type,
                                 std::byte* out) {
  using Block = KBlock<kPart>;
  const float* weights = weights_or_even(given_weights);
  Block block;
  std::array<Fit, Block::kParts> fits;
  for (size_t k = 0; k < Block::kParts; ++k) {
    fits[k] = fit_from_least<kPart>(values + k * kPart, weights + k * kPart, type.largest_code,
                                    block_fit::Minimum::kNotAboveZero);
  }
  std::byte* const scales = out + type.scale_at;
  store_shared_scale(scales, shared_scale(fits, &Fit::scale, type.largest_scale));
  store_shared_scale(scales + 2, shared_scale(fits, &Fit::least, type.largest_scale));
  const float d = load_half(scales);
  const float dmin = load_half(scales + 2);
  if (!std::isfinite(d) || !std::isfinite(dmin)) return block;
  for (size_t k = 0; k < Block::kParts; ++k) round_part(values, weights, fits[k], k, d, dmin, type, block);
  return block;
}

constexpr size_t kPart = kSuperBlock / KScales::kCount;
constexpr size_t kSmallParts = 16;
constexpr size_t kSmallPart = kSuperBlock / kSmallParts;

using PairedBlock = KBlock<kPart>;

void store_k_scales(const PairedBlock& block, std::byte* out) {
  KScales{.scales = block.scales, .minima = block.minima}.store(out);
}

void store_pairs_of_parts(const PairedBlock& block, std::byte* out) {
  for (size_t k = 0; k < KScales::kCount; k += 2) {
    for (size_t r = 0; r < kPart; ++r) {
      const unsigned low = block.codes[k * kPart + r] & 15U;
      const unsigned high = block.codes[(k + 1) * kPart + r] & 15U;
      out[k / 2 * kPart + r] = static_cast<std::byte>(low | high << 4);
    }
  }
}

// ---------------------------------------------------------------- q3_k, q6_k: codes around the middle

struct CentredType {
  float middle;
  int lowest_scale;
  int highest_scale;
  size_t scale_at;  // where the block has its shared scale
};

struct CentredBlock {
  std::array<int, kSmallParts> scales{};
  KCodes codes{};
};

int round_small_part(const float* x, const float* weights, const Fit& fit, float d, const CentredType& type,
                     uint8_t* codes) {
  const int nearest = nearest_code(fit.scale, d, type.lowest_scale, type.highest_scale);
  double smallest = std::numeric_limits<double>::infinity();
  int chosen = 0;
  for (int s = std::max(type.lowest_scale, nearest - 1); s <= std::min(type.highest_scale, nearest + 1); ++s) {
    const Grid grid = centred_grid(d * static_cast<float>(s), type.middle);
    const double error = squared_error<kSmallPart>(x, weights, grid);
    if (!(error < smallest)) continue;
    smallest = error;
    chosen = s;
  }
  store_codes<kSmallPart>(x, centred_grid(d * static_cast<float>(chosen), type.middle), codes);
  return chosen;
}

// Writes the shared scale; codes and scales are zero where it overflows.
CentredBlock encode_around_middle(const float* values, const float* given_weights, const CentredType& type,
                                  std::byte* out) {
  const float* weights = weights_or_even(given_weights);
  std::array<Fit, kSmallParts> fits;
  double widest = 0;
  for (size_t k = 0; k < kSmallParts; ++k) {
    fits[k] = fit_around_middle<kSmallPart>(values + k * kSmallPart, weights + k * kSmallPart, type.middle);
    if (std::abs(fits[k].scale) > std::abs(widest)) widest = fits[k].scale;
  }
  store_shared_scale(out + type.scale_at, static_cast<float>(widest / type.lowest_scale));
  const float d = load_half(out + type.scale_at);
  CentredBlock block;
  if (!std::isfinite(d)) return block;
  for (size_t k = 0; k < kSmallParts; ++k) {
    const size_t at = k * kSmallPart;
    block.scales[k] = round_small_part(values + at, weights + at, fits[k], d, type, &block.codes[at]);
  }
  return block;
}

// The two low bits of each code, four elements to a byte: 32 apart, in each half of the block.
void store_two_bits(const KCodes& codes, std::byte* out) {
  std::fill_n(out, kSuperBlock / 4, std::byte{0});
  for (size_t i = 0; i < kSuperBlock; ++i) {
    out[i / 128 * 32 + i % 32] |= static_cast<std::byte>((codes[i] & 3U) << (i / 32 % 4 * 2));
  }
}

// Sixteen scales of 6 bits: four low ones in a nibble, two high ones behind all of those.
void store_six_bit_scales(const std::array<int, kSmallParts>& scales, std::byte* out) {
  std::fill_n(out, 12, std::byte{0});
  for (size_t k = 0; k < kSmallParts; ++k) {
    const auto code = static_cast<unsigned>(scales[k] + 32);
    out[k % 8] |= static_cast<std::byte>((code & 15U) << (k / 8 * 4));
    out[8 + k % 4] |= static_cast<std::byte>(code >> 4U << (k / 4 * 2));
  }
}

void store_six_bits(const KCodes& codes, std::byte* block) {
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

void encode_q2_k(const float* values, const float* weights, std::byte* block) {
  const auto made = encode_with_minima<kSmallPart>(values, weights, {3, 15, 80}, block);
  for (size_t k = 0; k < kSmallParts; ++k) block[k] = static_cast<std::byte>(made.scales[k] | made.minima[k] << 4);
  store_two_bits(made.codes, block + kSmallParts);
}

void encode_q3_k(const float* values, const float* weights, std::byte* block) {
  const CentredBlock made = encode_around_middle(values, weights, {4, -32, 31, 108}, block);
  std::fill_n(block, 32, std::byte{0});
  for (size_t i = 0; i < kSuperBlock; ++i) block[i % 32] |= static_cast<std::byte>(made.codes[i] >> 2U << (i / 32));
  store_two_bits(made.codes, block + 32);
  store_six_bit_scales(made.scales, block + 96);
}

void encode_q4_k(const float* values, const float* weights, std::byte* block) {
  const PairedBlock made = encode_with_minima<kPart>(values, weights, {15, KScales::kLargest, 0}, block);
  store_k_scales(made, block + 4);
  store_pairs_of_parts(made, block + 4 + KScales::kBytes);
}

void encode_q5_k(const float* values, const float* weights, std::byte* block) {
  const PairedBlock made = encode_with_minima<kPart>(values, weights, {31, KScales::kLargest, 0}, block);
  store_k_scales(made, block + 4);
  std::byte* high = block + 4 + KScales::kBytes;
  std::fill_n(high, kPart, std::byte{0});
  for (size_t i = 0; i < kSuperBlock; ++i)
    high[i % kPart] |= static_cast<std::byte>(made.codes[i] >> 4U << (i / kPart));
  store_pairs_of_parts(made, high + kPart);
}

void encode_q6_k(const float* values, const float* weights, std::byte* block) {
  const CentredBlock made = encode_around_middle(values, weights, {32, -128, 127, 208}, block);
  for (size_t k = 0; k < kSmallParts; ++k) block[192 + k] = static_cast<std::byte>(made.scales[k]);
  store_six_bits(made.codes, block);
}

}  // namespace ballast
