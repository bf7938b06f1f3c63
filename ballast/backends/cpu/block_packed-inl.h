// Products with weights in blocks that were packed (block_kernels.h says how). A part of block_kernels-inl.h, which
// includes it in its namespace where vectors of 16 outputs multiply four bytes at once; hence no guard.
//
// A lane is an output, so that nothing is summed across lanes; sums and products are those of the stripes, to the bit.

// ---------------------------------------------------------------- layout
template <class Format>
constexpr size_t kPackedNumbers = Format::kPaired ? 256 : 512;
template <class Format>
constexpr size_t kPackedBlock = kPackedNumbers<Format> + (Format::kHasMinima ? 64 : 32);

// Of a row of so many blocks: those of a chain, and those of the chains before it. The first chains may have one more.
HWY_INLINE size_t chain_blocks(size_t blocks, size_t chain) { return (blocks + 3 - chain) / 4; }
HWY_INLINE size_t chain_begin(size_t blocks, size_t chain) { return chain * (blocks / 4) + smaller(chain, blocks % 4); }

// Copies a block of one output to its place among those of 16: numbers word by word, as they are.
template <class Format>
HWY_INLINE void pack_block_of_row(const std::byte* from, size_t lane, std::byte* to) {
  constexpr size_t kNumbersAt = Format::kPaired ? Format::kPairs : Format::kOctets;
  for (size_t word = 0; word < kPackedNumbers<Format> / 64; ++word) {
    std::memcpy(to + word * 64 + lane * 4, from + kNumbersAt + word * 4, 4);
  }
  std::byte* scales = to + kPackedNumbers<Format>;
  std::memcpy(scales + lane * 2, from, 2);
  if constexpr (Format::kHasMinima) std::memcpy(scales + 32 + lane * 2, from + 2, 2);
}

// Lanes that no output has are 0.
template <class Format>
HWY_INLINE void clear_block_of_row(size_t lane, std::byte* to) {
  HWY_ALIGN static constexpr std::byte kNone[Format::kBytes] = {};
  pack_block_of_row<Format>(kNone, lane, to);
}

template <class Format>
void pack_format(const BlockPacking& p) {
  const size_t blocks = p.k / 32;
  for (size_t panel = p.begin / kPackedOutputs; panel * kPackedOutputs < p.end; ++panel) {
    const size_t first = larger(p.begin, panel * kPackedOutputs), end = smaller(p.end, (panel + 1) * kPackedOutputs);
    std::byte* to = p.packed + panel * blocks * kPackedBlock<Format>;
    for (size_t chain = 0; chain < 4; ++chain) {
      for (size_t block = chain; block < blocks; block += 4, to += kPackedBlock<Format>) {
        for (size_t row = first; row < end; ++row) {
          const std::byte* from = p.w + (row - p.begin) * p.row_bytes + block * Format::kBytes;
          pack_block_of_row<Format>(from, row % kPackedOutputs, to);
        }
        if (end != p.n) continue;
        for (size_t lane = (p.n - 1) % kPackedOutputs + 1; lane < kPackedOutputs; ++lane) {
          clear_block_of_row<Format>(lane, to);
        }
      }
    }
  }
}

template <class Format>
HWY_INLINE Vector packed_scales(const std::byte* block) {
  return Vector{_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + kPackedNumbers<Format>)))};
}
template <class Format>
HWY_INLINE Vector packed_minima(const std::byte* block) {
  if constexpr (!Format::kHasMinima) return zeros();
  else return packed_scales<Format>(block + 32);
}

// The numbers of a block, four neighbours of each output in a vector, as Format::load gives them.
template <class Format>
HWY_INLINE void packed_numbers(const std::byte* block, OctetVector* out) {
  const auto words = [&](size_t i)
                         HWY_ATTR { return hn::LoadU(Octets(), reinterpret_cast<const uint8_t*>(block) + 64 * i); };
  if constexpr (Format::kPaired) {
    BALLAST_UNROLL for (size_t i = 0; i < 4; ++i) Format::take_apart(words(i), out[i], out[4 + i]);
  } else {
    BALLAST_UNROLL for (size_t i = 0; i < 8; ++i) out[i] = words(i);
  }
}

// Adds to chains without a last block what the stripes add to them: the last block there is, times 0. That is nothing,
// unless its scale is no finite number.
template <class Format>
HWY_INLINE Vector add_missing_block(const std::byte* last, Vector sum) {
  sum = hn::MulAdd(hn::Mul(packed_scales<Format>(last), zeros()), zeros(), sum);
  if constexpr (Format::kHasMinima) sum = hn::MulAdd(packed_minima<Format>(last), zeros(), sum);
  return sum;
}

// Bytes that are fetched ahead: what comes next lies behind.
constexpr size_t kPackedAhead = 4096;

// ---------------------------------------------------------------- few rows, by vectors
HWY_INLINE __m512i four_of_all(const int8_t* at) {
  return _mm512_set1_epi32(load_as<int32_t>(reinterpret_cast<const std::byte*>(at)));
}

template <class Format>
HWY_INLINE Vector packed_row_sums(const OctetVector* w, const RoundedTile& a, size_t row) {
  constexpr int kShift = shift_of<Format>();
  // What the weights are too large by is taken off before: 128 times as the sum of what is multiplied by 128.
  __m512i high = _mm512_setzero_si512(), low = _mm512_setzero_si512();
  if constexpr (kShift == 7) high = _mm512_set1_epi32(a.minus_sums[row]);
  else if constexpr (kShift >= 0) low = _mm512_slli_epi32(_mm512_set1_epi32(a.minus_sums[row]), kShift);
  BALLAST_UNROLL for (size_t i = 0; i < 8; ++i) {
    high = _mm512_dpbusd_epi32(high, w[i].raw, four_of_all(a.high[row] + 4 * i));
    low = _mm512_dpbusd_epi32(low, w[i].raw, four_of_all(a.low[row] + 4 * i));
  }
  return Vector{_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 7), low))};
}

// One chain of a panel, for rows [row, row + kRows) of the group that begins at `a`.
template <class Format, size_t kRows>
HWY_NOINLINE void add_packed_rows(const std::byte* w, const RoundedTile* a, size_t row, size_t blocks, float* sums) {
  const Floats d;
  Vector of[kRows];
  BALLAST_UNROLL for (size_t i = 0; i < kRows; ++i) of[i] = zeros();
  for (size_t block = 0; block < blocks; ++block, w += kPackedBlock<Format>, a += 4) {
    fetch_lines<3>(w + kPackedAhead, kPackedBlock<Format>);
    OctetVector numbers[8];
    packed_numbers<Format>(w, numbers);
    if constexpr (Format::kSigned) {
      BALLAST_UNROLL for (size_t i = 0; i < 8; ++i) numbers[i] = hn::Xor(numbers[i], splat_octet(0x80));
    }
    const Vector scale = packed_scales<Format>(w), minimum = packed_minima<Format>(w);
    BALLAST_UNROLL for (size_t i = 0; i < kRows; ++i) {
      of[i] =
          hn::MulAdd(hn::Mul(scale, splat(a->scales[row + i])), packed_row_sums<Format>(numbers, *a, row + i), of[i]);
      if constexpr (Format::kHasMinima) of[i] = hn::MulAdd(minimum, splat(a->scaled_sums[row + i]), of[i]);
    }
  }
  BALLAST_UNROLL for (size_t i = 0; i < kRows; ++i) hn::Store(of[i], d, sums + 16 * (row + i));
}

using PanelSums = ChainSums<kPackedOutputs>;

template <class Format>
HWY_INLINE void add_packed_chain(const std::byte* w, const RoundedTile* a, size_t rows, size_t blocks, float* sums) {
  size_t row = 0;
  for (; row + 8 <= rows; row += 8) add_packed_rows<Format, 8>(w, a, row, blocks, sums);
  if (row + 4 <= rows) add_packed_rows<Format, 4>(w, a, row, blocks, sums), row += 4;
  if (row + 2 <= rows) add_packed_rows<Format, 2>(w, a, row, blocks, sums), row += 2;
  if (row < rows) add_packed_rows<Format, 1>(w, a, row, blocks, sums);
}

// Outputs of a panel, `columns` of which there are. `last`: the last block, where some chains have one less.
template <class Format>
HWY_INLINE void store_panel(const PanelSums& sums, const std::byte* last, size_t missing, size_t rows, size_t columns,
                            float* c, size_t stride) {
  store_chains(sums, rows, columns, c, stride, [&](size_t chain, Vector sum) HWY_ATTR {
    return chain >= 4 - missing ? add_missing_block<Format>(last, sum) : sum;
  });
}

template <class Format>
HWY_INLINE const std::byte* last_packed_block(const std::byte* panel, size_t blocks) {
  return panel + (chain_begin(blocks, (blocks - 1) % 4 + 1) - 1) * kPackedBlock<Format>;
}

template <class Format>
void multiply_packed(const BlockProduct& p) {
  const size_t blocks = p.k / 32, across = tile_blocks_of(p.k), group_rows = tile_rows_of(p.m);
  PanelSums sums;
  for (size_t j = p.begin; j < p.end; j += kPackedOutputs) {
    const std::byte* panel = p.w + j / kPackedOutputs * blocks * kPackedBlock<Format>;
    const auto* a = static_cast<const RoundedTile*>(p.a);
    for (size_t row = 0; row < p.m; row += group_rows, a += across) {
      const size_t rows = smaller(group_rows, p.m - row);
      for (size_t chain = 0; chain < 4; ++chain) {
        add_packed_chain<Format>(panel + chain_begin(blocks, chain) * kPackedBlock<Format>, a + chain, rows,
                                 chain_blocks(blocks, chain), sums.of[chain][0]);
      }
      store_panel<Format>(sums, last_packed_block<Format>(panel, blocks), (4 - blocks % 4) % 4, rows, p.end - j,
                          p.c + row * p.c_stride + j, p.c_stride);
    }
  }
}

#if BALLAST_TILES
// ---------------------------------------------------------------- more rows, by tiles
// Blocks of a chain that are taken apart at once; they and their activations stay in the first-level cache.
constexpr size_t kPackedChunk = 16;
struct alignas(64) PackedChunk {
  TileNumbers numbers[kPackedChunk];
  float scales[kPackedChunk][kPackedOutputs];
  float minima[kPackedChunk][kPackedOutputs];
};

template <class Format>
HWY_INLINE void unpack_chunk(const std::byte* w, size_t blocks, PackedChunk& out) {
  const Floats d;
  for (size_t block = 0; block < blocks; ++block, w += kPackedBlock<Format>) {
    OctetVector numbers[8];
    packed_numbers<Format>(w, numbers);
    BALLAST_UNROLL for (size_t i = 0; i < 8; ++i) {
      _mm512_store_si512(out.numbers[block][i], signed_numbers<Format>(numbers[i]));
    }
    hn::Store(packed_scales<Format>(w), d, out.scales[block]);
    if constexpr (Format::kHasMinima) hn::Store(packed_minima<Format>(w), d, out.minima[block]);
  }
}

// As add_chain. `next`: packed blocks that are fetched meanwhile, one for each that is multiplied.
template <size_t kRows, class Format>
HWY_NOINLINE void add_packed_chunk(const RoundedTile* a, const PackedChunk& w, size_t blocks, bool is_first,
                                   const std::byte* next, float* sums) {
  constexpr bool kHasMinima = Format::kHasMinima;
  const Floats d;
  TileSums exact[2];
  Vector of[kRows];
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) of[row] = is_first ? zeros() : hn::Load(d, sums + 16 * row);
  const auto add = [&](size_t block, const TileSums& products) HWY_ATTR {
    add_tile_sums<kRows, kHasMinima>(products, a[4 * block], w.scales[block], w.minima[block], of);
  };
  start_tiles<0>(a[0], w.numbers[0]);
  for (size_t block = 0; block < blocks; block += 2) {
    fetch_lines<2>(next + block * kPackedBlock<Format>, 2 * kPackedBlock<Format>);
    if (block + 1 < blocks) start_tiles<1>(a[4 * (block + 1)], w.numbers[block + 1]);
    store_tiles<0>(exact[0]);
    if (block != 0) add(block - 1, exact[1]);
    if (block + 2 < blocks) start_tiles<0>(a[4 * (block + 2)], w.numbers[block + 2]);
    if (block + 1 < blocks) store_tiles<1>(exact[1]);
    add(block, exact[0]);
  }
  if (blocks % 2 == 0) add(blocks - 1, exact[1]);
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) hn::Store(of[row], d, sums + 16 * row);
}

using AddPackedChunk = void (*)(const RoundedTile*, const PackedChunk&, size_t, bool, const std::byte*, float*);
template <class Format>
AddPackedChunk packed_chunk_adder(size_t rows) {
  constexpr AddPackedChunk kOf[] = {add_packed_chunk<4, Format>, add_packed_chunk<8, Format>,
                                    add_packed_chunk<12, Format>, add_packed_chunk<16, Format>};
  return kOf[(rows - 1) / 4];
}

// Panels that go through the same activations together.
constexpr size_t kPanelsAtOnce = 4;
constexpr size_t kMostPackedGroups = 8;

template <class Format>
HWY_NOINLINE void multiply_packed_panels(const BlockProduct& p, size_t group, size_t groups, size_t j, size_t panels) {
  HWY_ALIGN PackedChunk chunk;
  HWY_ALIGN PanelSums sums[kMostPackedGroups][kPanelsAtOnce];
  const size_t blocks = p.k / 32, across = tile_blocks_of(p.k), group_rows = tile_rows_of(p.m);
  const size_t panel_bytes = blocks * kPackedBlock<Format>;
  const AddPackedChunk add = packed_chunk_adder<Format>(group_rows);
  const auto* a = static_cast<const RoundedTile*>(p.a) + group * across;
  const std::byte* w = p.w + j / kPackedOutputs * panel_bytes;
  if (blocks < 4) std::memset(static_cast<void*>(sums), 0, sizeof(sums));  // some chains have none
  for (size_t chain = 0; chain < 4; ++chain) {
    const std::byte* of_chain = w + chain_begin(blocks, chain) * kPackedBlock<Format>;
    const size_t count = chain_blocks(blocks, chain);
    for (size_t begin = 0; begin < count; begin += kPackedChunk) {
      const size_t some = smaller(kPackedChunk, count - begin);
      for (size_t panel = 0; panel < panels; ++panel) {
        const std::byte* at = of_chain + panel * panel_bytes + begin * kPackedBlock<Format>;
        unpack_chunk<Format>(at, some, chunk);
        // After the last of a panel comes the first of one of the next panels.
        const bool is_last = chain == 3 && begin + some == count;
        const std::byte* next = is_last ? w + (panel + kPanelsAtOnce) * panel_bytes : at + some * kPackedBlock<Format>;
        for (size_t i = 0; i < groups; ++i) {
          add(a + i * across + chain + 4 * begin, chunk, some, begin == 0, next, sums[i][panel].of[chain][0]);
        }
      }
    }
  }
  for (size_t i = 0; i < groups; ++i) {
    const size_t row = (group + i) * group_rows, rows = smaller(group_rows, p.m - row);
    for (size_t panel = 0; panel < panels; ++panel) {
      const size_t at = j + panel * kPackedOutputs;
      store_panel<Format>(sums[i][panel], last_packed_block<Format>(w + panel * panel_bytes, blocks),
                          (4 - blocks % 4) % 4, rows, p.end - at, p.c + row * p.c_stride + at, p.c_stride);
    }
  }
}

template <class Format>
void multiply_packed_tiles(const BlockProduct& p) {
  const size_t rows = tile_rows_of(p.m), groups = tile_groups_of(p.m);
  const TileUse use(shapes_for(rows));
  for (size_t group = 0; group < groups; group += kMostPackedGroups) {
    for (size_t j = p.begin; j < p.end; j += kPanelsAtOnce * kPackedOutputs) {
      const size_t panels = smaller(kPanelsAtOnce, divide_up(p.end - j, kPackedOutputs));
      multiply_packed_panels<Format>(p, group, smaller(kMostPackedGroups, groups - group), j, panels);
    }
  }
}
#endif
