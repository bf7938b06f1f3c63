// The layouts of blocks as vectors see them. A part of block_kernels-inl.h, which includes it in its namespace; hence
// no guard.
//
// Four blocks of 32 numbers are a stripe. A vector holds 16 numbers of each of kBlocks blocks, a block in each of its
// 128-bit lanes, and kParts vectors go through a stripe. A format gives of a row of the weight the first and second 16
// numbers of the blocks of a part, as signed bytes (kSigned) or as bytes from 0 on, too large by 2^kShift (-1: by
// nothing); and of four rows the scales of those blocks, ordered by block, then row. Where both halves of a block share
// 16 bytes (kPaired, from kPairs on), `pairs` gives those and `take_apart` the halves, byte by byte: bytes may change
// places in between. kOctets: where 32 numbers lie as bytes; kHalvesFirst: a block begins with its scale, an f16, and
// its minimum if it has one.

// ---------------------------------------------------------------- vocabulary
constexpr size_t kBlocks = kLanes / 4;
constexpr size_t kParts = 4 / kBlocks;

using Octets = hn::Repartition<uint8_t, Floats>;
using SignedOctets = hn::Repartition<int8_t, Floats>;
using OctetVector = hn::Vec<Octets>;
using IntVector = hn::Vec<Ints>;
using Lane = hn::Full128<uint8_t>;

template <typename T>
HWY_INLINE T load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// Where a block of a stripe begins: in whole stripes; in the last one of a row, whose missing blocks are the last that
// is there (their activations are 0); in one half of a block of 256.
template <size_t kBytes>
struct Whole {
  static HWY_INLINE constexpr size_t of(size_t block) { return block * kBytes; }
};
template <size_t kBytes>
struct Rest {
  size_t last;
  HWY_INLINE size_t of(size_t block) const { return (block < last ? block : last) * kBytes; }
};
template <size_t kHalf>
struct Half {
  static constexpr size_t kIndex = kHalf;
};

// 16 bytes from each of `of(0)`, `of(1)` ... behind `at`, one in each lane.
template <class Offsets>
HWY_INLINE OctetVector load_lanes(const std::byte* at, const Offsets& offsets, size_t block) {
#if HWY_ARCH_X86
  const auto* p = reinterpret_cast<const char*>(at);
#define BALLAST_LANE(i) _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + offsets.of(block + (i))))
#if HWY_TARGET == HWY_AVX3
  const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(BALLAST_LANE(0)), BALLAST_LANE(1), 1);
  const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(BALLAST_LANE(2)), BALLAST_LANE(3), 1);
  return OctetVector{_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
#elif HWY_TARGET == HWY_AVX2
  return OctetVector{_mm256_inserti128_si256(_mm256_castsi128_si256(BALLAST_LANE(0)), BALLAST_LANE(1), 1)};
#else
  return OctetVector{BALLAST_LANE(0)};
#endif
#undef BALLAST_LANE
#else
  return hn::LoadU(Octets(), reinterpret_cast<const uint8_t*>(at) + offsets.of(block));
#endif
}

// Four f16 for each block, as floats.
HWY_INLINE Vector to_floats(const uint64_t* words) {
#if HWY_TARGET == HWY_AVX3
  return Vector{_mm512_cvtph_ps(_mm256_set_epi64x(static_cast<int64_t>(words[3]), static_cast<int64_t>(words[2]),
                                                  static_cast<int64_t>(words[1]), static_cast<int64_t>(words[0])))};
#elif HWY_TARGET == HWY_AVX2
  return Vector{_mm256_cvtph_ps(_mm_set_epi64x(static_cast<int64_t>(words[1]), static_cast<int64_t>(words[0])))};
#else
  return F16Weight::load(reinterpret_cast<const std::byte*>(words));
#endif
}

HWY_INLINE uint64_t four_halves(const std::byte* const* w, size_t at) {
  return uint64_t{load_as<uint16_t>(w[0] + at)} | uint64_t{load_as<uint16_t>(w[1] + at)} << 16 |
         uint64_t{load_as<uint16_t>(w[2] + at)} << 32 | uint64_t{load_as<uint16_t>(w[3] + at)} << 48;
}
// An f16 of each block, `skip` bytes behind its beginning.
template <class Offsets>
HWY_INLINE Vector block_halves(const std::byte* const* w, const Offsets& offsets, size_t block, size_t skip) {
  uint64_t words[kBlocks];
  BALLAST_UNROLL for (size_t i = 0; i < kBlocks; ++i) words[i] = four_halves(w, offsets.of(block + i) + skip);
  return to_floats(words);
}
// An f16 that all blocks share.
HWY_INLINE Vector shared_halves(const std::byte* const* w, size_t skip) {
  uint64_t words[kBlocks];
  const uint64_t word = four_halves(w, skip);
  BALLAST_UNROLL for (size_t i = 0; i < kBlocks; ++i) words[i] = word;
  return to_floats(words);
}

HWY_INLINE hn::Vec<Lane> make_lane(uint64_t low, uint64_t high) {
#if HWY_ARCH_X86
  return hn::Vec<Lane>{_mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low))};
#else
  const hn::Full128<uint64_t> d;
  return hn::BitCast(Lane(), hn::InsertLane(hn::Set(d, low), 1, high));
#endif
}

// Bytes ordered by block, then row, of which one part is wanted.
struct BlockBytes {
  HWY_ALIGN uint8_t bytes[16];

  template <typename T>
  HWY_INLINE IntVector numbers(size_t part) const {
    const hn::Rebind<T, Ints> narrow;
    return hn::PromoteTo(Ints(), hn::LoadU(narrow, reinterpret_cast<const T*>(bytes) + part * kLanes));
  }
  template <typename T>
  HWY_INLINE Vector part(size_t part) const {
    return hn::ConvertTo(Floats(), numbers<T>(part));
  }
};
// From four rows with one byte for each block.
HWY_INLINE void turn_bytes(const uint32_t* rows, BlockBytes& out) {
  HWY_ALIGN static constexpr uint8_t kOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const auto lane = make_lane(rows[0] | uint64_t{rows[1]} << 32, rows[2] | uint64_t{rows[3]} << 32);
  hn::Store(hn::TableLookupBytes(lane, hn::Load(Lane(), kOrder)), Lane(), out.bytes);
}

HWY_INLINE OctetVector splat_octet(uint8_t value) { return hn::Set(Octets(), value); }
HWY_INLINE OctetVector low_nibbles(OctetVector v) { return hn::And(v, splat_octet(0x0F)); }
HWY_INLINE OctetVector high_nibbles(OctetVector v) {
  const hn::Repartition<uint16_t, Floats> halves;
  return low_nibbles(hn::BitCast(Octets(), hn::ShiftRight<4>(hn::BitCast(halves, v))));
}
// `value` where v has all bits of `bits`.
HWY_INLINE OctetVector value_of_bit(OctetVector v, OctetVector bits, uint8_t value) {
  return hn::And(hn::VecFromMask(Octets(), hn::Eq(hn::And(v, bits), bits)), splat_octet(value));
}
HWY_INLINE OctetVector fifth_bit(OctetVector v, OctetVector bits) { return value_of_bit(v, bits, 16); }
// One number for each lane of each part of a stripe.
HWY_INLINE IntVector lane_numbers(const int32_t* of_blocks, size_t part) {
  HWY_ALIGN int32_t lanes[kLanes];
  BALLAST_UNROLL for (size_t i = 0; i < kLanes; ++i) lanes[i] = of_blocks[part * kBlocks + i / 4];
  return hn::Load(Ints(), lanes);
}

struct Scales {
  Vector of[2];  // the second where the halves of a block have scales of their own (kSplit)
  Vector minima;

  // By hand, here and below: compilers make constructors for no target in particular.
  HWY_INLINE Scales() {}
  HWY_INLINE Scales(Vector first, Vector second, Vector lowest) {
    of[0] = first;
    of[1] = second;
    minima = lowest;
  }
};

// ---------------------------------------------------------------- blocks of 32
struct SimpleFormat {
  static constexpr size_t kElements = 32;
  static constexpr bool kSigned = false, kSplit = false, kHasMinima = false, kPaired = false, kHalvesFirst = true;
  static constexpr int kShift = -1;
  static constexpr size_t kOctets = 0;
};

template <size_t kBlockBytes, size_t kScale, size_t kNibbles>
struct NibbleFormat : SimpleFormat {
  static constexpr size_t kBytes = kBlockBytes;
  static constexpr bool kPaired = true;
  static constexpr size_t kPairs = kNibbles;
  template <class Offsets>
  static HWY_INLINE OctetVector pairs(const std::byte* w, const Offsets& offsets, size_t part) {
    return load_lanes(w + kNibbles, offsets, part * kBlocks);
  }
  static HWY_INLINE void take_apart(OctetVector pairs, OctetVector& first, OctetVector& second) {
    first = low_nibbles(pairs);
    second = high_nibbles(pairs);
  }
  template <class Offsets>
  static HWY_INLINE void load(const std::byte* w, const Offsets& offsets, size_t part, OctetVector& first,
                              OctetVector& second) {
    take_apart(pairs(w, offsets, part), first, second);
  }
  template <class Offsets>
  static HWY_INLINE Scales scales(const std::byte* const* w, const Offsets& offsets, size_t part) {
    return {block_halves(w, offsets, part * kBlocks, kScale), zeros(), zeros()};
  }
};
// With minima behind the scales.
template <class Format>
struct WithMinima : Format {
  static constexpr bool kHasMinima = true;
  static constexpr int kShift = -1;
  template <class Offsets>
  static HWY_INLINE Scales scales(const std::byte* const* w, const Offsets& offsets, size_t part) {
    return {block_halves(w, offsets, part * kBlocks, 0), zeros(), block_halves(w, offsets, part * kBlocks, 2)};
  }
};
// With a fifth bit for each number, in front of the nibbles.
template <size_t kBlockBytes, size_t kNibbles>
struct FiveBitFormat : NibbleFormat<kBlockBytes, 0, kNibbles> {
  static constexpr bool kPaired = false;
  static constexpr int kShift = 4;
  template <class Offsets>
  static HWY_INLINE void load(const std::byte* w, const Offsets& offsets, size_t part, OctetVector& first,
                              OctetVector& second) {
    HWY_ALIGN static constexpr uint8_t kByteOf[32] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                                      2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
    HWY_ALIGN static constexpr uint8_t kBitOf[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    NibbleFormat<kBlockBytes, 0, kNibbles>::load(w, offsets, part, first, second);
    const Octets d;
    const OctetVector bits =
        load_lanes(w + kNibbles - 4, offsets, part * kBlocks);  // the first four bytes of each lane
    const OctetVector wanted = hn::LoadDup128(d, kBitOf);
    first = hn::Or(first, fifth_bit(hn::TableLookupBytes(bits, hn::LoadDup128(d, kByteOf)), wanted));
    second = hn::Or(second, fifth_bit(hn::TableLookupBytes(bits, hn::LoadDup128(d, kByteOf + 16)), wanted));
  }
};

struct Q4_0Format : NibbleFormat<18, 0, 2> {
  static constexpr int kShift = 3;
};
using Q4_1Format = WithMinima<NibbleFormat<20, 0, 4>>;
using Q5_0Format = FiveBitFormat<22, 6>;
using Q5_1Format = WithMinima<FiveBitFormat<24, 8>>;

struct Q8_0Format : NibbleFormat<34, 0, 2> {
  static constexpr bool kSigned = true, kPaired = false;
  static constexpr size_t kOctets = 2;
  template <class Offsets>
  static HWY_INLINE void load(const std::byte* w, const Offsets& offsets, size_t part, OctetVector& first,
                              OctetVector& second) {
    first = load_lanes(w + 2, offsets, part * kBlocks);
    second = load_lanes(w + 18, offsets, part * kBlocks);
  }
};

// Nibbles that stand for the numbers of a table.
template <class Format, class Table>
struct LookupFormat : Format {
  static HWY_INLINE void take_apart(OctetVector pairs, OctetVector& first, OctetVector& second) {
    const OctetVector table = hn::LoadDup128(Octets(), reinterpret_cast<const uint8_t*>(Table::kNumbers));
    Format::take_apart(pairs, first, second);
    first = hn::TableLookupBytes(table, first);
    second = hn::TableLookupBytes(table, second);
  }
  template <class Offsets>
  static HWY_INLINE void load(const std::byte* w, const Offsets& offsets, size_t part, OctetVector& first,
                              OctetVector& second) {
    take_apart(Format::pairs(w, offsets, part), first, second);
  }
};
struct IQ4NLTable {
  HWY_ALIGN static constexpr int8_t kNumbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};
};
struct IQ4NLFormat : LookupFormat<NibbleFormat<18, 0, 2>, IQ4NLTable> {
  static constexpr bool kSigned = true;
};
struct MXFP4Table {  // twice the numbers of E2M1, and 16
  HWY_ALIGN static constexpr int8_t kNumbers[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
};
struct MXFP4Format : LookupFormat<NibbleFormat<17, 0, 1>, MXFP4Table> {
  static constexpr int kShift = 4;
  static constexpr bool kHalvesFirst = false;
  template <class Offsets>
  static HWY_INLINE Scales scales(const std::byte* const* w, const Offsets& offsets, size_t part) {
    uint32_t rows[4] = {0, 0, 0, 0};
    BALLAST_UNROLL for (size_t block = 0; block < kBlocks; ++block) {
      const size_t at = offsets.of(part * kBlocks + block);
      BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) rows[r] |= static_cast<uint32_t>(w[r][at]) << (8 * block);
    }
    BlockBytes bytes;
    turn_bytes(rows, bytes);
    // 2^(e - 128): exponents 0 and 1 are subnormal.
    const Ints d;
    const IntVector e = bytes.numbers<uint8_t>(0);
    const IntVector tiny = hn::Add(hn::Set(d, 0x00200000), hn::Mul(e, hn::Set(d, 0x00200000)));
    const IntVector usual = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(d, 1)));
    return {hn::BitCast(Floats(), hn::IfThenElse(hn::Lt(e, hn::Set(d, 2)), tiny, usual)), zeros(), zeros()};
  }
};

// ---------------------------------------------------------------- blocks of 256: a stripe is half of one
struct LargeFormat {
  static constexpr size_t kElements = 256;
  static constexpr bool kSigned = false, kSplit = false, kHasMinima = true, kPaired = false, kHalvesFirst = false;
  static constexpr int kShift = -1;
  static constexpr size_t kOctets = 0;
};

// 32 bytes hold two blocks, one in the low and one in the high nibbles.
struct PairOffsets {
  static HWY_INLINE constexpr size_t of(size_t block) { return block / 2 * 32; }
};
HWY_INLINE OctetVector pair_nibbles(const std::byte* at, size_t part) {
  static constexpr int32_t kHigh[4] = {0, -1, 0, -1};
  const OctetVector packed = load_lanes(at, PairOffsets(), part * kBlocks);
  if constexpr (kBlocks == 1) {
    return part % 2 == 0 ? low_nibbles(packed) : high_nibbles(packed);
  } else {
    const auto high = hn::MaskFromVec(hn::BitCast(Octets(), lane_numbers(kHigh, part)));
    return hn::IfThenElse(high, high_nibbles(packed), low_nibbles(packed));
  }
}

// Scales and minima of six bits: of four blocks each, a byte for each.
template <size_t kHalf>
HWY_INLINE uint32_t six_bit_scales(const std::byte* at) {
  if constexpr (kHalf == 0) return load_as<uint32_t>(at) & 0x3F3F3F3F;
  else return (load_as<uint32_t>(at + 8) & 0x0F0F0F0F) | (load_as<uint32_t>(at) >> 2 & 0x30303030);
}
template <size_t kHalf>
HWY_INLINE uint32_t six_bit_minima(const std::byte* at) {
  if constexpr (kHalf == 0) return load_as<uint32_t>(at + 4) & 0x3F3F3F3F;
  else return (load_as<uint32_t>(at + 8) >> 4 & 0x0F0F0F0F) | (load_as<uint32_t>(at + 4) >> 2 & 0x30303030);
}

struct Q4KFormat : LargeFormat {
  static constexpr size_t kBytes = 144, kNibbles = 16;
  template <size_t kHalf>
  static HWY_INLINE void load(const std::byte* w, Half<kHalf>, size_t part, OctetVector& first, OctetVector& second) {
    first = pair_nibbles(w + kNibbles + 64 * kHalf, part);
    second = pair_nibbles(w + kNibbles + 64 * kHalf + 16, part);
  }
  template <size_t kHalf>
  static HWY_INLINE Scales scales(const std::byte* const* w, Half<kHalf>, size_t part) {
    uint32_t rows[4];
    BlockBytes scales, minima;
    BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) rows[r] = six_bit_scales<kHalf>(w[r] + 4);
    turn_bytes(rows, scales);
    BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) rows[r] = six_bit_minima<kHalf>(w[r] + 4);
    turn_bytes(rows, minima);
    return {hn::Mul(shared_halves(w, 0), scales.part<uint8_t>(part)), zeros(),
            hn::Neg(hn::Mul(shared_halves(w, 2), minima.part<uint8_t>(part)))};
  }
};

// A bit of 16 bytes for each block of each half of a block of 256.
template <size_t kHalf>
HWY_INLINE OctetVector block_bits(size_t part) {
  static constexpr int32_t kBits[2][4] = {{0x01010101, 0x02020202, 0x04040404, 0x08080808},
                                          {0x10101010, 0x20202020, 0x40404040, static_cast<int32_t>(0x80808080)}};
  return hn::BitCast(Octets(), lane_numbers(kBits[kHalf], part));
}
HWY_INLINE OctetVector same_bytes(const std::byte* at) {
  return hn::LoadDup128(Octets(), reinterpret_cast<const uint8_t*>(at));
}
// Two bits of 16 bytes for each block.
HWY_INLINE OctetVector bit_pairs(const std::byte* at, size_t part) {
  static constexpr int32_t kPlace[4] = {0, 2, 4, 6};
  const auto moved = hn::Shr(hn::BitCast(Words(), same_bytes(at)), hn::BitCast(Words(), lane_numbers(kPlace, part)));
  return hn::BitCast(Octets(), hn::And(moved, hn::Set(Words(), 0x03030303)));
}

struct Q5KFormat : Q4KFormat {
  static constexpr size_t kBytes = 176, kNibbles = 48;
  template <size_t kHalf>
  static HWY_INLINE void load(const std::byte* w, Half<kHalf>, size_t part, OctetVector& first, OctetVector& second) {
    const OctetVector wanted = block_bits<kHalf>(part);
    first = hn::Or(pair_nibbles(w + kNibbles + 64 * kHalf, part), fifth_bit(same_bytes(w + 16), wanted));
    second = hn::Or(pair_nibbles(w + kNibbles + 64 * kHalf + 16, part), fifth_bit(same_bytes(w + 32), wanted));
  }
};

// Formats in which each half of a block has a scale: eight signed bytes for four blocks, in turns.
struct HalvesFormat : LargeFormat {
  static constexpr bool kSplit = true, kHasMinima = false;

  // Bytes 0, 2, 4 and 6.
  static HWY_INLINE uint32_t every_other(uint64_t bytes) {
    const uint64_t even = bytes & 0x00FF00FF00FF00FF;
    const uint64_t pairs = (even | even >> 8) & 0x0000FFFF0000FFFF;
    return static_cast<uint32_t>(pairs | pairs >> 16);
  }
  // `eight`: of each row; each is multiplied with the row's f16 at `factor`.
  static HWY_INLINE Scales scales_of(const std::byte* const* w, size_t factor, const uint64_t* eight, size_t part) {
    uint32_t rows[2][4];
    BlockBytes scales[2];
    BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) {
      rows[0][r] = every_other(eight[r]);
      rows[1][r] = every_other(eight[r] >> 8);
    }
    BALLAST_UNROLL for (size_t i = 0; i < 2; ++i) turn_bytes(rows[i], scales[i]);
    const Vector d = shared_halves(w, factor);
    return {hn::Mul(d, scales[0].part<int8_t>(part)), hn::Mul(d, scales[1].part<int8_t>(part)), zeros()};
  }
};

// Bits above 32 numbers, two of each of 64 bytes, six-bit scales that are 32 too large.
struct Q3KFormat : HalvesFormat {
  static constexpr size_t kBytes = 110;
  static constexpr int kShift = 2;

  template <size_t kHalf>
  static HWY_INLINE void load(const std::byte* w, Half<kHalf>, size_t part, OctetVector& first, OctetVector& second) {
    const OctetVector wanted = block_bits<kHalf>(part);
    first = hn::Or(bit_pairs(w + 32 + 32 * kHalf, part), value_of_bit(same_bytes(w), wanted, 4));
    second = hn::Or(bit_pairs(w + 48 + 32 * kHalf, part), value_of_bit(same_bytes(w + 16), wanted, 4));
  }
  template <size_t kHalf>
  static HWY_INLINE Scales scales(const std::byte* const* w, Half<kHalf>, size_t part) {
    uint64_t eight[4];
    BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) {
      const uint64_t low = load_as<uint64_t>(w[r] + 96) >> (4 * kHalf) & 0x0F0F0F0F0F0F0F0F;
      const uint32_t upper = load_as<uint32_t>(w[r] + 104) >> (4 * kHalf);
      const uint64_t high = (upper & 0x03030303) | uint64_t{upper >> 2 & 0x03030303} << 32;
      // A byte minus 32, for bytes below 64.
      eight[r] = ((low | high << 4) + 0x6060606060606060) ^ 0x8080808080808080;
    }
    return scales_of(w, 108, eight, part);
  }
};

struct Q6KFormat : HalvesFormat {
  static constexpr size_t kBytes = 210;
  static constexpr int kShift = 5;

  struct Offsets {
    static HWY_INLINE constexpr size_t of(size_t block) { return block % 2 * 32; }
  };
  // 16 numbers of each block; `low` has four bits of each and `high` two bits of one in each block.
  static HWY_INLINE OctetVector numbers(const std::byte* low, const std::byte* high, size_t part) {
    static constexpr int32_t kHighNibble[4] = {0, 0, -1, -1};
    const Octets d;
    const OctetVector packed = load_lanes(low, Offsets(), part * kBlocks);
    const OctetVector upper = hn::BitCast(d, hn::ShiftLeft<4>(hn::BitCast(Words(), bit_pairs(high, part))));
    const auto is_high = hn::MaskFromVec(hn::BitCast(d, lane_numbers(kHighNibble, part)));
    return hn::Or(hn::IfThenElse(is_high, high_nibbles(packed), low_nibbles(packed)), upper);
  }
  template <size_t kHalf>
  static HWY_INLINE void load(const std::byte* w, Half<kHalf>, size_t part, OctetVector& first, OctetVector& second) {
    first = numbers(w + 64 * kHalf, w + 128 + 32 * kHalf, part);
    second = numbers(w + 64 * kHalf + 16, w + 128 + 32 * kHalf + 16, part);
  }
  template <size_t kHalf>
  static HWY_INLINE Scales scales(const std::byte* const* w, Half<kHalf>, size_t part) {
    uint64_t eight[4];
    BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) eight[r] = load_as<uint64_t>(w[r] + 192 + 8 * kHalf);
    return scales_of(w, 208, eight, part);
  }
};

// Nibbles that stand for IQ4_NL's numbers, six-bit scales that are 32 too large, in three places.
struct IQ4XSFormat : LargeFormat {
  static constexpr size_t kBytes = 136;
  static constexpr bool kSigned = true, kHasMinima = false;

  struct Offsets {
    static HWY_INLINE constexpr size_t of(size_t block) { return block * 16; }
  };
  template <size_t kHalf>
  static HWY_INLINE void load(const std::byte* w, Half<kHalf>, size_t part, OctetVector& first, OctetVector& second) {
    const OctetVector table = hn::LoadDup128(Octets(), reinterpret_cast<const uint8_t*>(IQ4NLTable::kNumbers));
    const OctetVector packed = load_lanes(w + 8 + 64 * kHalf, Offsets(), part * kBlocks);
    first = hn::TableLookupBytes(table, low_nibbles(packed));
    second = hn::TableLookupBytes(table, high_nibbles(packed));
  }
  template <size_t kHalf>
  static HWY_INLINE Scales scales(const std::byte* const* w, Half<kHalf>, size_t part) {
    uint32_t rows[4];
    BALLAST_UNROLL for (size_t r = 0; r < 4; ++r) {
      const uint32_t high = load_as<uint16_t>(w[r] + 2) >> (8 * kHalf), low = load_as<uint16_t>(w[r] + 4 + 2 * kHalf);
      uint32_t four = 0;
      BALLAST_UNROLL for (size_t block = 0; block < 4; ++block) {
        four |= ((low >> (4 * block) & 0x0F) | (high >> (2 * block) & 3) << 4) << (8 * block);
      }
      rows[r] = (four + 0x60606060) ^ 0x80808080;  // minus 32
    }
    BlockBytes scales;
    turn_bytes(rows, scales);
    return {hn::Mul(shared_halves(w, 0), scales.part<int8_t>(part)), zeros(), zeros()};
  }
};

// -1, 0 and 1, two bits of each of 64 bytes.
struct TQ2_0Format : LargeFormat {
  static constexpr size_t kBytes = 66;
  static constexpr bool kHasMinima = false;
  static constexpr int kShift = 0;

  template <size_t kHalf>
  static HWY_INLINE void load(const std::byte* w, Half<kHalf>, size_t part, OctetVector& first, OctetVector& second) {
    first = bit_pairs(w + 32 * kHalf, part);
    second = bit_pairs(w + 32 * kHalf + 16, part);
  }
  template <size_t kHalf>
  static HWY_INLINE Scales scales(const std::byte* const* w, Half<kHalf>, size_t) {
    return {shared_halves(w, 64), zeros(), zeros()};
  }
};
