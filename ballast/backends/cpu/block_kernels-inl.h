// The loops of block_kernels.cc, for the target and the instructions (BALLAST_DOT) that are being compiled. Included in
// a namespace of its own each time; hence no guard.

#include "ballast/backends/cpu/block_formats-inl.h"

// ---------------------------------------------------------------- four bytes at once
// sums + products of four neighbours. What is added is exact.
#if BALLAST_DOT && HWY_ARCH_X86
constexpr bool kBytesFromZero = true;  // signed bytes are taken 128 too large
HWY_INLINE IntVector add_products(OctetVector w, hn::Vec<SignedOctets> a, IntVector sums) {
  return IntVector{_mm512_dpbusd_epi32(sums.raw, w.raw, a.raw)};
}
HWY_INLINE IntVector add_signed_products(OctetVector w, hn::Vec<SignedOctets> a, IntVector sums) {
  return add_products(w, a, sums);
}
#elif HWY_ARCH_X86
constexpr bool kBytesFromZero = false;
// Pairs stay within 16 bits: weights from 0 to 128, activations to 127 in size.
HWY_INLINE IntVector add_products(OctetVector w, hn::Vec<SignedOctets> a, IntVector sums) {
#if HWY_TARGET == HWY_AVX3
  return hn::Add(sums, IntVector{_mm512_madd_epi16(_mm512_maddubs_epi16(w.raw, a.raw), _mm512_set1_epi16(1))});
#elif HWY_TARGET == HWY_AVX2
  return hn::Add(sums, IntVector{_mm256_madd_epi16(_mm256_maddubs_epi16(w.raw, a.raw), _mm256_set1_epi16(1))});
#else
  return hn::Add(sums, IntVector{_mm_madd_epi16(_mm_maddubs_epi16(w.raw, a.raw), _mm_set1_epi16(1))});
#endif
}
HWY_INLINE IntVector add_signed_products(OctetVector w, hn::Vec<SignedOctets> a, IntVector sums) {
  const auto number = hn::BitCast(SignedOctets(), w);
  const auto turned = hn::IfThenElse(hn::Lt(number, hn::Zero(SignedOctets())), hn::Neg(a), a);
  return add_products(hn::BitCast(Octets(), hn::Abs(number)), turned, sums);
}
#else
constexpr bool kBytesFromZero = false;
HWY_INLINE IntVector add_signed_products(OctetVector w, hn::Vec<SignedOctets> a, IntVector sums) {
  const int8x16_t number = vreinterpretq_s8_u8(w.raw);
#if BALLAST_DOT
  return IntVector(vdotq_s32(sums.raw, number, a.raw));
#else
  const int16x8_t low = vmull_s8(vget_low_s8(number), vget_low_s8(a.raw));
  return IntVector(vpadalq_s16(sums.raw, vmlal_high_s8(low, number, a.raw)));
#endif
}
HWY_INLINE IntVector add_products(OctetVector w, hn::Vec<SignedOctets> a, IntVector sums) {
  return add_signed_products(w, a, sums);
}
#endif

// The sum of each lane of four vectors: lane b of the result has those of lane b of each.
HWY_INLINE IntVector sums_of_lanes(const IntVector* of) {
  const Ints d;
  const hn::RepartitionToWide<Ints> pairs;
  const auto first =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, of[0], of[1]), hn::InterleaveUpper(d, of[0], of[1])));
  const auto second =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, of[2], of[3]), hn::InterleaveUpper(d, of[2], of[3])));
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, first, second)),
                 hn::BitCast(d, hn::InterleaveUpper(pairs, first, second)));
}

// ---------------------------------------------------------------- a stripe
struct StripeWeights {  // of four rows, the blocks of one part
  OctetVector half[2][4];
  Scales scales;

  HWY_INLINE StripeWeights() {}
};

template <class Format>
constexpr int shift_of() {
  return Format::kSigned ? (kBytesFromZero ? 7 : -1) : Format::kShift;
}

// The exact sums of products over halves [kFirst, kEnd) of the blocks.
template <class Format, size_t kFirst, size_t kEnd>
HWY_INLINE Vector exact_sums(const StripeWeights& w, const RoundedStripe& a, size_t part) {
  const SignedOctets octets;
  const Ints ints;
  const size_t at = part * kBlocks * 16;
  IntVector sums[4];
  BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) {
    sums[r] = hn::Zero(ints);
    BALLAST_UNROLL for (size_t term = 0; term < 2; ++term) {
      if (term == 1) sums[r] = hn::ShiftLeft<7>(sums[r]);
      BALLAST_UNROLL for (size_t half = kFirst; half < kEnd; ++half) {
        const auto x = hn::LoadU(octets, (term == 0 ? a.high[half] : a.low[half]) + at);
        sums[r] = Format::kSigned ? add_signed_products(w.half[half][r], x, sums[r])
                                  : add_products(w.half[half][r], x, sums[r]);
      }
    }
  }
  IntVector total = sums_of_lanes(sums);
  if constexpr (shift_of<Format>() >= 0) {
    IntVector of_a = hn::Load(ints, a.sums[kFirst] + part * kLanes);
    if constexpr (kEnd - kFirst == 2) of_a = hn::Add(of_a, hn::Load(ints, a.sums[1] + part * kLanes));
    total = hn::Sub(total, hn::ShiftLeft<shift_of<Format>()>(of_a));
  }
  return hn::ConvertTo(Floats(), total);
}

template <class Format>
HWY_INLINE Vector add_stripe_row(const StripeWeights& w, const RoundedStripe& a, size_t part, Vector sum) {
  const Vector scale = load(a.scales + part * kLanes);
  if constexpr (Format::kSplit) {
    sum = hn::MulAdd(hn::Mul(w.scales.of[0], scale), exact_sums<Format, 0, 1>(w, a, part), sum);
    sum = hn::MulAdd(hn::Mul(w.scales.of[1], scale), exact_sums<Format, 1, 2>(w, a, part), sum);
  } else {
    sum = hn::MulAdd(hn::Mul(w.scales.of[0], scale), exact_sums<Format, 0, 2>(w, a, part), sum);
  }
  if constexpr (Format::kHasMinima) sum = hn::MulAdd(w.scales.minima, load(a.scaled_sums + part * kLanes), sum);
  return sum;
}

// Rows of activations that go through four rows of the weight together; their sums stay in the first-level cache.
constexpr size_t kMostRows = 16;
struct StripeSums {
  HWY_ALIGN float of[kMostRows][16];  // by block, then output
};

// `a`: the same stripe of `rows` rows, `distance` stripes apart.
template <class Format, class Place>
HWY_INLINE void add_stripe(const std::byte* const* w, const Place& place, const RoundedStripe* a, size_t distance,
                           size_t rows, StripeSums& sums) {
  BALLAST_UNROLL for (size_t part = 0; part < kParts; ++part) {
    StripeWeights weights;
    BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) {
      OctetVector first, second;
      Format::load(w[r], place, part, first, second);
      if constexpr (Format::kSigned && kBytesFromZero) {
        first = hn::Xor(first, splat_octet(0x80));
        second = hn::Xor(second, splat_octet(0x80));
      }
      weights.half[0][r] = first;
      weights.half[1][r] = second;
    }
    weights.scales = Format::scales(w, place, part);
    for (size_t row = 0; row < rows; ++row) {
      float* sum = sums.of[row] + part * kLanes;
      hn::Store(add_stripe_row<Format>(weights, a[row * distance], part, hn::Load(Floats(), sum)), Floats(), sum);
    }
  }
}

// ---------------------------------------------------------------- rows
// Fetches what lies `ahead` behind the bytes of a stripe.
template <size_t kBytes>
HWY_INLINE void fetch(const std::byte* const* w, size_t ahead) {
  BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) fetch_lines<3>(w[r] + ahead, kBytes);
}

HWY_INLINE void advance(const std::byte** w, size_t bytes) {
  BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) w[r] += bytes;
}

template <class Format>
HWY_INLINE void add_row_of_blocks(const BlockProduct& p, const std::byte** w, const RoundedStripe* a, size_t rows,
                                  StripeSums& sums) {
  const size_t ahead = 4 * p.row_bytes, distance = stripes_of(p.k);
  if constexpr (Format::kElements == 256) {
    for (size_t block = 0; block < p.k / 256; ++block) {
      fetch<Format::kBytes>(w, ahead);
      add_stripe<Format>(w, Half<0>(), a + 2 * block, distance, rows, sums);
      add_stripe<Format>(w, Half<1>(), a + 2 * block + 1, distance, rows, sums);
      advance(w, Format::kBytes);
    }
  } else {
    const size_t blocks = p.k / 32;
    for (size_t stripe = 0; stripe < blocks / 4; ++stripe) {
      fetch<4 * Format::kBytes>(w, ahead);
      add_stripe<Format>(w, Whole<Format::kBytes>(), a + stripe, distance, rows, sums);
      advance(w, 4 * Format::kBytes);
    }
    if (blocks % 4 != 0) {
      add_stripe<Format>(w, Rest<Format::kBytes>{blocks % 4 - 1}, a + blocks / 4, distance, rows, sums);
    }
  }
}

// Outputs [j, j + 4), fewer at the end, of rows [i, i + rows).
template <class Format>
HWY_NOINLINE void multiply_four(const BlockProduct& p, size_t i, size_t rows, size_t j) {
  const std::byte* w[4];
  StripeSums sums;
  std::memset(&sums, 0, rows * sizeof(sums.of[0]));
  for (size_t r = 0; r < 4; ++r) w[r] = p.w + smaller(j + r, p.end - 1) * p.row_bytes;
  add_row_of_blocks<Format>(p, w, static_cast<const RoundedStripe*>(p.a) + i * stripes_of(p.k), rows, sums);
  const hn::Full128<float> four;
  for (size_t row = 0; row < rows; ++row) {
    HWY_ALIGN float outputs[4];
    const float* of = sums.of[row];
    hn::Store(hn::Add(hn::Add(hn::Load(four, of), hn::Load(four, of + 4)),
                      hn::Add(hn::Load(four, of + 8), hn::Load(four, of + 12))),
              four, outputs);
    std::memcpy(p.c + (i + row) * p.c_stride + j, outputs, smaller(4, p.end - j) * sizeof(float));
  }
}

template <class Format>
void multiply_format(const BlockProduct& p) {
  for (size_t i = 0; i < p.m; i += kMostRows) {
    const size_t rows = smaller(kMostRows, p.m - i);
    for (size_t j = p.begin; j < p.end; j += 4) multiply_four<Format>(p, i, rows, j);
  }
}

#if BALLAST_DOT && HWY_TARGET == HWY_AVX3
// The four sums (chains) of up to 16 rows, kOutputs of each.
template <size_t kOutputs>
struct alignas(64) ChainSums {
  float of[4][kTileGroup][kOutputs];
};

// Adds the chains up, in the order of multiply_four(), and stores `columns` outputs of each row; those that the sums do
// not have are left as they are. `complete(chain, sum)`: the sum with what its chain still lacks.
template <size_t kOutputs, class Complete>
HWY_INLINE void store_chains(const ChainSums<kOutputs>& sums, size_t rows, size_t columns, float* c, size_t stride,
                             const Complete& complete) {
  const Floats d;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t at = 0; at < smaller(kOutputs, columns); at += 16) {
      Vector of[4];
      BALLAST_UNROLL for (size_t chain = 0; chain < 4; ++chain) {
        of[chain] = complete(chain, hn::Load(d, sums.of[chain][row] + at));
      }
      const Vector output = hn::Add(hn::Add(of[0], of[1]), hn::Add(of[2], of[3]));
      float* to = c + row * stride + at;
      if (at + 16 <= columns) store(output, to);
      else store_part(output, to, columns - at);
    }
  }
}
#endif

#undef BALLAST_TILES
#if BALLAST_DOT && HWY_TARGET == HWY_AVX3 && defined(__x86_64__)
#define BALLAST_TILES 1
#include "ballast/backends/cpu/block_tiles-inl.h"
#else
#define BALLAST_TILES 0
#endif
#if BALLAST_DOT && HWY_TARGET == HWY_AVX3
#include "ballast/backends/cpu/block_packed-inl.h"
#endif

// ---------------------------------------------------------------- values
// The values of 16 numbers of a block, each exact or rounded once.
template <class Format>
HWY_INLINE void widen_half(const uint8_t* numbers, float scale, float minimum, float* out) {
  BALLAST_UNROLL for (size_t i = 0; i < 16; i += kLanes) {
    IntVector number;
    if constexpr (Format::kSigned) {
      const hn::Rebind<int8_t, Ints> octets;
      number = hn::PromoteTo(Ints(), hn::LoadU(octets, reinterpret_cast<const int8_t*>(numbers) + i));
    } else {
      const hn::Rebind<uint8_t, Ints> octets;
      number = hn::PromoteTo(Ints(), hn::LoadU(octets, numbers + i));
      if constexpr (Format::kShift >= 0) number = hn::Sub(number, hn::Set(Ints(), 1 << Format::kShift));
    }
    Vector value = hn::Mul(hn::ConvertTo(Floats(), number), splat(scale));
    if constexpr (Format::kHasMinima) value = hn::Add(value, splat(minimum));
    store(value, out + i);
  }
}

template <class Format, class Place>
HWY_INLINE void widen_stripe(const std::byte* w, const Place& place, size_t blocks, float* out) {
  const std::byte* const rows[4] = {w, w, w, w};
  BALLAST_UNROLL for (size_t part = 0; part < kParts; ++part) {
    HWY_ALIGN uint8_t numbers[2][16 * kBlocks];
    HWY_ALIGN float scales[2][kLanes];
    HWY_ALIGN float minima[kLanes];
    OctetVector first, second;
    Format::load(w, place, part, first, second);
    hn::Store(first, Octets(), numbers[0]);
    hn::Store(second, Octets(), numbers[1]);
    const Scales of = Format::scales(rows, place, part);
    hn::Store(of.of[0], Floats(), scales[0]);
    hn::Store(Format::kSplit ? of.of[1] : of.of[0], Floats(), scales[1]);
    hn::Store(of.minima, Floats(), minima);
    for (size_t block = 0; block < kBlocks && part * kBlocks + block < blocks; ++block) {
      float* to = out + (part * kBlocks + block) * 32;
      widen_half<Format>(numbers[0] + 16 * block, scales[0][4 * block], minima[4 * block], to);
      widen_half<Format>(numbers[1] + 16 * block, scales[1][4 * block], minima[4 * block], to + 16);
    }
  }
}

template <class Format>
HWY_NOINLINE void widen_format(const std::byte* w, float* out, size_t count) {
  if constexpr (Format::kElements == 256) {
    for (size_t i = 0; i < count; i += 256, w += Format::kBytes) {
      widen_stripe<Format>(w, Half<0>(), 4, out + i);
      widen_stripe<Format>(w, Half<1>(), 4, out + i + 128);
    }
  } else {
    size_t i = 0;
    for (; i + kStripe <= count; i += kStripe, w += 4 * Format::kBytes) {
      widen_stripe<Format>(w, Whole<Format::kBytes>(), 4, out + i);
    }
    const size_t rest = (count - i) / 32;
    if (rest != 0) widen_stripe<Format>(w, Rest<Format::kBytes>{rest - 1}, rest, out + i);
  }
}

// ---------------------------------------------------------------- formats
// Blocks of 32 whose numbers lie as bytes or pairs, behind f16.
template <class Format>
constexpr bool kCanBePacked = Format::kElements == 32 && Format::kHalvesFirst &&
                              (Format::kPaired || Format::kOctets != 0);

template <class Format>
constexpr BlockKernels format_kernels() {
  BlockKernels kernels;
  kernels.multiply = multiply_format<Format>;
  kernels.widen = widen_format<Format>;
#if BALLAST_TILES
  kernels.multiply_tiles = multiply_tiles<Format>;
#endif
#if BALLAST_DOT && HWY_TARGET == HWY_AVX3
  if constexpr (kCanBePacked<Format>) {
    kernels.packed_block_bytes = kPackedBlock<Format>;
    kernels.pack = pack_format<Format>;
    kernels.multiply_packed = multiply_packed<Format>;
#if BALLAST_TILES
    kernels.multiply_packed_tiles = multiply_packed_tiles<Format>;
#endif
  }
#endif
  return kernels;
}

BlockKernels kernels_of(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return format_kernels<Q4_0Format>();
    case DType::kQ4_1: return format_kernels<Q4_1Format>();
    case DType::kQ5_0: return format_kernels<Q5_0Format>();
    case DType::kQ5_1: return format_kernels<Q5_1Format>();
    case DType::kQ8_0: return format_kernels<Q8_0Format>();
    case DType::kIQ4NL: return format_kernels<IQ4NLFormat>();
    case DType::kMXFP4: return format_kernels<MXFP4Format>();
    case DType::kIQ4XS: return format_kernels<IQ4XSFormat>();
    case DType::kTQ2_0: return format_kernels<TQ2_0Format>();
    case DType::kQ3K: return format_kernels<Q3KFormat>();
    case DType::kQ4K: return format_kernels<Q4KFormat>();
    case DType::kQ5K: return format_kernels<Q5KFormat>();
    case DType::kQ6K: return format_kernels<Q6KFormat>();
    default: return {};
  }
}
