#include "ballast/tensor/block_encoders.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "ballast/tensor/block_fields.h"
#include "ballast/tensor/block_fit.h"

namespace ballast {

namespace {

constexpr size_t kElements = 32;
using Codes = std::array<uint8_t, kElements>;

// What to multiply with instead of dividing by a scale; nothing where the scale vanishes or overflows when it is
// stored, so that no code is made of an infinity.
float inverse_of(float scale) {
  const float stored = F16::decode(F16::encode(scale));
  return stored == 0 || !std::isfinite(stored) ? 0 : 1 / scale;
}

// Rounded to nearest, halves upwards; into 0..largest, where NaN becomes 0.
uint8_t to_code(float value, float largest) {
  const float rounded = value + 0.5F;
  const float bounded = rounded > 0 ? (rounded < largest ? rounded : largest) : 0;
  return static_cast<uint8_t>(bounded);
}

void store_nibbles(const Codes& codes, std::byte* out) {
  for (size_t j = 0; j < kElements / 2; ++j) {
    out[j] = static_cast<std::byte>((codes[j] & 15) | (codes[j + kElements / 2] & 15) << 4);
  }
}

void store_fifth_bits(const Codes& codes, std::byte* out) {
  uint32_t bits = 0;
  for (size_t i = 0; i < kElements; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4) << i;
  store_le<uint32_t>(out, bits);
}

// Steps of d around a middle code: the value farthest from zero gets code 0, so d has the other sign.
Codes encode_symmetric(const float* values, int middle, std::byte* scale) {
  float farthest = 0;
  for (size_t i = 0; i < kElements; ++i) {
    if (std::abs(values[i]) > std::abs(farthest)) farthest = values[i];
  }
  const float d = farthest / static_cast<float>(-middle);
  store_half(scale, d);
  const float inverse = inverse_of(d);
  const auto offset = static_cast<float>(middle);
  const auto largest = static_cast<float>(2 * middle - 1);
  Codes codes;
  // One sum, not two: the offset and the half are added at once, as ggml does.
  for (size_t i = 0; i < kElements; ++i) {
    const float shifted = values[i] * inverse + (offset + 0.5F);
    codes[i] = static_cast<uint8_t>(shifted > 0 ? (shifted < largest ? shifted : largest) : 0);
  }
  return codes;
}

// Steps of d up from the smallest value m.
Codes encode_from_smallest(const float* values, int largest, std::byte* scale, std::byte* least) {
  float low = values[0];
  float high = values[0];
  for (size_t i = 1; i < kElements; ++i) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
  const float d = (high - low) / static_cast<float>(largest);
  store_half(scale, d);
  store_half(least, low);
  const float inverse = inverse_of(d);
  Codes codes;
  for (size_t i = 0; i < kElements; ++i) codes[i] = to_code((values[i] - low) * inverse, static_cast<float>(largest));
  return codes;
}

// ---------------------------------------------------------------- where some elements count more than others

// The scale with the smallest weighted error. All codes are 0 where it overflows: what is read back tells.
Codes fit_symmetric(const float* values, const float* weights, int middle, std::byte* scale) {
  const block_fit::Fit fit = block_fit::fit_around_middle<kElements>(values, weights, static_cast<float>(middle));
  store_half(scale, static_cast<float>(fit.scale));
  const float d = load_half(scale);
  Codes codes{};
  if (!std::isfinite(d)) return codes;
  const block_fit::Grid grid = block_fit::centred_grid(d, static_cast<float>(middle));
  if (d == 0) codes.fill(static_cast<uint8_t>(middle));
  else block_fit::store_codes<kElements>(values, grid, codes.data());
  return codes;
}

Codes fit_from_smallest(const float* values, const float* weights, int largest, std::byte* scale, std::byte* least) {
  const block_fit::Fit fit = block_fit::fit_from_least<kElements>(values, weights, largest, block_fit::Minimum::kAny);
  store_half(scale, static_cast<float>(fit.scale));
  store_half(least, static_cast<float>(-fit.least));
  const block_fit::Grid grid{load_half(scale), -load_half(least), static_cast<float>(largest)};
  Codes codes{};
  if (!std::isfinite(grid.step) || !std::isfinite(grid.least)) return codes;
  block_fit::store_codes<kElements>(values, grid, codes.data());
  return codes;
}

Codes symmetric_codes(const float* values, const float* weights, int middle, std::byte* scale) {
  if (weights == nullptr) return encode_symmetric(values, middle, scale);
  return fit_symmetric(values, weights, middle, scale);
}

Codes codes_from_smallest(const float* values, const float* weights, int largest, std::byte* scale, std::byte* least) {
  if (weights == nullptr) return encode_from_smallest(values, largest, scale, least);
  return fit_from_smallest(values, weights, largest, scale, least);
}

}  // namespace

void encode_q4_0(const float* values, const float* weights, std::byte* block) {
  store_nibbles(symmetric_codes(values, weights, 8, block), block + 2);
}

void encode_q4_1(const float* values, const float* weights, std::byte* block) {
  store_nibbles(codes_from_smallest(values, weights, 15, block, block + 2), block + 4);
}

void encode_q5_0(const float* values, const float* weights, std::byte* block) {
  const Codes codes = symmetric_codes(values, weights, 16, block);
  store_fifth_bits(codes, block + 2);
  store_nibbles(codes, block + 6);
}

void encode_q5_1(const float* values, const float* weights, std::byte* block) {
  const Codes codes = codes_from_smallest(values, weights, 31, block, block + 2);
  store_fifth_bits(codes, block + 4);
  store_nibbles(codes, block + 8);
}

// So fine that no weighing changes anything worth the time.
void encode_q8_0(const float* values, const float*, std::byte* block) {
  float largest = 0;
  for (size_t i = 0; i < kElements; ++i) largest = std::abs(values[i]) > largest ? std::abs(values[i]) : largest;
  const float d = largest / 127;
  store_half(block, d);
  const float inverse = inverse_of(d);
  // To nearest, halves away from zero: what std::round gives for such small numbers, without a call for each.
  constexpr float kBelowHalf = 0.49999997F;
  for (size_t i = 0; i < kElements; ++i) {
    const float step = values[i] * inverse;
    block[2 + i] = static_cast<std::byte>(static_cast<int>(step + std::copysign(kBelowHalf, step)));
  }
}

}  // namespace ballast
