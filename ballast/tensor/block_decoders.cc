#include "ballast/tensor/block_decoders.h"

#include <array>
#include <bit>
#include <cstdint>

#include "ballast/tensor/block_fields.h"

namespace ballast {

namespace {

// Four-bit codes of 2 * kHalf elements: those of the first half lie in the low nibbles, those of the second above them.
template <size_t kHalf, typename Value>
void decode_nibbles(const uint8_t* codes, float* out, Value&& value) {
  for (size_t j = 0; j < kHalf; ++j) {
    out[j] = value(codes[j] & 15);
    out[j + kHalf] = value(codes[j] >> 4);
  }
}

// As above, with the fifth bit of element i in bit i of `high`.
template <typename Value>
void decode_five_bits(const uint8_t* codes, uint32_t high, float* out, Value&& value) {
  for (size_t j = 0; j < 16; ++j) {
    out[j] = value(static_cast<int>((codes[j] & 15U) | (high >> j & 1) << 4));
    out[j + 16] = value(static_cast<int>(codes[j] >> 4U | (high >> (j + 16) & 1) << 4));
  }
}

void decode_signed_bytes(float scale, const std::byte* codes, size_t count, float* out) {
  const auto* values = reinterpret_cast<const int8_t*>(codes);
  for (size_t i = 0; i < count; ++i) out[i] = scale * static_cast<float>(values[i]);
}

// The sixteen values of the "non-linear" types.
constexpr std::array<float, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Twice the values of E2M1.
constexpr std::array<float, 16> kTwiceE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Half of the power that an exponent byte stands for: 2^(e - 128), the two smallest of them denormal.
float half_of_power(uint8_t exponent) {
  const uint32_t bits = exponent < 2 ? uint32_t{1} << (21 + exponent) : (exponent - 1U) << 23;
  return std::bit_cast<float>(bits);
}

// E4M3 without a sign; the code of its NaN stands for 0 too.
float unsigned_e4m3(uint8_t code) {
  if (code == 0x7F) return 0;
  const uint32_t exponent = code >> 3 & 15U;
  const uint32_t mantissa = code & 7U;
  if (exponent == 0) return static_cast<float>(mantissa) / 512;
  return std::bit_cast<float>((exponent + 127 - 7) << 23 | mantissa << 20);
}

}  // namespace

void decode_q1_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  const uint8_t* bits = as_codes(block + 2);
  for (size_t i = 0; i < 128; ++i) out[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? d : -d;
}

void decode_q2_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  const uint8_t* codes = as_codes(block + 2);
  for (size_t i = 0; i < 64; ++i) out[i] = d * static_cast<float>((codes[i / 4] >> (i % 4 * 2) & 3) - 1);
}

void decode_q4_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  decode_nibbles<16>(as_codes(block + 2), out, [d](int q) { return d * static_cast<float>(q - 8); });
}

void decode_q4_1(const std::byte* block, float* out) {
  const float d = load_half(block);
  const float m = load_half(block + 2);
  decode_nibbles<16>(as_codes(block + 4), out, [d, m](int q) { return d * static_cast<float>(q) + m; });
}

void decode_q5_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  decode_five_bits(as_codes(block + 6), load_le<uint32_t>(block + 2), out,
                   [d](int q) { return d * static_cast<float>(q - 16); });
}

void decode_q5_1(const std::byte* block, float* out) {
  const float d = load_half(block);
  const float m = load_half(block + 2);
  decode_five_bits(as_codes(block + 8), load_le<uint32_t>(block + 4), out,
                   [d, m](int q) { return d * static_cast<float>(q) + m; });
}

void decode_q8_0(const std::byte* block, float* out) { decode_signed_bytes(load_half(block), block + 2, 32, out); }

// The second half-precision number is the sum of the values, for dot products.
void decode_q8_1(const std::byte* block, float* out) { decode_signed_bytes(load_half(block), block + 4, 32, out); }

// After the codes follow their sums, 16 at a time, for dot products.
void decode_q8_k(const std::byte* block, float* out) {
  decode_signed_bytes(std::bit_cast<float>(load_le<uint32_t>(block)), block + 4, 256, out);
}

void decode_q2_k(const std::byte* block, float* out) {
  const uint8_t* scales = as_codes(block);
  const uint8_t* codes = as_codes(block + 16);
  const float d = load_half(block + 80);
  const float dmin = load_half(block + 82);
  for (size_t part = 0; part < 16; ++part) {  // of 16 elements each
    const float scale = d * static_cast<float>(scales[part] & 15);
    const float least = dmin * static_cast<float>(scales[part] >> 4);
    const uint8_t* from = codes + part / 8 * 32 + part % 2 * 16;
    const size_t shift = part / 2 % 4 * 2;
    for (size_t l = 0; l < 16; ++l) out[part * 16 + l] = scale * static_cast<float>(from[l] >> shift & 3) - least;
  }
}

void decode_q3_k(const std::byte* block, float* out) {
  const uint8_t* high = as_codes(block);
  const uint8_t* codes = as_codes(block + 32);
  const uint8_t* packed = as_codes(block + 96);
  const float d = load_half(block + 108);
  for (size_t part = 0; part < 16; ++part) {
    const int low_bits = part < 8 ? packed[part] & 15 : packed[part - 8] >> 4;
    const int high_bits = packed[8 + part % 4] >> (part / 4 * 2) & 3;
    const float scale = d * static_cast<float>((low_bits | high_bits << 4) - 32);
    const uint8_t* from = codes + part / 8 * 32 + part % 2 * 16;
    const uint8_t* high_from = high + part % 2 * 16;
    const size_t shift = part / 2 % 4 * 2;
    for (size_t l = 0; l < 16; ++l) {
      const int code = (from[l] >> shift & 3) | (high_from[l] >> (part / 2) & 1) << 2;
      out[part * 16 + l] = scale * static_cast<float>(code - 4);
    }
  }
}

void decode_q4_k(const std::byte* block, float* out) {
  const float d = load_half(block);
  const float dmin = load_half(block + 2);
  const KScales scales = KScales::load(block + 4);
  const uint8_t* codes = as_codes(block + 4 + KScales::kBytes);
  for (size_t k = 0; k < KScales::kCount; ++k) {
    const float scale = d * static_cast<float>(scales.scales[k]);
    const float least = dmin * static_cast<float>(scales.minima[k]);
    const uint8_t* from = codes + k / 2 * 32;
    const size_t shift = k % 2 * 4;
    for (size_t r = 0; r < 32; ++r) out[k * 32 + r] = scale * static_cast<float>(from[r] >> shift & 15) - least;
  }
}

void decode_q5_k(const std::byte* block, float* out) {
  const float d = load_half(block);
  const float dmin = load_half(block + 2);
  const KScales scales = KScales::load(block + 4);
  const uint8_t* high = as_codes(block + 4 + KScales::kBytes);
  const uint8_t* codes = high + 32;
  for (size_t k = 0; k < KScales::kCount; ++k) {
    const float scale = d * static_cast<float>(scales.scales[k]);
    const float least = dmin * static_cast<float>(scales.minima[k]);
    const uint8_t* from = codes + k / 2 * 32;
    const size_t shift = k % 2 * 4;
    for (size_t r = 0; r < 32; ++r) {
      const int code = (from[r] >> shift & 15) | (high[r] >> k & 1) << 4;
      out[k * 32 + r] = scale * static_cast<float>(code) - least;
    }
  }
}

void decode_q6_k(const std::byte* block, float* out) {
  const uint8_t* low = as_codes(block);
  const uint8_t* high = as_codes(block + 128);
  const auto* scales = reinterpret_cast<const int8_t*>(block + 192);
  const float d = load_half(block + 208);
  for (size_t part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(scales[part]);
    const size_t quarter = part / 2 % 4;  // of its half of the block
    const uint8_t* low_from = low + part / 8 * 64 + quarter % 2 * 32 + part % 2 * 16;
    const uint8_t* high_from = high + part / 8 * 32 + part % 2 * 16;
    const size_t low_shift = quarter / 2 * 4;
    const size_t high_shift = quarter * 2;
    for (size_t l = 0; l < 16; ++l) {
      const int code = (low_from[l] >> low_shift & 15) | (high_from[l] >> high_shift & 3) << 4;
      out[part * 16 + l] = scale * static_cast<float>(code - 32);
    }
  }
}

void decode_iq4_nl(const std::byte* block, float* out) {
  const float d = load_half(block);
  decode_nibbles<16>(as_codes(block + 2), out, [d](int q) { return d * kNonLinear[static_cast<size_t>(q)]; });
}

void decode_iq4_xs(const std::byte* block, float* out) {
  const float d = load_half(block);
  const uint32_t high = load_le<uint16_t>(block + 2);
  const uint8_t* low = as_codes(block + 4);
  const uint8_t* codes = as_codes(block + 8);
  for (size_t k = 0; k < 8; ++k) {
    const int low_bits = low[k / 2] >> (k % 2 * 4) & 15;
    const int high_bits = static_cast<int>(high >> (2 * k) & 3);
    const float scale = d * static_cast<float>((low_bits | high_bits << 4) - 32);
    decode_nibbles<16>(codes + k * 16, out + k * 32,
                       [scale](int q) { return scale * kNonLinear[static_cast<size_t>(q)]; });
  }
}

// Five base-3 digits to a byte, as a fraction of 256: multiplied by 3, the next digit passes the point.
void decode_tq1_0(const std::byte* block, float* out) {
  const uint8_t* codes = as_codes(block);
  const float d = load_half(block + 52);
  const auto decode_digits = [d, &out](const uint8_t* from, size_t bytes, size_t digits) {
    unsigned power = 1;
    for (size_t n = 0; n < digits; ++n, power *= 3) {
      for (size_t m = 0; m < bytes; ++m) {
        const unsigned digit = (from[m] * power & 255U) * 3 >> 8;
        *out++ = d * static_cast<float>(static_cast<int>(digit) - 1);
      }
    }
  };
  decode_digits(codes, 32, 5);
  decode_digits(codes + 32, 16, 5);
  decode_digits(codes + 48, 4, 4);
}

void decode_tq2_0(const std::byte* block, float* out) {
  const uint8_t* codes = as_codes(block);
  const float d = load_half(block + 64);
  for (size_t part = 0; part < 8; ++part) {  // of 32 elements each
    const uint8_t* from = codes + part / 4 * 32;
    const size_t shift = part % 4 * 2;
    for (size_t m = 0; m < 32; ++m) out[part * 32 + m] = d * static_cast<float>((from[m] >> shift & 3) - 1);
  }
}

void decode_mxfp4(const std::byte* block, float* out) {
  const float d = half_of_power(*as_codes(block));
  decode_nibbles<16>(as_codes(block + 1), out, [d](int q) { return d * kTwiceE2M1[static_cast<size_t>(q)]; });
}

void decode_nvfp4(const std::byte* block, float* out) {
  for (size_t part = 0; part < 4; ++part) {  // of 16 elements each
    const float d = unsigned_e4m3(as_codes(block)[part]) / 2;
    decode_nibbles<8>(as_codes(block + 4 + part * 8), out + part * 16,
                      [d](int q) { return d * kTwiceE2M1[static_cast<size_t>(q)]; });
  }
}

}  // namespace ballast
