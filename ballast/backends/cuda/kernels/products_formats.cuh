// How products read each type of weights: 16 rows of 64 terms at a time into registers, and from there into fragments
// of tensor cores.
//
// A fragment is 16 rows of 16 terms. Lane 4 g + t of a warp has, of rows g and g + 8, four of the terms; which ones is
// free as long as activations are in the same order. Half h (32 terms) of a group gives a lane eight terms of each row:
//   plain types  h * 32 + t * 8 + j                         16 bytes of bf16 as they lie in the file
//   blocks       h * 32 + j / 4 * 16 + t * 4 + j % 4        so that a fragment is a run of 16 terms: the smallest parts
//                                                           of blocks that have a scale
// and j = 0 .. 3 belong to the first fragment of the half, 4 .. 7 to the second.
//
// Weights of blocks are whole numbers below 2^8, times a scale for each 16 or 32 terms: numbers are exact in f16, and
// the scale is applied to sums. Weights in f32 become three bf16 numbers, which have all of their bits.
#pragma once

#include "weight_values.cuh"

namespace ballast::cuda {

struct Lane {
  uint32_t index, g, t;
  __device__ __forceinline__ Lane() : index(threadIdx.x % 32), g(index / 4), t(index % 4) {}
};

__device__ __forceinline__ uint4 load_once_16(const uint8_t* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__device__ __forceinline__ uint2 load_once_8(const uint8_t* from) {
  uint2 v;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
  return v;
}
__device__ __forceinline__ uint32_t load_once_4(const uint8_t* from) {
  uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}

// The same where `is_there`, and else nothing: what was there stays. One instruction without a branch, so that nobody
// waits for it but who uses what it brings.
__device__ __forceinline__ void fetch_16(uint4& v, const uint8_t* from, bool is_there) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
      : "l"(from), "r"(static_cast<uint32_t>(is_there)));
}
__device__ __forceinline__ void fetch_16(uint32_t* v, const uint8_t* from, bool is_there) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3])
      : "l"(from), "r"(static_cast<uint32_t>(is_there)));
}
__device__ __forceinline__ void fetch_8(uint32_t* v, const uint8_t* from, bool is_there) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\n@p ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];\n}"
               : "+r"(v[0]), "+r"(v[1])
               : "l"(from), "r"(static_cast<uint32_t>(is_there)));
}
__device__ __forceinline__ void fetch_4(uint32_t* v, const uint8_t* from, bool is_there) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p ld.global.nc.L1::no_allocate.u32 %0, [%1];\n}"
               : "+r"(v[0])
               : "l"(from), "r"(static_cast<uint32_t>(is_there)));
}

__device__ __forceinline__ uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// ---------------------------------------------------------------- pairs of numbers
__device__ __forceinline__ uint32_t bits_of(__half2 pair) { return *reinterpret_cast<const uint32_t*>(&pair); }
__device__ __forceinline__ uint32_t bits_of(__nv_bfloat162 pair) { return *reinterpret_cast<const uint32_t*>(&pair); }
__device__ __forceinline__ __half2 halves_of(uint32_t bits) { return *reinterpret_cast<const __half2*>(&bits); }

// 1024 + code in each half, less 1024 + kOffset.
template <int kOffset>
__device__ __forceinline__ uint32_t small_codes(uint32_t codes) {
  const __half2 base = __float2half2_rn(1024.0F + kOffset);
  return bits_of(__hsub2(halves_of(codes | 0x64006400U), base));
}
// The same for 16 times the code.
template <int kOffset>
__device__ __forceinline__ uint32_t high_codes(uint32_t codes) {
  const __half2 share = __float2half2_rn(0.0625F), base = __float2half2_rn(-64.0F - kOffset);
  return bits_of(__hfma2(halves_of(codes | 0x64006400U), share, base));
}
// Bits kMask of `word` from bit kFrom on, moved to bit kTo: kMask is at kTo already.
template <int kFrom, int kTo, uint32_t kMask>
__device__ __forceinline__ uint32_t bits_at(uint32_t word) {
  if constexpr (kFrom >= kTo) return word >> (kFrom - kTo) & kMask;
  else return word << (kTo - kFrom) & kMask;
}

// ---------------------------------------------------------------- plain types
// Rows of a matrix as the file has them, 16 bytes at a time; nothing behind its last row or term is read.
struct PlainRows {
  const uint8_t* row[2];
  bool is_there[2];
  uint64_t k;

  __device__ __forceinline__ PlainRows(const Product& product, uint64_t tile, const Lane& lane) : k(product.k) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint64_t index = tile * kTileRows + lane.g + 8 * r;
      is_there[r] = index < product.n;
      row[r] = reinterpret_cast<const uint8_t*>(product.weights) + index * product.row_bytes;
    }
  }
};

// What all types whose operands are bf16 or f16 of 16 bits have in common.
template <bool kHalves, int kActivations>
struct SmallFloatFormat {
  static constexpr bool kHalf = kHalves;
  static constexpr int kActivationParts = kActivations, kWeightParts = 1;
  static constexpr int kBlock = 0;
  static constexpr bool kHasOffsets = false;
  static constexpr int kRing = 4, kManyRing = 4;  // groups in flight
  using Rows = PlainRows;
  struct Group {
    uint4 v[2][2];  // half, row
  };

  __device__ static __forceinline__ void load(Group& group, const Rows& rows, uint64_t index, const Lane& lane) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint64_t term = index * kGroupTerms + h * 32 + lane.t * 8;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        group.v[h][r] =
            rows.is_there[r] && term < rows.k ? load_once_16(rows.row[r] + term * 2) : make_uint4(0, 0, 0, 0);
      }
    }
  }
  // Group `index` where `is_wanted`. What lies behind the last term or row is left as it was: clear_behind.
  __device__ static __forceinline__ void fetch(Group& group, const Rows& rows, uint64_t index, bool is_wanted,
                                               const Lane& lane) {
    const uint64_t term = index * kGroupTerms + lane.t * 8;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        fetch_16(group.v[h][r], rows.row[r] + term * 2 + h * 64,
                 is_wanted && rows.is_there[r] && term + h * 32 < rows.k);
      }
    }
  }
  __device__ static __forceinline__ void clear_behind(Group& group, const Rows& rows, uint64_t index,
                                                      const Lane& lane) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (index * kGroupTerms + h * 32 + lane.t * 8 < rows.k) continue;
      group.v[h][0] = group.v[h][1] = make_uint4(0, 0, 0, 0);
    }
  }
  __device__ static __forceinline__ void fragments(const Group& group, int h, int q, uint32_t (&a)[1][4]) {
    a[0][0] = word_of(group.v[h][0], 2 * q);
    a[0][1] = word_of(group.v[h][1], 2 * q);
    a[0][2] = word_of(group.v[h][0], 2 * q + 1);
    a[0][3] = word_of(group.v[h][1], 2 * q + 1);
  }
};
using F16Format = SmallFloatFormat<true, 2>;
using BF16FastFormat = SmallFloatFormat<false, 2>;
using BF16ExactFormat = SmallFloatFormat<false, 3>;

// Three bf16 numbers whose sum is x, where x is finite.
struct ThreeParts {
  float part[3];
  __device__ __forceinline__ explicit ThreeParts(float x) {
#pragma unroll
    for (float& p : part) {
      p = __bfloat162float(__float2bfloat16_rn(x));
      x -= p;
    }
  }
};

struct F32Format {
  static constexpr bool kHalf = false;
  static constexpr int kActivationParts = 3, kWeightParts = 3;
  static constexpr int kBlock = 0;
  static constexpr bool kHasOffsets = false;
  static constexpr int kRing = 2, kManyRing = 1;
  using Rows = PlainRows;
  struct Group {
    uint4 v[2][2][2];  // half, row, fragment
  };

  __device__ static __forceinline__ void load(Group& group, const Rows& rows, uint64_t index, const Lane& lane) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint64_t term = index * kGroupTerms + h * 32 + lane.t * 8;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = i / 2, q = i % 2;
        group.v[h][r][q] =
            rows.is_there[r] && term < rows.k ? load_once_16(rows.row[r] + (term + 4 * q) * 4) : make_uint4(0, 0, 0, 0);
      }
    }
  }
  __device__ static __forceinline__ void fetch(Group& group, const Rows& rows, uint64_t index, bool is_wanted,
                                               const Lane& lane) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint64_t term = index * kGroupTerms + h * 32 + lane.t * 8;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = i / 2, q = i % 2;
        fetch_16(group.v[h][r][q], rows.row[r] + (term + 4 * q) * 4, is_wanted && rows.is_there[r] && term < rows.k);
      }
    }
  }
  __device__ static __forceinline__ void clear_behind(Group& group, const Rows& rows, uint64_t index,
                                                      const Lane& lane) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (index * kGroupTerms + h * 32 + lane.t * 8 < rows.k) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) group.v[h][i / 2][i % 2] = make_uint4(0, 0, 0, 0);
    }
  }
  __device__ static __forceinline__ void fragments(const Group& group, int h, int q, uint32_t (&a)[3][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4& v = group.v[h][i % 2][q];
      const ThreeParts first(__uint_as_float(i < 2 ? v.x : v.z)), second(__uint_as_float(i < 2 ? v.y : v.w));
#pragma unroll
      for (int p = 0; p < 3; ++p) a[p][i] = bits_of(__floats2bfloat162_rn(first.part[p], second.part[p]));
    }
  }
};

// ---------------------------------------------------------------- blocks, as repack_<type> writes them
// A group of 16 rows and 64 terms: the codes of lane 0, of lane 1, ... of each size, then what scales them, by rows.
struct PackedRows {
  const uint8_t* tile;
  uint64_t groups;

  template <typename Format>
  __device__ static __forceinline__ PackedRows of(const Product& product, uint64_t index) {
    const uint64_t groups = (product.k + kGroupTerms - 1) / kGroupTerms;
    const bool is_there = index * kTileRows < product.n;
    return {reinterpret_cast<const uint8_t*>(product.weights) + index * groups * Format::kGroupBytes,
            is_there ? groups : 0};
  }
};

// kLow: bits of a code that lie in words of their own, 4, 2 or 8. kHigh: bits above those, 0, 1 or 2. kOffset: what is
// taken from a code. kMeta: bytes of a row that scale its codes, 4 or 8.
template <WeightType kTypeOf, int kLow, int kHigh, int kOffset, int kMeta, int kBlockOf, bool kOffsets>
struct PackedFormat {
  static constexpr WeightType kType = kTypeOf;
  static constexpr bool kHalf = true;
  static constexpr int kActivationParts = 2, kWeightParts = 1;
  static constexpr int kBlock = kBlockOf;
  static constexpr bool kHasOffsets = kOffsets;
  static constexpr int kRing = 4, kManyRing = 3;
  static constexpr int kLowBytes = kLow * 4, kHighBytes = kHigh * 4;  // of a lane: 32 codes
  static constexpr int kMetaBytes = kMeta;
  static constexpr uint64_t kGroupBytes = 32 * (kLowBytes + kHighBytes) + 16 * kMeta;
  static_assert(kGroupBytes == packed_group_bytes(static_cast<uint32_t>(kTypeOf)));
  static constexpr int kLowBits = kLow, kHighBits = kHigh, kCodeOffset = kOffset;

  using Rows = PackedRows;
  struct Group {
    uint32_t low[kLow];  // 8 words of 8 bits: half, row, fragment; 4 of 4: half, row; 2 of 2: row
    uint32_t high[kHigh > 0 ? kHigh : 1];
    uint32_t meta[2][kMeta / 4];  // row
  };

  __device__ static __forceinline__ void load(Group& group, const Rows& rows, uint64_t index, const Lane& lane) {
    if (index >= rows.groups) {
      group = Group{};
      return;
    }
    const uint8_t* from = rows.tile + index * kGroupBytes;
    if constexpr (kLow == 2) {
      const uint2 v = load_once_8(from + lane.index * 8);
      group.low[0] = v.x;
      group.low[1] = v.y;
    } else {
#pragma unroll
      for (int i = 0; i < kLow / 4; ++i) {
        const uint4 v = load_once_16(from + i * 512 + lane.index * 16);
#pragma unroll
        for (int j = 0; j < 4; ++j) group.low[4 * i + j] = word_of(v, j);
      }
    }
    from += 32 * kLowBytes;
    if constexpr (kHigh == 1) group.high[0] = load_once_4(from + lane.index * 4);
    if constexpr (kHigh == 2) {
      const uint2 v = load_once_8(from + lane.index * 8);
      group.high[0] = v.x;
      group.high[1] = v.y;
    }
    from += 32 * kHighBytes;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kMeta == 4) {
        group.meta[r][0] = load_once_4(from + (lane.g + 8 * r) * 4);
      } else {
        const uint2 v = load_once_8(from + (lane.g + 8 * r) * 8);
        group.meta[r][0] = v.x;
        group.meta[r][1] = v.y;
      }
    }
  }

  __device__ static __forceinline__ void fetch(Group& group, const Rows& rows, uint64_t index, bool is_wanted,
                                               const Lane& lane) {
    const uint8_t* from = rows.tile + index * kGroupBytes;
    const bool is_there = is_wanted && index < rows.groups;
    if constexpr (kLow == 2) {
      fetch_8(group.low, from + lane.index * 8, is_there);
    } else {
#pragma unroll
      for (int i = 0; i < kLow / 4; ++i) fetch_16(group.low + 4 * i, from + i * 512 + lane.index * 16, is_there);
    }
    from += 32 * kLowBytes;
    if constexpr (kHigh == 1) fetch_4(group.high, from + lane.index * 4, is_there);
    if constexpr (kHigh == 2) fetch_8(group.high, from + lane.index * 8, is_there);
    from += 32 * kHighBytes;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kMeta == 4) fetch_4(group.meta[r], from + (lane.g + 8 * r) * 4, is_there);
      else fetch_8(group.meta[r], from + (lane.g + 8 * r) * 8, is_there);
    }
  }
  // Groups are whole: what is behind the matrix is 0.
  __device__ static __forceinline__ void clear_behind(Group&, const Rows&, uint64_t, const Lane&) {}

  // Pair kP of the eight terms of row kR in half kH: two codes as f16.
  template <int kH, int kR, int kP>
  __device__ static __forceinline__ uint32_t pair(const Group& group) {
    if constexpr (kLow == 8) {
      const uint32_t bytes = group.low[kH * 4 + kR * 2 + kP / 2];
      return small_codes<kOffset>(__byte_perm(bytes, 0, kP % 2 == 0 ? 0x4140 : 0x4342));
    } else if constexpr (kLow == 4) {
      const uint32_t nibbles = group.low[kH * 2 + kR];
      constexpr int kTo = kP % 2 * 4;
      uint32_t codes = bits_at<kP * 4, kTo, 0x000F000FU << kTo>(nibbles);
      if constexpr (kHigh == 1) {
        codes |= bits_at<(kR * 2 + kH) * 4 + kP, kTo + 4, 0x00010001U << (kTo + 4)>(group.high[0]);
      }
      if constexpr (kHigh == 2) codes |= bits_at<(kH * 4 + kP) * 2, kTo + 4, 0x00030003U << (kTo + 4)>(group.high[kR]);
      return kTo == 0 ? small_codes<kOffset>(codes) : high_codes<kOffset>(codes);
    } else {
      uint32_t codes = bits_at<(kH * 4 + kP) * 2, 0, 0x00030003U>(group.low[kR]);
      if constexpr (kHigh == 1) codes |= bits_at<(kR * 2 + kH) * 4 + kP, 2, 0x00010001U << 2>(group.high[0]);
      return small_codes<kOffset>(codes);
    }
  }
  template <int kH, int kQ>
  __device__ static __forceinline__ void fragments_of(const Group& group, uint32_t (&a)[1][4]) {
    a[0][0] = pair<kH, 0, 2 * kQ>(group);
    a[0][1] = pair<kH, 1, 2 * kQ>(group);
    a[0][2] = pair<kH, 0, 2 * kQ + 1>(group);
    a[0][3] = pair<kH, 1, 2 * kQ + 1>(group);
  }
  __device__ static __forceinline__ void fragments(const Group& group, int h, int q, uint32_t (&a)[1][4]) {
    if (h == 0) {
      if (q == 0) fragments_of<0, 0>(group, a);
      else fragments_of<0, 1>(group, a);
    } else {
      if (q == 0) fragments_of<1, 0>(group, a);
      else fragments_of<1, 1>(group, a);
    }
  }

  __device__ static __forceinline__ float half_of(uint32_t word, int i) {
    return __half2float(__ushort_as_half(static_cast<uint16_t>(i == 0 ? word & 0xFFFFU : word >> 16)));
  }
  __device__ static __forceinline__ uint32_t byte_of(uint32_t word, int i) { return word >> (8 * i) & 255U; }
  static constexpr bool kIsK = kTypeOf >= WeightType::kQ2K;

  // What sums of codes of row r are multiplied by; q: which of two parts of 16 terms.
  __device__ static __forceinline__ float scale(const Group& group, int h, int q, int r) {
    const auto& meta = group.meta[r];
    if constexpr (!kIsK) return kMeta == 4 ? half_of(meta[0], h) : half_of(meta[h * (kMeta / 8)], 0);
    const float d = half_of(meta[0], 0);
    const uint32_t scales = meta[kMeta / 4 - 1];
    if constexpr (kTypeOf == WeightType::kQ2K) return d * static_cast<float>(byte_of(scales, 2 * h + q) & 15U);
    if constexpr (kTypeOf == WeightType::kQ3K || kTypeOf == WeightType::kQ6K) {
      return d * static_cast<float>(static_cast<int8_t>(byte_of(scales, 2 * h + q)));
    }
    return d * static_cast<float>(byte_of(scales, 2 * h));
  }
  // What is added for each term.
  __device__ static __forceinline__ float offset(const Group& group, int h, int q, int r) {
    const auto& meta = group.meta[r];
    if constexpr (!kIsK) return half_of(meta[h * (kMeta / 8)], 1);
    const float least = half_of(meta[0], 1);
    const uint32_t scales = meta[kMeta / 4 - 1];
    if constexpr (kTypeOf == WeightType::kQ2K) return -(least * static_cast<float>(byte_of(scales, 2 * h + q) >> 4));
    return -(least * static_cast<float>(byte_of(scales, 2 * h + 1)));
  }
};

//                                         type       low high offset meta block offsets
using Q8_0Format = PackedFormat<WeightType::kQ8_0, 8, 0, 128, 4, 32, false>;
using Q4_0Format = PackedFormat<WeightType::kQ4_0, 4, 0, 8, 4, 32, false>;
using Q4_1Format = PackedFormat<WeightType::kQ4_1, 4, 0, 0, 8, 32, true>;
using Q5_0Format = PackedFormat<WeightType::kQ5_0, 4, 1, 16, 4, 32, false>;
using Q5_1Format = PackedFormat<WeightType::kQ5_1, 4, 1, 0, 8, 32, true>;
using Q2KFormat = PackedFormat<WeightType::kQ2K, 2, 0, 0, 8, 16, true>;
using Q3KFormat = PackedFormat<WeightType::kQ3K, 2, 1, 4, 8, 16, false>;
using Q4KFormat = PackedFormat<WeightType::kQ4K, 4, 0, 0, 8, 32, true>;
using Q5KFormat = PackedFormat<WeightType::kQ5K, 4, 1, 0, 8, 32, true>;
using Q6KFormat = PackedFormat<WeightType::kQ6K, 4, 2, 32, 8, 16, false>;

}  // namespace ballast::cuda
