// Products of weights in blocks by the tiles of AMX: up to 16 rows of activations with 32 outputs at once. A part of
// block_kernels-inl.h, which includes it in its namespace where tiles may be had; hence no guard.
//
// The sums are those of the stripes, to the bit: exact products of a block, and one multiply-add for each block into
// one of four sums. Instructions are written out, because compilers know them only since lately, and gcc 12 may move
// the stores that a configuration is made of behind its use.

// ---------------------------------------------------------------- instructions
// Tiles 0 and 1: sums of rows and 16 outputs; 2 and 3: activations; 4: weights, four bytes of each output in a row. An
// instruction takes as long as there are rows of activations, so there are no more than are needed.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 32, 32, 64};
  uint8_t rows[16] = {};

  HWY_INLINE explicit TileShapes(size_t activations) {
    for (size_t tile = 0; tile < 4; ++tile) rows[tile] = static_cast<uint8_t>(activations);
    rows[4] = 8;
  }
};

struct TileUse {
  HWY_INLINE explicit TileUse(size_t rows) {
    const TileShapes shapes(rows);
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }
  HWY_INLINE ~TileUse() { asm volatile("tilerelease" ::); }
};

struct alignas(64) TileSums {
  int32_t high[16][16], low[16][16];  // of up to 16 rows and 16 outputs
};

HWY_INLINE void multiply_tile(const RoundedTile& a, const int8_t (*w)[64], TileSums& sums) {
  asm volatile(
      "tilezero %%tmm0\n\t"
      "tilezero %%tmm1\n\t"
      "tileloadd (%[high],%[a_row],1), %%tmm2\n\t"
      "tileloadd (%[low],%[a_row],1), %%tmm3\n\t"
      "tileloadd (%[weights],%[w_row],1), %%tmm4\n\t"
      "tdpbssd %%tmm4, %%tmm2, %%tmm0\n\t"
      "tdpbssd %%tmm4, %%tmm3, %%tmm1\n\t"
      "tilestored %%tmm0, (%[high_sums],%[w_row],1)\n\t"
      "tilestored %%tmm1, (%[low_sums],%[w_row],1)" ::[high] "r"(a.high),
      [low] "r"(a.low), [weights] "r"(w), [high_sums] "r"(sums.high), [low_sums] "r"(sums.low), [a_row] "r"(size_t{32}),
      [w_row] "r"(size_t{64})
      : "memory");
}

// ---------------------------------------------------------------- weights
constexpr size_t kTileOutputs = 32;
// Blocks of a row that are unpacked at once: they stay in the second-level cache. Fewer would fit into the first, but
// then sums travel to and from memory more often, which costs more.
constexpr size_t kChunk = 32;

// One block of 32 outputs. Where halves have scales of their own, each has weights in which the other half is 0.
template <size_t kForms>
struct alignas(64) BlockOfTiles {
  int8_t numbers[kForms][2][8][64];
  float scales[kForms][kTileOutputs];
  float minima[kTileOutputs];
};
template <class Format>
using TileWeights = BlockOfTiles<Format::kSplit ? 2 : 1>;

// Lane i of vector j becomes lane j of vector i.
HWY_INLINE void turn_words(__m512i* v) {
  __m512i t[16];
  BALLAST_UNROLL for (size_t i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  BALLAST_UNROLL for (size_t i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  BALLAST_UNROLL for (size_t i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x44), b = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xEE);
    const __m512i c = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x44);
    const __m512i d = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xEE);
    t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(a, c, 0xDD);
    t[8 + i] = _mm512_shuffle_i32x4(b, d, 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(b, d, 0xDD);
  }
  BALLAST_UNROLL for (size_t i = 0; i < 16; ++i) v[i] = t[i];
}

template <class Format>
HWY_INLINE __m512i signed_numbers(OctetVector v) {
  if constexpr (!Format::kSigned && Format::kShift >= 0) v = hn::Sub(v, splat_octet(1 << Format::kShift));
  return v.raw;
}

// The rows of four tiles, four of each, which have 16 numbers of each of the 16 outputs.
template <class Format>
HWY_INLINE void store_tile_rows(const __m512i* v, size_t form, size_t outputs, size_t row, TileWeights<Format>* out) {
  BALLAST_UNROLL for (size_t i = 0; i < 16; ++i) {
    _mm512_store_si512(out[i / 4].numbers[form][outputs][row + i % 4], v[i]);
  }
}

template <class Format>
HWY_INLINE void store_tile_scales(const Vector& v, float* first_of_block) {
  constexpr size_t kDistance = sizeof(TileWeights<Format>) / sizeof(float);
  HWY_ALIGN float lanes[16];
  hn::Store(v, Floats(), lanes);
  for (size_t block = 0; block < 4; ++block) {
    std::memcpy(first_of_block + block * kDistance, lanes + 4 * block, 4 * sizeof(float));
  }
}

// What four blocks of 16 outputs have in common bytes changes places once, before it is taken apart.
template <class Format, class Place>
HWY_INLINE void unpack_pairs(const std::byte* const* w, const Place& place, size_t outputs, TileWeights<Format>* out) {
  __m512i pairs[16];
  for (size_t r = 0; r < 16; ++r) pairs[r] = Format::pairs(w[r], place, 0).raw;
  turn_words(pairs);
  BALLAST_UNROLL for (size_t i = 0; i < 16; ++i) {
    OctetVector first, second;
    Format::take_apart(OctetVector{pairs[i]}, first, second);
    int8_t(*rows)[64] = out[i / 4].numbers[0][outputs];
    _mm512_store_si512(rows[i % 4], signed_numbers<Format>(first));
    _mm512_store_si512(rows[4 + i % 4], signed_numbers<Format>(second));
  }
}

template <class Format, class Place>
HWY_INLINE void unpack_halves(const std::byte* const* w, const Place& place, size_t outputs, TileWeights<Format>* out) {
  __m512i first[16], second[16];
  for (size_t r = 0; r < 16; ++r) {
    OctetVector a, b;
    Format::load(w[r], place, 0, a, b);
    first[r] = signed_numbers<Format>(a);
    second[r] = signed_numbers<Format>(b);
  }
  turn_words(first);
  turn_words(second);
  store_tile_rows<Format>(first, 0, outputs, 0, out);
  if constexpr (Format::kSplit) {
    const __m512i none[16] = {};
    store_tile_rows<Format>(none, 0, outputs, 4, out);
    store_tile_rows<Format>(none, 1, outputs, 0, out);
    store_tile_rows<Format>(second, 1, outputs, 4, out);
  } else {
    store_tile_rows<Format>(second, 0, outputs, 4, out);
  }
}

// A stripe of outputs [16 * outputs, 16 * outputs + 16), whose rows w are. What lies `ahead` of it is fetched.
template <class Format, class Place>
HWY_NOINLINE void unpack_stripe(const std::byte* const* w, const Place& place, size_t outputs, size_t ahead,
                                TileWeights<Format>* out) {
  constexpr size_t kCacheLine = 64, kStripeBytes = Format::kBytes * kStripe / Format::kElements;
  for (size_t r = 0; r < 16; ++r) {
    for (size_t at = 0; at < kStripeBytes; at += kCacheLine) __builtin_prefetch(w[r] + ahead + at, 0, 2);
  }
  if constexpr (Format::kPaired) unpack_pairs<Format>(w, place, outputs, out);
  else unpack_halves<Format>(w, place, outputs, out);
  for (size_t r = 0; r < 16; r += 4) {
    const Scales scales = Format::scales(w + r, place, 0);
    const size_t at = outputs * 16 + r;
    store_tile_scales<Format>(scales.of[0], out->scales[0] + at);
    if constexpr (Format::kSplit) store_tile_scales<Format>(scales.of[1], out->scales[1] + at);
    if constexpr (Format::kHasMinima) store_tile_scales<Format>(scales.minima, out->minima + at);
  }
}

// Stripe `stripe` of 32 rows of the weight that begin at w.
template <class Format>
HWY_INLINE void unpack_tiles(const std::byte* const* w, size_t stripe, size_t blocks, size_t ahead,
                             TileWeights<Format>* out) {
  for (size_t outputs = 0; outputs < 2; ++outputs) {
    const std::byte* at[16];
    constexpr bool kLarge = Format::kElements == 256;
    const size_t offset = kLarge ? stripe / 2 * Format::kBytes : stripe * 4 * Format::kBytes;
    for (size_t r = 0; r < 16; ++r) at[r] = w[outputs * 16 + r] + offset;
    if constexpr (kLarge) {
      if (stripe % 2 == 0) unpack_stripe<Format>(at, Half<0>(), outputs, ahead, out);
      else unpack_stripe<Format>(at, Half<1>(), outputs, ahead + Format::kBytes / 2, out);
    } else if (stripe * 4 + 4 <= blocks) {
      unpack_stripe<Format>(at, Whole<Format::kBytes>(), outputs, ahead, out);
    } else {
      unpack_stripe<Format>(at, Rest<Format::kBytes>{blocks % 4 - 1}, outputs, ahead, out);
    }
  }
}

// ---------------------------------------------------------------- products
// The four sums (chains) of up to 16 rows and 32 outputs.
struct alignas(64) GroupSums {
  float of[4][16][kTileOutputs];
};

// Adds the products of one block to the sums of kRows rows and 16 outputs, which stay in registers.
template <size_t kRows, bool kHasMinima>
HWY_INLINE void add_tile_sums(const TileSums& exact, const RoundedTile& a, const float* scales, const float* minima,
                              Vector* sums) {
  const Floats d;
  const Ints ints;
  const Vector scale = hn::Load(d, scales);
  [[maybe_unused]] Vector minimum = zeros();
  if constexpr (kHasMinima) minimum = hn::Load(d, minima);
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
    const auto total = hn::Add(hn::ShiftLeft<7>(hn::Load(ints, exact.high[row])), hn::Load(ints, exact.low[row]));
    sums[row] = hn::MulAdd(hn::Mul(scale, splat(a.scales[row])), hn::ConvertTo(d, total), sums[row]);
    if constexpr (kHasMinima) sums[row] = hn::MulAdd(minimum, splat(a.scaled_sums[row]), sums[row]);
  }
}

// Blocks `chain`, chain + 4 ..., of outputs [16 * half, 16 * half + 16). Tiles multiply the next block while vectors
// add this one: the way of a product through a tile and memory is long.
template <size_t kRows, size_t kForms, bool kHasMinima>
HWY_INLINE void add_chain(const RoundedTile* a, const BlockOfTiles<kForms>* w, size_t blocks, size_t chain, size_t half,
                          GroupSums& sums) {
  const Floats d;
  TileSums exact[2];
  Vector of[kRows];
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) of[row] = hn::Load(d, sums.of[chain][row] + 16 * half);
  const size_t steps = blocks / 4 * kForms;
  const auto multiply = [&](size_t step) HWY_ATTR {
    const size_t block = chain + step / kForms * 4;
    multiply_tile(a[block], w[block].numbers[step % kForms][half], exact[step % 2]);
  };
  multiply(0);
  for (size_t step = 0; step < steps; ++step) {
    if (step + 1 < steps) multiply(step + 1);
    const size_t block = chain + step / kForms * 4;
    add_tile_sums<kRows, kHasMinima>(exact[step % 2], a[block], w[block].scales[step % kForms] + 16 * half,
                                     w[block].minima + 16 * half, of);
  }
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) hn::Store(of[row], d, sums.of[chain][row] + 16 * half);
}

// Chain by chain, so that sums need not be stored after each block.
template <size_t kRows, size_t kForms, bool kHasMinima>
HWY_NOINLINE void add_chunk(const RoundedTile* a, const BlockOfTiles<kForms>* w, size_t blocks, GroupSums& sums) {
  for (size_t chain = 0; chain < 4; ++chain) {
    for (size_t half = 0; half < 2; ++half) {
      add_chain<kRows, kForms, kHasMinima>(a, w, blocks, chain, half, sums);
    }
  }
}

template <class Format>
using AddChunk = void (*)(const RoundedTile*, const TileWeights<Format>*, size_t, GroupSums&);
template <class Format>
AddChunk<Format> chunk_adder(size_t rows) {
  constexpr size_t kForms = Format::kSplit ? 2 : 1;
  return rows <= 12 ? add_chunk<12, kForms, Format::kHasMinima> : add_chunk<16, kForms, Format::kHasMinima>;
}

HWY_INLINE void store_group(const GroupSums& sums, size_t rows, size_t columns, float* c, size_t stride) {
  const Floats d;
  for (size_t row = 0; row < rows; ++row) {
    HWY_ALIGN float outputs[kTileOutputs];
    BALLAST_UNROLL for (size_t at = 0; at < kTileOutputs; at += 16) {
      hn::Store(hn::Add(hn::Add(hn::Load(d, sums.of[0][row] + at), hn::Load(d, sums.of[1][row] + at)),
                        hn::Add(hn::Load(d, sums.of[2][row] + at), hn::Load(d, sums.of[3][row] + at))),
                d, outputs + at);
    }
    std::memcpy(c + row * stride, outputs, columns * sizeof(float));
  }
}

// Groups of rows that go through the weight together.
constexpr size_t kMostGroups = 16;

// Outputs [j, j + 32), fewer at the end, of groups [group, group + groups).
template <class Format>
HWY_NOINLINE void multiply_panel_of_tiles(const BlockProduct& p, size_t group, size_t groups, size_t j) {
  HWY_ALIGN TileWeights<Format> weights[kChunk];
  HWY_ALIGN GroupSums sums[kMostGroups];
  std::memset(sums, 0, groups * sizeof(sums[0]));
  const std::byte* w[kTileOutputs];
  for (size_t r = 0; r < kTileOutputs; ++r) w[r] = p.w + smaller(j + r, p.end - 1) * p.row_bytes;
  const size_t across = tile_blocks_of(p.k), group_rows = tile_rows_of(p.m);
  const AddChunk<Format> add = chunk_adder<Format>(group_rows);
  const auto* a = static_cast<const RoundedTile*>(p.a) + group * across;
  for (size_t begin = 0; begin < across; begin += kChunk) {
    const size_t blocks = smaller(kChunk, across - begin);
    for (size_t block = 0; block < blocks; block += 4) {
      unpack_tiles<Format>(w, (begin + block) / 4, p.k / 32, kTileOutputs * p.row_bytes, weights + block);
    }
    for (size_t i = 0; i < groups; ++i) add(a + i * across + begin, weights, blocks, sums[i]);
  }
  for (size_t i = 0; i < groups; ++i) {
    const size_t row = (group + i) * group_rows;
    store_group(sums[i], smaller(group_rows, p.m - row), smaller(kTileOutputs, p.end - j), p.c + row * p.c_stride + j,
                p.c_stride);
  }
}

template <class Format>
void multiply_tiles(const BlockProduct& p) {
  const size_t rows = tile_rows_of(p.m), groups = divide_up(p.m, rows);
  const TileUse use(rows);
  for (size_t group = 0; group < groups; group += kMostGroups) {
    for (size_t j = p.begin; j < p.end; j += kTileOutputs) {
      multiply_panel_of_tiles<Format>(p, group, smaller(kMostGroups, groups - group), j);
    }
  }
}
