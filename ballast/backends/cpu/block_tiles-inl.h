// Products of weights in blocks by the tiles of AMX: 16 rows of activations with 32 outputs at once. A part of
// block_kernels-inl.h, which includes it in its namespace where tiles may be had; hence no guard.
//
// The sums are those of the stripes, to the bit: exact products of a block, and one multiply-add for each block into
// one of four sums. Instructions are written out, because compilers know them only since lately, and gcc 12 may move
// the stores that a configuration is made of behind its use.

// ---------------------------------------------------------------- instructions
struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0;
  uint8_t reserved[14] = {};
  // Tiles 0 to 3: sums of 16 rows and 16 outputs; 4 and 5: activations; 6 and 7: weights, four bytes of each output in
  // a row.
  uint16_t row_bytes[16] = {64, 64, 64, 64, 32, 32, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 8, 8};
};

struct TileUse {
  HWY_INLINE TileUse() {
    const TileShapes shapes;
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }
  HWY_INLINE ~TileUse() { asm volatile("tilerelease" ::); }
};

struct alignas(64) TileSums {
  int32_t of[4][16][16];  // high and low of the first 16 outputs, then of the others
};

HWY_INLINE void multiply_tile(const RoundedTile& a, const int8_t (*w)[8][64], TileSums& sums) {
  asm volatile(
      "tilezero %%tmm0\n\t"
      "tilezero %%tmm1\n\t"
      "tilezero %%tmm2\n\t"
      "tilezero %%tmm3\n\t"
      "tileloadd (%[high],%[a_row],1), %%tmm4\n\t"
      "tileloadd (%[low],%[a_row],1), %%tmm5\n\t"
      "tileloadd (%[first],%[w_row],1), %%tmm6\n\t"
      "tileloadd (%[second],%[w_row],1), %%tmm7\n\t"
      "tdpbssd %%tmm6, %%tmm4, %%tmm0\n\t"
      "tdpbssd %%tmm6, %%tmm5, %%tmm1\n\t"
      "tdpbssd %%tmm7, %%tmm4, %%tmm2\n\t"
      "tdpbssd %%tmm7, %%tmm5, %%tmm3\n\t"
      "tilestored %%tmm0, (%[s0],%[w_row],1)\n\t"
      "tilestored %%tmm1, (%[s1],%[w_row],1)\n\t"
      "tilestored %%tmm2, (%[s2],%[w_row],1)\n\t"
      "tilestored %%tmm3, (%[s3],%[w_row],1)" ::[high] "r"(a.high),
      [low] "r"(a.low), [first] "r"(w[0]), [second] "r"(w[1]), [s0] "r"(sums.of[0]), [s1] "r"(sums.of[1]),
      [s2] "r"(sums.of[2]), [s3] "r"(sums.of[3]), [a_row] "r"(size_t{32}), [w_row] "r"(size_t{64})
      : "memory");
}

// ---------------------------------------------------------------- weights
constexpr size_t kTileOutputs = 32;
constexpr size_t kChunk = 32;  // blocks of a row that are unpacked at once: they stay in the second-level cache

// One block of 32 outputs. Where halves have scales of their own, each has weights in which the other half is 0.
template <class Format>
struct alignas(64) TileWeights {
  static constexpr size_t kForms = Format::kSplit ? 2 : 1;
  int8_t numbers[kForms][2][8][64];
  float scales[kForms][kTileOutputs];
  float minima[kTileOutputs];
};

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

// A stripe of outputs [16 * outputs, 16 * outputs + 16), whose rows w are.
template <class Format, class Place>
HWY_NOINLINE void unpack_stripe(const std::byte* const* w, const Place& place, size_t outputs,
                                TileWeights<Format>* out) {
  __m512i first[16], second[16];
  for (size_t r = 0; r < 16; ++r) {
    OctetVector a, b;
    Format::load(w[r], place, 0, a, b);
    first[r] = signed_numbers<Format>(a);
    second[r] = signed_numbers<Format>(b);
  }
  turn_words(first);
  turn_words(second);
  store_tile_rows(first, 0, outputs, 0, out);
  if constexpr (Format::kSplit) {
    const __m512i none[16] = {};
    store_tile_rows(none, 0, outputs, 4, out);
    store_tile_rows(none, 1, outputs, 0, out);
    store_tile_rows(second, 1, outputs, 4, out);
  } else {
    store_tile_rows(second, 0, outputs, 4, out);
  }
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
HWY_INLINE void unpack_tiles(const std::byte* const* w, size_t stripe, size_t blocks, TileWeights<Format>* out) {
  for (size_t outputs = 0; outputs < 2; ++outputs) {
    const std::byte* at[16];
    constexpr bool kLarge = Format::kElements == 256;
    const size_t offset = kLarge ? stripe / 2 * Format::kBytes : stripe * 4 * Format::kBytes;
    for (size_t r = 0; r < 16; ++r) at[r] = w[outputs * 16 + r] + offset;
    if constexpr (kLarge) {
      if (stripe % 2 == 0) unpack_stripe(at, Half<0>(), outputs, out);
      else unpack_stripe(at, Half<1>(), outputs, out);
    } else if (stripe * 4 + 4 <= blocks) {
      unpack_stripe(at, Whole<Format::kBytes>(), outputs, out);
    } else {
      unpack_stripe(at, Rest<Format::kBytes>{blocks % 4 - 1}, outputs, out);
    }
  }
}

// ---------------------------------------------------------------- products
// The four sums of 16 rows and 32 outputs.
struct alignas(64) GroupSums {
  float of[4][16][kTileOutputs];
};

template <class Format>
HWY_INLINE void add_tile_sums(const TileSums& exact, const RoundedTile& a, const TileWeights<Format>& w, size_t form,
                              float (*sums)[kTileOutputs]) {
  const Floats d;
  const Ints ints;
  BALLAST_UNROLL for (size_t half = 0; half < 2; ++half) {
    const Vector scales = hn::Load(d, w.scales[form] + 16 * half);
    [[maybe_unused]] Vector minima = zeros();
    if constexpr (Format::kHasMinima) minima = hn::Load(d, w.minima + 16 * half);
    BALLAST_UNROLL for (size_t row = 0; row < 16; ++row) {
      const auto high = hn::ShiftLeft<7>(hn::Load(ints, exact.of[2 * half][row]));
      const auto total = hn::ConvertTo(d, hn::Add(high, hn::Load(ints, exact.of[2 * half + 1][row])));
      Vector sum = hn::Load(d, sums[row] + 16 * half);
      sum = hn::MulAdd(hn::Mul(scales, splat(a.scales[row])), total, sum);
      if constexpr (Format::kHasMinima) sum = hn::MulAdd(minima, splat(a.scaled_sums[row]), sum);
      hn::Store(sum, d, sums[row] + 16 * half);
    }
  }
}

template <class Format>
HWY_NOINLINE void add_chunk(const RoundedTile* a, const TileWeights<Format>* w, size_t blocks, GroupSums& sums) {
  TileSums exact;
  for (size_t block = 0; block < blocks; ++block) {
    for (size_t form = 0; form < TileWeights<Format>::kForms; ++form) {
      multiply_tile(a[block], w[block].numbers[form], exact);
      add_tile_sums(exact, a[block], w[block], form, sums.of[block % 4]);
    }
  }
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

// Groups of 16 rows that go through the weight together.
constexpr size_t kMostGroups = 16;

// Outputs [j, j + 32), fewer at the end, of groups [group, group + groups).
template <class Format>
HWY_NOINLINE void multiply_panel_of_tiles(const BlockProduct& p, size_t group, size_t groups, size_t j) {
  HWY_ALIGN TileWeights<Format> weights[kChunk];
  HWY_ALIGN GroupSums sums[kMostGroups];
  std::memset(sums, 0, groups * sizeof(sums[0]));
  const std::byte* w[kTileOutputs];
  for (size_t r = 0; r < kTileOutputs; ++r) w[r] = p.w + smaller(j + r, p.end - 1) * p.row_bytes;
  const size_t across = tile_blocks_of(p.k);
  const auto* a = static_cast<const RoundedTile*>(p.a) + group * across;
  for (size_t begin = 0; begin < across; begin += kChunk) {
    const size_t blocks = smaller(kChunk, across - begin);
    for (size_t block = 0; block < blocks; block += 4) {
      unpack_tiles(w, (begin + block) / 4, p.k / 32, weights + block);
    }
    for (size_t i = 0; i < groups; ++i) add_chunk(a + i * across + begin, weights, blocks, sums[i]);
  }
  for (size_t i = 0; i < groups; ++i) {
    const size_t row = (group + i) * 16;
    store_group(sums[i], smaller(16, p.m - row), smaller(kTileOutputs, p.end - j), p.c + row * p.c_stride + j,
                p.c_stride);
  }
}

template <class Format>
void multiply_tiles(const BlockProduct& p) {
  const TileUse use;
  const size_t groups = divide_up(p.m, 16);
  for (size_t group = 0; group < groups; group += kMostGroups) {
    for (size_t j = p.begin; j < p.end; j += kTileOutputs) {
      multiply_panel_of_tiles<Format>(p, group, smaller(kMostGroups, groups - group), j);
    }
  }
}
