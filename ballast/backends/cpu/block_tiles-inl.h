// Products of weights in blocks by the tiles of AMX: up to 16 rows of activations with 32 outputs at once. A part of
// block_kernels-inl.h, which includes it in its namespace where tiles may be had; hence no guard.
//
// The sums are those of the stripes, to the bit: exact products of a block, and one multiply-add for each block into
// one of four sums. Instructions are written out for the reasons of tile_use.h.

// ---------------------------------------------------------------- instructions
// Tiles 0 and 1, and 2 and 3: sums of rows and 16 outputs; 4 and 5: activations; 6 and 7: weights, four bytes of each
// output in a row. An instruction takes as long as there are rows of activations, so there are no more than are needed.
HWY_INLINE TileShapes shapes_for(size_t activations) {
  TileShapes shapes{.row_bytes = {64, 64, 64, 64, 32, 32, 64, 64}};
  for (size_t tile = 0; tile < 6; ++tile) shapes.rows[tile] = static_cast<uint8_t>(activations);
  shapes.rows[6] = shapes.rows[7] = 8;
  return shapes;
}

struct alignas(64) TileSums {
  int32_t high[16][16], low[16][16];  // of up to 16 rows and 16 outputs
};

// One block of 16 outputs.
using TileNumbers = int8_t[8][64];

// Products are on their way in one of two sets of tiles while those of the other are stored. What memory they read and
// write is said piece by piece, or everything that stays in registers would go to memory before each of them.
#define BALLAST_START_TILES(high_tile, low_tile, weight_tile)                                                     \
  asm volatile(                                                                                                   \
      "tilezero %%tmm" high_tile "\n\ttilezero %%tmm" low_tile                                                    \
      "\n\ttileloadd (%[high],%[a_row],1), %%tmm4"                                                                \
      "\n\ttileloadd (%[low],%[a_row],1), %%tmm5"                                                                 \
      "\n\ttileloadd (%[weights],%[w_row],1), %%tmm" weight_tile "\n\ttdpbssd %%tmm" weight_tile                  \
      ", %%tmm4, %%tmm" high_tile "\n\ttdpbssd %%tmm" weight_tile ", %%tmm5, %%tmm" low_tile                      \
      :                                                                                                           \
      : [high] "r"(a.high), [low] "r"(a.low), [weights] "r"(w), [a_row] "r"(size_t{32}), [w_row] "r"(size_t{64}), \
        "m"(a), "m"(w))
#define BALLAST_STORE_TILES(high_tile, low_tile)                     \
  asm volatile("tilestored %%tmm" high_tile                          \
               ", (%[high],%[row],1)"                                \
               "\n\ttilestored %%tmm" low_tile ", (%[low],%[row],1)" \
               : "=m"(sums)                                          \
               : [high] "r"(sums.high), [low] "r"(sums.low), [row] "r"(size_t{64}))

template <size_t kSet>
HWY_INLINE void start_tiles(const RoundedTile& a, const TileNumbers& w) {
  if constexpr (kSet == 0) BALLAST_START_TILES("0", "1", "6");
  else BALLAST_START_TILES("2", "3", "7");
}
template <size_t kSet>
HWY_INLINE void store_tiles(TileSums& sums) {
  if constexpr (kSet == 0) BALLAST_STORE_TILES("0", "1");
  else BALLAST_STORE_TILES("2", "3");
}
#undef BALLAST_START_TILES
#undef BALLAST_STORE_TILES

// ---------------------------------------------------------------- weights
constexpr size_t kTileOutputs = 32;
// Blocks of a row that are unpacked at once: they stay in the second-level cache. Fewer would fit into the first, but
// then sums travel to and from memory more often, which costs more.
constexpr size_t kChunk = 32;

// One block of 32 outputs. Where halves have scales of their own, each has weights in which the other half is 0.
template <size_t kForms>
struct alignas(64) BlockOfTiles {
  TileNumbers numbers[kForms][2];
  float scales[kForms][kTileOutputs];
  float minima[kTileOutputs];
};
template <class Format>
using TileWeights = BlockOfTiles<Format::kSplit ? 2 : 1>;

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

// 16 bytes of rows 0, 4, 8 and 12, a row in each lane.
HWY_INLINE __m512i load_rows(const std::byte* const* w, size_t at) {
  const auto row = [&](size_t r) HWY_ATTR { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(w[r] + at)); };
  __m512i v = _mm512_castsi128_si512(row(0));
  v = _mm512_mask_broadcast_i32x4(v, 0x00F0, row(4));
  v = _mm512_mask_broadcast_i32x4(v, 0x0F00, row(8));
  return _mm512_mask_broadcast_i32x4(v, 0xF000, row(12));
}

// Vector i gets word i of the 16 bytes that 16 rows have at the same place.
HWY_INLINE void load_words(const std::byte* const* w, size_t at, __m512i* v) {
  const __m512i r0 = load_rows(w, at), r1 = load_rows(w + 1, at), r2 = load_rows(w + 2, at), r3 = load_rows(w + 3, at);
  const __m512i low01 = _mm512_unpacklo_epi32(r0, r1), low23 = _mm512_unpacklo_epi32(r2, r3);
  const __m512i high01 = _mm512_unpackhi_epi32(r0, r1), high23 = _mm512_unpackhi_epi32(r2, r3);
  v[0] = _mm512_unpacklo_epi64(low01, low23);
  v[1] = _mm512_unpackhi_epi64(low01, low23);
  v[2] = _mm512_unpacklo_epi64(high01, high23);
  v[3] = _mm512_unpackhi_epi64(high01, high23);
}

// Bytes change places before they are taken apart.
template <class Format, class Place>
HWY_INLINE void unpack_pairs(const std::byte* const* w, const Place& place, size_t outputs, TileWeights<Format>* out) {
  BALLAST_UNROLL for (size_t block = 0; block < 4; ++block) {
    int8_t(*rows)[64] = out[block].numbers[0][outputs];
    __m512i pairs[4];
    load_words(w, place.of(block) + Format::kPairs, pairs);
    BALLAST_UNROLL for (size_t i = 0; i < 4; ++i) {
      OctetVector first, second;
      Format::take_apart(OctetVector{pairs[i]}, first, second);
      _mm512_store_si512(rows[i], signed_numbers<Format>(first));
      _mm512_store_si512(rows[4 + i], signed_numbers<Format>(second));
    }
  }
}

// Numbers that are bytes already.
template <class Format, class Place>
HWY_INLINE void unpack_octets(const std::byte* const* w, const Place& place, size_t outputs, TileWeights<Format>* out) {
  BALLAST_UNROLL for (size_t block = 0; block < 4; ++block) {
    BALLAST_UNROLL for (size_t half = 0; half < 2; ++half) {
      __m512i words[4];
      load_words(w, place.of(block) + Format::kOctets + 16 * half, words);
      BALLAST_UNROLL for (size_t i = 0; i < 4; ++i) {
        _mm512_store_si512(out[block].numbers[0][outputs][4 * half + i], words[i]);
      }
    }
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

// Of blocks that begin with an f16, or two.
template <class Format, class Place>
HWY_INLINE void unpack_half_scales(const std::byte* const* w, const Place& place, size_t outputs,
                                   TileWeights<Format>* out) {
  const __m512i first = _mm512_set1_epi64(reinterpret_cast<intptr_t>(w[0]));
  const __m512i upper = _mm512_sub_epi64(_mm512_loadu_si512(w), first);
  const __m512i lower = _mm512_sub_epi64(_mm512_loadu_si512(w + 8), first);
  BALLAST_UNROLL for (size_t block = 0; block < 4; ++block) {
    const std::byte* const at = w[0] + place.of(block);
    const __m512i words = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_i64gather_epi32(upper, at, 1)),
                                             _mm512_i64gather_epi32(lower, at, 1), 1);
    _mm512_store_ps(out[block].scales[0] + 16 * outputs, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)));
    if constexpr (Format::kHasMinima) {
      _mm512_store_ps(out[block].minima + 16 * outputs,
                      _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(words, 16))));
    }
  }
}

template <class Format, class Place>
HWY_INLINE void unpack_scales(const std::byte* const* w, const Place& place, size_t outputs, TileWeights<Format>* out) {
  for (size_t r = 0; r < 16; r += 4) {
    const Scales scales = Format::scales(w + r, place, 0);
    const size_t at = outputs * 16 + r;
    store_tile_scales<Format>(scales.of[0], out->scales[0] + at);
    if constexpr (Format::kSplit) store_tile_scales<Format>(scales.of[1], out->scales[1] + at);
    if constexpr (Format::kHasMinima) store_tile_scales<Format>(scales.minima, out->minima + at);
  }
}

// A stripe of outputs [16 * outputs, 16 * outputs + 16), whose rows w are.
template <class Format, class Place>
HWY_NOINLINE void unpack_stripe(const std::byte* const* w, const Place& place, size_t outputs,
                                TileWeights<Format>* out) {
  if constexpr (Format::kPaired) unpack_pairs<Format>(w, place, outputs, out);
  else if constexpr (Format::kOctets != 0) unpack_octets<Format>(w, place, outputs, out);
  else unpack_halves<Format>(w, place, outputs, out);
  if constexpr (Format::kHalvesFirst) unpack_half_scales<Format>(w, place, outputs, out);
  else unpack_scales<Format>(w, place, outputs, out);
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
      if (stripe % 2 == 0) unpack_stripe<Format>(at, Half<0>(), outputs, out);
      else unpack_stripe<Format>(at, Half<1>(), outputs, out);
    } else if (stripe * 4 + 4 <= blocks) {
      unpack_stripe<Format>(at, Whole<Format::kBytes>(), outputs, out);
    } else {
      unpack_stripe<Format>(at, Rest<Format::kBytes>{blocks % 4 - 1}, outputs, out);
    }
  }
}

// Weights that are unpacked next, fetched line by line while products are computed: asked for all at once, they would
// keep everybody waiting, and memory would rest afterwards.
class Fetch {
 public:
  HWY_INLINE Fetch(const std::byte* const* rows, size_t offset, size_t bytes)
      : row_(rows), end_(rows + kTileOutputs), offset_(offset), behind_(offset + bytes), at_(offset) {}

  HWY_INLINE void few() {
    constexpr size_t kFew = 12;
    for (size_t i = 0; i < kFew && row_ != end_; ++i) {
      __builtin_prefetch(*row_ + at_, 0, 2);
      at_ += kCacheLine;
      if (at_ >= behind_) {
        at_ = offset_;
        ++row_;
      }
    }
  }

 private:
  const std::byte* const* row_;
  const std::byte* const* end_;
  size_t offset_, behind_, at_;
};

// ---------------------------------------------------------------- products
using GroupSums = ChainSums<kTileOutputs>;

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

// Blocks `chain`, chain + 4 ..., of outputs [16 * half, 16 * half + 16). The way of a product through a tile and memory
// is long: while vectors add one block, the next is stored and the one after that multiplied.
template <size_t kRows, size_t kForms, bool kHasMinima>
HWY_INLINE void add_chain(const RoundedTile* a, const BlockOfTiles<kForms>* w, size_t blocks, size_t chain, size_t half,
                          bool is_first, Fetch& fetch, GroupSums& sums) {
  const Floats d;
  TileSums exact[2];
  Vector of[kRows];
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
    of[row] = is_first ? zeros() : hn::Load(d, sums.of[chain][row] + 16 * half);
  }
  const size_t steps = blocks / 4 * kForms;
  a += chain;
  w += chain;
  const auto block_of = [](size_t step) HWY_ATTR { return step / kForms * 4; };
  const auto weights = [&](size_t step)
                           HWY_ATTR -> const TileNumbers& { return w[block_of(step)].numbers[step % kForms][half]; };
  const auto scales = [&](size_t step) HWY_ATTR { return w[block_of(step)].scales[step % kForms] + 16 * half; };
  const auto minima = [&](size_t step) HWY_ATTR { return w[block_of(step)].minima + 16 * half; };
  start_tiles<0>(a[0], weights(0));
  for (size_t step = 0; step < steps; step += 2) {
    fetch.few();
    if (step + 1 < steps) start_tiles<1>(a[block_of(step + 1)], weights(step + 1));
    store_tiles<0>(exact[0]);
    if (step != 0) {
      add_tile_sums<kRows, kHasMinima>(exact[1], a[block_of(step - 1)], scales(step - 1), minima(step - 1), of);
    }
    if (step + 2 < steps) start_tiles<0>(a[block_of(step + 2)], weights(step + 2));
    if (step + 1 < steps) store_tiles<1>(exact[1]);
    add_tile_sums<kRows, kHasMinima>(exact[0], a[block_of(step)], scales(step), minima(step), of);
  }
  if (steps % 2 == 0) {
    add_tile_sums<kRows, kHasMinima>(exact[1], a[block_of(steps - 1)], scales(steps - 1), minima(steps - 1), of);
  }
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) hn::Store(of[row], d, sums.of[chain][row] + 16 * half);
}

// Chain by chain, so that sums need not be stored after each block.
template <size_t kRows, size_t kForms, bool kHasMinima>
HWY_NOINLINE void add_chunk(const RoundedTile* a, const BlockOfTiles<kForms>* w, size_t blocks, bool is_first,
                            Fetch& fetch, GroupSums& sums) {
  for (size_t chain = 0; chain < 4; ++chain) {
    for (size_t half = 0; half < 2; ++half) {
      add_chain<kRows, kForms, kHasMinima>(a, w, blocks, chain, half, is_first, fetch, sums);
    }
  }
}

template <class Format>
using AddChunk = void (*)(const RoundedTile*, const TileWeights<Format>*, size_t, bool, Fetch&, GroupSums&);
template <class Format>
AddChunk<Format> chunk_adder(size_t rows) {
  constexpr size_t kForms = Format::kSplit ? 2 : 1;
  return rows <= 12 ? add_chunk<12, kForms, Format::kHasMinima> : add_chunk<16, kForms, Format::kHasMinima>;
}

// Groups of rows that go through the weight together.
constexpr size_t kMostGroups = 16;

// Outputs [j, j + 32), fewer at the end, of groups [group, group + groups).
template <class Format>
HWY_NOINLINE void multiply_panel_of_tiles(const BlockProduct& p, size_t group, size_t groups, size_t j) {
  HWY_ALIGN TileWeights<Format> weights[kChunk];
  HWY_ALIGN GroupSums sums[kMostGroups];
  const std::byte* w[kTileOutputs];
  for (size_t r = 0; r < kTileOutputs; ++r) w[r] = p.w + smaller(j + r, p.end - 1) * p.row_bytes;
  const size_t across = tile_blocks_of(p.k), group_rows = tile_rows_of(p.m);
  const AddChunk<Format> add = chunk_adder<Format>(group_rows);
  const auto* a = static_cast<const RoundedTile*>(p.a) + group * across;
  for (size_t begin = 0; begin < across; begin += kChunk) {
    const size_t blocks = smaller(kChunk, across - begin);
    for (size_t block = 0; block < blocks; block += 4) {
      unpack_tiles<Format>(w, (begin + block) / 4, p.k / 32, weights + block);
    }
    const bool is_last = begin + blocks == across;
    // After the last chunk comes the first of the next outputs.
    Fetch next(w, is_last ? kTileOutputs * p.row_bytes : (begin + blocks) * 32 / Format::kElements * Format::kBytes,
               kChunk * 32 / Format::kElements * Format::kBytes);
    for (size_t i = 0; i < groups; ++i) add(a + i * across + begin, weights, blocks, begin == 0, next, sums[i]);
  }
  for (size_t i = 0; i < groups; ++i) {
    const size_t row = (group + i) * group_rows;
    store_chains(sums[i], smaller(group_rows, p.m - row), p.end - j, p.c + row * p.c_stride + j, p.c_stride,
                 [](size_t, Vector sum) HWY_ATTR { return sum; });
  }
}

template <class Format>
void multiply_tiles(const BlockProduct& p) {
  const size_t rows = tile_rows_of(p.m), groups = tile_groups_of(p.m);
  const TileUse use(shapes_for(rows));
  for (size_t group = 0; group < groups; group += kMostGroups) {
    for (size_t j = p.begin; j < p.end; j += kTileOutputs) {
      multiply_panel_of_tiles<Format>(p, group, smaller(kMostGroups, groups - group), j);
    }
  }
}
