// The tiles of bf16_tiles.h: a part of bf16_tiles.cc, which includes it in its namespace; hence no guard. Instructions
// are written out for the reasons of tile_use.h.

// ---------------------------------------------------------------- instructions
constexpr size_t kTileOutputs = 16;                 // rows of a tile of weights
constexpr size_t kPanelOutputs = 2 * kTileOutputs;  // of two tiles side by side
constexpr size_t kLine = 64;                        // bytes of a row of a tile of weights: 32 terms
constexpr size_t kTileBytes = kTileOutputs * kLine;

// Tiles 0 to 3: sums of 16 outputs, one in a row, and the columns of a group. Others: weights and activations.
HWY_INLINE TileShapes shapes_for(size_t columns, size_t last_of_weights) {
  TileShapes shapes;
  for (size_t tile = 0; tile < 8; ++tile) {
    const bool is_weights = tile >= 4 && tile <= last_of_weights;
    shapes.row_bytes[tile] = static_cast<uint16_t>(is_weights ? kLine : 4 * columns);
    shapes.rows[tile] = 16;
  }
  return shapes;
}

// Loads and products in the order in which processors like them: a load takes half as long as a product.
#define BALLAST_LOAD_TILE(tile, from, distance) \
  asm volatile("tileloadd (%[at],%[row],1), %%" tile : : [at] "r"(from), [row] "r"(distance) : "memory")
#define BALLAST_STORE_TILE(tile, to, distance) \
  asm volatile("tilestored %%" tile ", (%[at],%[row],1)" : : [at] "r"(to), [row] "r"(distance) : "memory")
#define BALLAST_ADD_PRODUCT(weights, activations, sums) \
  asm volatile("tdpbf16ps %%" activations ", %%" weights ", %%" sums ::)

// Of 16 outputs and up to 16 columns.
using SumsTile = float[kTileOutputs][16];
constexpr size_t kSumsRow = sizeof(float[16]);

template <size_t kTiles>
HWY_INLINE void clear_sums() {
  asm volatile("tilezero %%tmm0" ::);
  if constexpr (kTiles > 1) asm volatile("tilezero %%tmm1" ::);
  if constexpr (kTiles > 2) asm volatile("tilezero %%tmm2\n\ttilezero %%tmm3" ::);
}
HWY_INLINE void load_sums(const SumsTile* sums) {
  BALLAST_LOAD_TILE("tmm0", sums[0], kSumsRow);
  BALLAST_LOAD_TILE("tmm1", sums[1], kSumsRow);
  BALLAST_LOAD_TILE("tmm2", sums[2], kSumsRow);
  BALLAST_LOAD_TILE("tmm3", sums[3], kSumsRow);
}
template <size_t kTiles>
HWY_INLINE void store_sums(SumsTile* sums) {
  BALLAST_STORE_TILE("tmm0", sums[0], kSumsRow);
  if constexpr (kTiles > 1) BALLAST_STORE_TILE("tmm1", sums[1], kSumsRow);
  if constexpr (kTiles > 2) {
    BALLAST_STORE_TILE("tmm2", sums[2], kSumsRow);
    BALLAST_STORE_TILE("tmm3", sums[3], kSumsRow);
  }
}

// A step of 32 terms of 16 outputs and one, two or four tiles of activations, of which two follow each other; sums in 0
// to 3, weights in 4, activations in 5 to 7.
template <size_t kTiles>
HWY_INLINE void add_single(const std::byte* w, size_t w_row, const std::byte* a, size_t group_bytes, size_t a_row) {
  BALLAST_LOAD_TILE("tmm4", w, w_row);
  BALLAST_LOAD_TILE("tmm5", a, a_row);
  BALLAST_ADD_PRODUCT("tmm4", "tmm5", "tmm0");
  if constexpr (kTiles > 1) {
    BALLAST_LOAD_TILE("tmm6", a + kTileBytes, a_row);
    BALLAST_ADD_PRODUCT("tmm4", "tmm6", "tmm1");
  }
  if constexpr (kTiles > 2) {
    BALLAST_LOAD_TILE("tmm7", a + group_bytes, a_row);
    BALLAST_ADD_PRODUCT("tmm4", "tmm7", "tmm2");
    BALLAST_LOAD_TILE("tmm5", a + group_bytes + kTileBytes, a_row);
    BALLAST_ADD_PRODUCT("tmm4", "tmm5", "tmm3");
  }
}

// The same of 32 outputs, the rows of two tiles, and two tiles of activations; sums of the first outputs in 0 and 1, of
// the others in 2 and 3, weights in 4 and 5, activations in 6 and 7.
HWY_INLINE void add_double(const std::byte* w, size_t w_row, const std::byte* a) {
  BALLAST_LOAD_TILE("tmm4", w, w_row);
  BALLAST_LOAD_TILE("tmm6", a, kLine);
  BALLAST_ADD_PRODUCT("tmm4", "tmm6", "tmm0");
  BALLAST_LOAD_TILE("tmm7", a + kTileBytes, kLine);
  BALLAST_ADD_PRODUCT("tmm4", "tmm7", "tmm1");
  BALLAST_LOAD_TILE("tmm5", w + kTileOutputs * w_row, w_row);
  BALLAST_ADD_PRODUCT("tmm5", "tmm6", "tmm2");
  BALLAST_ADD_PRODUCT("tmm5", "tmm7", "tmm3");
}
#undef BALLAST_LOAD_TILE
#undef BALLAST_STORE_TILE
#undef BALLAST_ADD_PRODUCT

// ---------------------------------------------------------------- activations
// 32 numbers, the nearest bf16 to each; two neighbours are a word. NaN stays NaN, subnormal numbers become 0.
HWY_INLINE __m512i rounded_pairs(__m512 first, __m512 second) {
  __m512i pairs;
  asm("vcvtne2ps2bf16 %[first], %[second], %[pairs]" : [pairs] "=v"(pairs) : [first] "v"(first), [second] "v"(second));
  return pairs;
}
HWY_INLINE __m512 widened(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

HWY_INLINE __mmask16 first_lanes(size_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFF : (1U << count) - 1);
}

struct SplitWords {
  __m512i high, low;
};
// 32 terms, fewer at the end.
HWY_INLINE SplitWords split_row(const float* x, size_t terms) {
  const __m512 first = _mm512_maskz_loadu_ps(first_lanes(terms), x);
  const __m512 second = _mm512_maskz_loadu_ps(first_lanes(terms < 16 ? 0 : terms - 16), x + 16);
  const __m512i high = rounded_pairs(first, second);
  return {high, rounded_pairs(_mm512_sub_ps(first, widened(_mm512_castsi512_si256(high))),
                              _mm512_sub_ps(second, widened(_mm512_extracti64x4_epi64(high, 1))))};
}

// Word i of each of 16 vectors becomes row i of a tile.
HWY_INLINE void store_tile(__m512i* words, size_t columns, std::byte* tile) {
  turn_words(words);
  const __mmask16 there = first_lanes(columns);
  for (size_t i = 0; i < 16; ++i) _mm512_mask_storeu_epi32(tile + i * 4 * columns, there, words[i]);
}

// The rows of a group.
HWY_INLINE void split_step(const float* x, size_t stride, size_t rows, size_t terms, std::byte* out) {
  __m512i high[16] = {}, low[16] = {};
  for (size_t row = 0; row < rows; ++row) {
    const SplitWords words = split_row(x + row * stride, terms);
    high[row] = words.high;
    low[row] = words.low;
  }
  store_tile(high, 16, out);
  store_tile(low, 16, out + kTileBytes);
}
// One row: its high parts and low parts take turns.
HWY_INLINE void split_one(const float* x, size_t terms, std::byte* out) {
  const __m512i turns = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const SplitWords words = split_row(x, terms);
  _mm512_storeu_si512(out, _mm512_permutex2var_epi32(words.high, turns, words.low));
  const __m512i rest = _mm512_add_epi32(turns, _mm512_set1_epi32(8));
  _mm512_storeu_si512(out + kLine, _mm512_permutex2var_epi32(words.high, rest, words.low));
}
HWY_INLINE void split_few(const float* x, size_t stride, size_t rows, size_t terms, std::byte* out) {
  __m512i both[16] = {};
  for (size_t row = 0; row < rows; ++row) {
    const SplitWords words = split_row(x + row * stride, terms);
    both[row] = words.high;
    both[rows + row] = words.low;
  }
  store_tile(both, 2 * rows, out);
}

void split_steps(const SplitActivations& split) {
  const size_t steps = split_steps_of(split.k), step_bytes = split_step_bytes(split.m);
  const size_t group_rows = split_group_rows(split.m);
  for (size_t at = split.begin; at < split.end; ++at) {
    const size_t row = at / steps * group_rows, k = at % steps * kSplitTerms;
    const float* x = split.x + row * split.stride + k;
    const size_t rows = smaller(group_rows, split.m - row), terms = smaller(kSplitTerms, split.k - k);
    std::byte* out = split.out + at * step_bytes;
    if (split.m == 1) split_one(x, terms, out);
    else if (split.m <= kFewRows) split_few(x, split.stride, rows, terms, out);
    else split_step(x, split.stride, rows, terms, out);
  }
}

// ---------------------------------------------------------------- outputs
// High plus low. A low sum that is not finite tells of an operand that was not, or of one beyond all others; the high
// sum is then what it would be without splitting.
HWY_INLINE __m512 total(__m512 high, __m512 low) {
  const __mmask16 finite = _mm512_cmp_ps_mask(_mm512_abs_ps(low), _mm512_set1_ps(__builtin_inff()), _CMP_LT_OQ);
  return _mm512_mask_add_ps(high, finite, high, low);
}

// Where the outputs of a group go: `outputs` of a tile, of which some are there.
struct OutputPlace {
  float* c;
  size_t c_stride, rows, outputs;
};

// The sums of few rows: columns are high parts and low parts.
HWY_NOINLINE void store_few(const SumsTile& sums, const OutputPlace& to) {
  __m512i words[16];
  for (size_t i = 0; i < 16; ++i) words[i] = _mm512_load_si512(sums[i]);
  turn_words(words);
  for (size_t row = 0; row < to.rows; ++row) {
    const __m512 sum = total(_mm512_castsi512_ps(words[row]), _mm512_castsi512_ps(words[to.rows + row]));
    _mm512_mask_storeu_ps(to.c + row * to.c_stride, first_lanes(to.outputs), sum);
  }
}

// The sums of a group of 16 rows, high parts and low parts.
HWY_NOINLINE void store_group(const SumsTile* sums, const OutputPlace& to) {
  __m512i words[16];
  BALLAST_UNROLL for (size_t i = 0; i < 16; ++i) {
    words[i] = _mm512_castps_si512(total(_mm512_load_ps(sums[0][i]), _mm512_load_ps(sums[1][i])));
  }
  turn_words(words);
  for (size_t row = 0; row < to.rows; ++row) {
    _mm512_mask_storeu_epi32(to.c + row * to.c_stride, first_lanes(to.outputs), words[row]);
  }
}

// ---------------------------------------------------------------- few rows: weights as they lie
// How far ahead of the terms in work the rows of the weight are fetched. Tiles of 16 rows are as many streams as the
// processor follows by itself; it stops at each page, which is what fetching is for.
constexpr size_t kAhead = 512;

// `bytes` bytes of `outputs` rows; what else a tile has is 0.
HWY_INLINE void copy_part(const std::byte* w, size_t row_bytes, size_t outputs, size_t bytes, std::byte* tile) {
  std::memset(tile, 0, kTileBytes);
  for (size_t row = 0; row < outputs; ++row) std::memcpy(tile + row * kLine, w + row * row_bytes, bytes);
}

// Outputs [j, j + 16), fewer at the end.
template <size_t kTiles>
HWY_NOINLINE void multiply_directly(const Bf16Product& p, size_t j) {
  alignas(64) SumsTile sums[4];
  alignas(64) std::byte part[kTileBytes];
  const size_t row_bytes = 2 * p.k, outputs = smaller(kTileOutputs, p.end - j);
  const size_t step_bytes = split_step_bytes(p.m), group_bytes = split_steps_of(p.k) * step_bytes;
  const size_t a_row = kTiles == 1 ? 8 * p.m : kLine;
  // Steps whose tiles are all there.
  const size_t whole = outputs == kTileOutputs ? p.k / kSplitTerms : 0;
  const std::byte *w = p.w + j * row_bytes, *a = p.a;
  // What comes after the last terms of these outputs: the first of the next, if they are ours.
  const size_t to_next = j + kTileOutputs < p.end ? (kTileOutputs - 1) * row_bytes : 0;
  clear_sums<kTiles>();
  for (size_t step = 0; step < whole; ++step, w += kLine, a += step_bytes) {
    const bool is_next = step * kLine + kAhead >= row_bytes;
    const std::byte* ahead = w + kAhead + (is_next ? to_next : 0);
    for (size_t row = 0; row < kTileOutputs; ++row) __builtin_prefetch(ahead + row * row_bytes, 0, 3);
    add_single<kTiles>(w, row_bytes, a, group_bytes, a_row);
  }
  for (size_t at = whole * kLine; at < row_bytes; at += kLine, w += kLine, a += step_bytes) {
    copy_part(w, row_bytes, outputs, smaller(kLine, row_bytes - at), part);
    add_single<kTiles>(part, kLine, a, group_bytes, a_row);
  }
  store_sums<kTiles>(sums);
  const OutputPlace first{p.c + j, p.c_stride, smaller(16, p.m), outputs};
  if constexpr (kTiles == 1) store_few(sums[0], first);
  else store_group(sums, first);
  if constexpr (kTiles == 4) store_group(sums + 2, {p.c + 16 * p.c_stride + j, p.c_stride, p.m - 16, outputs});
}

void multiply_all_directly(const Bf16Product& p) {
  const TileUse use(shapes_for(p.m <= kFewRows ? 2 * p.m : 16, 4));
  const auto multiply = p.m <= kFewRows ? multiply_directly<1>
                        : p.m <= 16     ? multiply_directly<2>
                                        : multiply_directly<4>;
  for (size_t j = p.begin; j < p.end; j += kTileOutputs) multiply(p, j);
}

// ---------------------------------------------------------------- many rows: weights in the second-level cache
// 32 outputs at a time are used for all groups of a block of rows, for so many steps; their weights stay in that cache,
// and so do the activations of those steps and the sums. Fewer steps would fit into the first-level cache, but then
// sums travel to and from tiles more often, which costs what it saves. Rows that begin with a line are tiles as they
// lie; of others, each row of a tile would take two lines, again and again, so they are copied first.
constexpr size_t kChunkSteps = 64;
constexpr size_t kMostGroups = kMostRows / 16;
constexpr size_t kMostPanels = kMostOutputs / kPanelOutputs;

using PanelSums = SumsTile[4];  // of 32 outputs and a group
struct alignas(64) BlockSums {
  PanelSums of[kMostPanels][kMostGroups];
};
// Of 32 outputs, each of whose lines lies behind that of the one before.
using WeightChunk = std::byte[kChunkSteps][kPanelOutputs][kLine];

// `terms` terms of up to 32 outputs; what is not there is 0. A few steps of each output at a time: lines of more tiles
// would push each other out of the first-level cache before they are full.
HWY_NOINLINE void copy_weights(const std::byte* w, size_t row_bytes, size_t outputs, size_t terms, WeightChunk& chunk) {
  constexpr size_t kAtOnce = 4;
  for (size_t begin = 0; begin < terms; begin += kAtOnce * kSplitTerms) {
    for (size_t output = 0; output < kPanelOutputs; ++output) {
      const size_t there = output < outputs ? smaller(terms - begin, kAtOnce * kSplitTerms) : 0;
      const std::byte* from = w + (output < outputs ? output * row_bytes + 2 * begin : 0);
      std::byte* to = chunk[begin / kSplitTerms][output];
      BALLAST_UNROLL for (size_t i = 0; i < kAtOnce; ++i) {
        const size_t rest = there < i * kSplitTerms ? 0 : there - i * kSplitTerms;
        const __mmask32 first = rest >= kSplitTerms ? 0xFFFFFFFF : (uint32_t{1} << rest) - 1;
        _mm512_store_si512(to + i * 2 * kTileBytes, _mm512_maskz_loadu_epi16(first, from + i * kLine));
      }
    }
  }
}

// Weights that come next, fetched line by line while products are computed: asked for all at once, they would
// keep everybody waiting, and memory would rest afterwards.
class WeightFetch {
 public:
  // `steps` steps from w on, while so many of each of `times` go by.
  HWY_INLINE WeightFetch(const std::byte* w, size_t row_bytes, size_t steps, size_t times)
      : w_(w), row_bytes_(row_bytes), steps_(steps), each_(divide_up(kPanelOutputs, times)) {}

  HWY_INLINE void few() {
    for (size_t i = 0; i < each_ && row_ < kPanelOutputs; ++i) {
      __builtin_prefetch(w_ + row_ * row_bytes_ + step_ * kLine, 0, 2);
      if (++step_ < steps_) continue;
      step_ = 0;
      ++row_;
    }
  }

 private:
  const std::byte* w_;
  size_t row_bytes_, steps_, each_, row_ = 0, step_ = 0;
};

// The rows of 32 outputs lie `row` bytes apart, and what a step reads `step` bytes behind what the last one read.
struct PanelWeights {
  const std::byte* w;
  size_t row, step;
};

HWY_NOINLINE void add_chunk(PanelWeights at, const std::byte* a, size_t steps, WeightFetch& next) {
  for (size_t step = 0; step < steps; ++step, at.w += at.step, a += 2 * kTileBytes) {
    add_double(at.w, at.row, a);
    next.few();
  }
}

// Groups [group, group + groups) of rows and outputs [begin, end), at most kMostOutputs.
struct RowBlock {
  size_t group, groups, begin, end;
};

void store_panel(const Bf16Product& p, size_t row, size_t j, size_t end, const PanelSums& sums) {
  for (size_t tile = 0; tile < 2 && j < end; ++tile, j += kTileOutputs) {
    store_group(sums + 2 * tile,
                {p.c + row * p.c_stride + j, p.c_stride, smaller(16, p.m - row), smaller(kTileOutputs, end - j)});
  }
}

// The weights of `terms` terms of 32 outputs from w on, of which some are there: themselves or their copy.
HWY_INLINE PanelWeights panel_weights(const std::byte* w, size_t row_bytes, size_t outputs, size_t terms,
                                      WeightChunk& copy) {
  const bool is_aligned = reinterpret_cast<uintptr_t>(w) % kLine == 0 && row_bytes % kLine == 0;
  if (is_aligned && outputs >= kPanelOutputs) return {w, row_bytes, kLine};
  copy_weights(w, row_bytes, outputs, terms, copy);
  return {copy[0][0], kLine, sizeof(copy[0])};
}

HWY_NOINLINE void multiply_block(const Bf16Product& p, const RowBlock& block) {
  BlockSums sums;
  alignas(64) WeightChunk copy;
  alignas(64) PanelSums finished;
  const size_t row_bytes = 2 * p.k, steps = split_steps_of(p.k), group_bytes = steps * 2 * kTileBytes;
  for (size_t step = 0; step < steps; step += kChunkSteps) {
    const size_t some = smaller(kChunkSteps, steps - step);
    const size_t terms = smaller(kChunkSteps * kSplitTerms, p.k - step * kSplitTerms);
    const bool is_last = step + some == steps;
    const std::byte* a = p.a + block.group * group_bytes + step * 2 * kTileBytes;
    for (size_t j = block.begin; j < block.end; j += kPanelOutputs) {
      const std::byte* w = p.w + j * row_bytes + step * kLine;
      const PanelWeights weights = panel_weights(w, row_bytes, block.end - j, terms, copy);
      // After the last outputs come the next terms of the first, or the first for the next rows.
      const size_t next_step = is_last ? 0 : step + kChunkSteps;
      const std::byte* behind = p.w + block.begin * row_bytes + next_step * kLine;
      WeightFetch next(j + kPanelOutputs >= block.end ? behind : w + kPanelOutputs * row_bytes, row_bytes, some,
                       block.groups);
      PanelSums* of = sums.of[(j - block.begin) / kPanelOutputs];
      for (size_t i = 0; i < block.groups; ++i) {
        if (step == 0) clear_sums<4>();
        else load_sums(of[i]);
        add_chunk(weights, a + i * group_bytes, some, next);
        store_sums<4>(is_last ? finished : of[i]);
        if (is_last) store_panel(p, (block.group + i) * 16, j, block.end, finished);
      }
    }
  }
}

void multiply_in_blocks(const Bf16Product& p) {
  const TileUse use(shapes_for(16, 5));
  const size_t end = divide_up(p.row_end, 16);
  for (size_t j = p.begin; j < p.end; j += kMostOutputs) {
    for (size_t group = p.row_begin / 16; group < end; group += kMostGroups) {
      multiply_block(p, {group, smaller(kMostGroups, end - group), j, smaller(j + kMostOutputs, p.end)});
    }
  }
}

// ---------------------------------------------------------------- door
void multiply_bf16(const Bf16Product& p) {
  if (p.m > kDirectRows) multiply_in_blocks(p);
  else multiply_all_directly(p);
}
