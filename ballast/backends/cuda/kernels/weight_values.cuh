// Single elements of weights as files store them, exactly as ballast/tensor/block_decoders.cc has them.
#pragma once

#include "common.cuh"

namespace ballast::cuda {

// Blocks are aligned to two bytes at most, those of q6_k and their like to none that helps.
__device__ __forceinline__ float half_at(const uint8_t* from) {
  return __half2float(__ushort_as_half(static_cast<uint16_t>(from[0] | from[1] << 8)));
}
__device__ __forceinline__ uint32_t word_at(const uint8_t* from) {
  return from[0] | from[1] << 8 | from[2] << 16 | static_cast<uint32_t>(from[3]) << 24;
}

__device__ __forceinline__ int nibble_of(const uint8_t* codes, int i) {
  return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

// The six-bit scale and minimum of part k of 8 of q4_k and q5_k.
struct KScale {
  int scale, minimum;
  __device__ __forceinline__ KScale(const uint8_t* in, int k) {
    if (k < 4) {
      scale = in[k] & 63;
      minimum = in[k + 4] & 63;
    } else {
      scale = (in[k + 4] & 15) | (in[k - 4] >> 6) << 4;
      minimum = (in[k + 4] >> 4) | (in[k] >> 6) << 4;
    }
  }
};

// A weight is scale * code + offset, where code is a small whole number; every product in this is exact in f32.
struct CodedValue {
  float scale;
  int code;
  float offset;
  __device__ __forceinline__ float value() const {
    return __fadd_rn(__fmul_rn(scale, static_cast<float>(code)), offset);
  }
};

__device__ __forceinline__ CodedValue q2k_value(const uint8_t* block, int i) {
  const int part = i / 16, l = i % 16;
  const int code = block[16 + part / 8 * 32 + part % 2 * 16 + l] >> (part / 2 % 4 * 2) & 3;
  return {half_at(block + 80) * static_cast<float>(block[part] & 15), code,
          -(half_at(block + 82) * static_cast<float>(block[part] >> 4))};
}
__device__ __forceinline__ int q3k_scale(const uint8_t* packed, int part) {
  const int low = part < 8 ? packed[part] & 15 : packed[part - 8] >> 4;
  return (low | (packed[8 + part % 4] >> (part / 4 * 2) & 3) << 4) - 32;
}
__device__ __forceinline__ CodedValue q3k_value(const uint8_t* block, int i) {
  const int part = i / 16, l = i % 16;
  const int low = block[32 + part / 8 * 32 + part % 2 * 16 + l] >> (part / 2 % 4 * 2) & 3;
  const int high = block[part % 2 * 16 + l] >> (part / 2) & 1;
  return {half_at(block + 108) * static_cast<float>(q3k_scale(block + 96, part)), (low | high << 2) - 4, 0};
}
__device__ __forceinline__ CodedValue q4k_value(const uint8_t* block, int i) {
  const int part = i / 32;
  const KScale scale(block + 4, part);
  return {half_at(block) * static_cast<float>(scale.scale), block[16 + part / 2 * 32 + i % 32] >> (part % 2 * 4) & 15,
          -(half_at(block + 2) * static_cast<float>(scale.minimum))};
}
__device__ __forceinline__ CodedValue q5k_value(const uint8_t* block, int i) {
  const int part = i / 32;
  const KScale scale(block + 4, part);
  const int low = block[48 + part / 2 * 32 + i % 32] >> (part % 2 * 4) & 15;
  const int high = block[16 + i % 32] >> part & 1;
  return {half_at(block) * static_cast<float>(scale.scale), low | high << 4,
          -(half_at(block + 2) * static_cast<float>(scale.minimum))};
}
__device__ __forceinline__ CodedValue q6k_value(const uint8_t* block, int i) {
  const int part = i / 16, l = i % 16, quarter = part / 2 % 4;
  const int low = block[part / 8 * 64 + quarter % 2 * 32 + part % 2 * 16 + l] >> (quarter / 2 * 4) & 15;
  const int high = block[128 + part / 8 * 32 + part % 2 * 16 + l] >> (quarter * 2) & 3;
  return {half_at(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + part])), (low | high << 4) - 32, 0};
}
__device__ __forceinline__ CodedValue q5_value(const uint8_t* block, int header, int i) {
  const int code = nibble_of(block + header + 4, i) | (word_at(block + header) >> i & 1) << 4;
  return {half_at(block), code, 0};
}

// Element i of a row of blocks.
__device__ __forceinline__ CodedValue coded_value(WeightType type, const uint8_t* row, uint64_t i) {
  const int in32 = static_cast<int>(i % 32), in256 = static_cast<int>(i % 256);
  const uint64_t block32 = i / 32, block256 = i / 256;
  switch (type) {
    case WeightType::kQ8_0: {
      const uint8_t* block = row + block32 * 34;
      return {half_at(block), static_cast<int8_t>(block[2 + in32]), 0};
    }
    case WeightType::kQ4_0: {
      const uint8_t* block = row + block32 * 18;
      return {half_at(block), nibble_of(block + 2, in32) - 8, 0};
    }
    case WeightType::kQ4_1: {
      const uint8_t* block = row + block32 * 20;
      return {half_at(block), nibble_of(block + 4, in32), half_at(block + 2)};
    }
    case WeightType::kQ5_0: {
      CodedValue value = q5_value(row + block32 * 22, 2, in32);
      value.code -= 16;
      return value;
    }
    case WeightType::kQ5_1: {
      const uint8_t* block = row + block32 * 24;
      CodedValue value = q5_value(block, 4, in32);
      value.offset = half_at(block + 2);
      return value;
    }
    case WeightType::kQ2K: return q2k_value(row + block256 * 84, in256);
    case WeightType::kQ3K: return q3k_value(row + block256 * 110, in256);
    case WeightType::kQ4K: return q4k_value(row + block256 * 144, in256);
    case WeightType::kQ5K: return q5k_value(row + block256 * 176, in256);
    case WeightType::kQ6K: return q6k_value(row + block256 * 210, in256);
    default: return {0, 0, 0};
  }
}

__device__ __forceinline__ float weight_at(WeightType type, const uint8_t* row, uint64_t i) {
  switch (type) {
    case WeightType::kF32: return reinterpret_cast<const float*>(row)[i];
    case WeightType::kF16: return __half2float(reinterpret_cast<const __half*>(row)[i]);
    case WeightType::kBF16: return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(row)[i]);
    default: return coded_value(type, row, i).value();
  }
}
// Of a vector that may be absent.
__device__ __forceinline__ float value_or(const uint8_t* values, uint32_t type, uint64_t i, float otherwise) {
  return values != nullptr ? weight_at(static_cast<WeightType>(type), values, i) : otherwise;
}

}  // namespace ballast::cuda
