// The loops over panels; see panel-inl.h.
#include <utility>

#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/panel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

// ---------------------------------------------------------------- multiplication
template <size_t kRows>
void multiply_rows(const PanelProduct& product, float* const* c) {
  Vector left[kRows], right[kRows];
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
    left[row] = product.add ? load(c[row]) : zeros();
    right[row] = product.add ? load(c[row] + kLanes) : zeros();
  }
  const float* HWY_RESTRICT w = product.w;
  for (size_t segment = 0; segment < product.segments; ++segment) {
    const float* a[kRows];
    BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) a[row] = product.a[segment * kRows + row];
    for (size_t k = 0; k < product.length; ++k) {
      const Vector w_left = load(w);
      const Vector w_right = load(w + kLanes);
      __builtin_prefetch(w + product.fetch_ahead);
      __builtin_prefetch(w + product.fetch_ahead + kLanes);
      w += product.w_stride;
      BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
        const Vector factor = splat(a[row][k]);
        left[row] = hn::MulAdd(factor, w_left, left[row]);
        right[row] = hn::MulAdd(factor, w_right, right[row]);
      }
    }
  }
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
    store(left[row], c[row]);
    store(right[row], c[row] + kLanes);
  }
}

using MultiplyRows = void (*)(const PanelProduct&, float* const*);

template <size_t kRows>
constexpr void fill(MultiplyRows* table) {
  table[kRows] = multiply_rows<kRows>;
  if constexpr (kRows > 1) fill<kRows - 1>(table);
}
struct MultiplyTable {
  MultiplyRows of[kTileRows + 1] = {};
  constexpr MultiplyTable() { fill<kTileRows>(of); }
};
constexpr MultiplyTable kMultiply;

void multiply_panel(const PanelProduct& product) {
  if (product.columns == kPanel) {
    kMultiply.of[product.rows](product, product.c);
    return;
  }
  // The end of a row: whole vectors are not all there, so the sums are kept elsewhere.
  HWY_ALIGN float sums[kTileRows * kPanel] = {};
  float* rows[kTileRows];
  for (size_t row = 0; row < product.rows; ++row) {
    rows[row] = sums + row * kPanel;
    if (product.add) std::memcpy(rows[row], product.c[row], product.columns * sizeof(float));
  }
  kMultiply.of[product.rows](product, rows);
  for (size_t row = 0; row < product.rows; ++row) {
    std::memcpy(product.c[row], rows[row], product.columns * sizeof(float));
  }
}

// ---------------------------------------------------------------- multiplication, factors in a matrix
// All rows are reached from two pointers and the same few distances, which fit into registers.
template <size_t kRows, size_t kVectors>
void multiply_strided(const MatrixProduct& product, float* c, size_t c_stride) {
  constexpr size_t kHalf = (kRows + 1) / 2;
  Vector sums[kRows][kVectors];
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
    BALLAST_UNROLL for (size_t i = 0; i < kVectors; ++i) {
      sums[row][i] = product.add ? load(c + row * c_stride + i * kLanes) : zeros();
    }
  }
  size_t distance[kHalf];
  BALLAST_UNROLL for (size_t row = 0; row < kHalf; ++row) distance[row] = row * product.row_stride;
  const float* first = product.a;
  const float* second = product.a + kHalf * product.row_stride;
  const float* w = product.w;
  for (size_t k = 0; k < product.length; ++k) {
    Vector weights[kVectors];
    BALLAST_UNROLL for (size_t i = 0; i < kVectors; ++i) weights[i] = load(w + i * kLanes);
    BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
      const Vector factor = splat(row < kHalf ? first[distance[row]] : second[distance[row - kHalf]]);
      BALLAST_UNROLL for (size_t i = 0; i < kVectors; ++i) {
        sums[row][i] = hn::MulAdd(factor, weights[i], sums[row][i]);
      }
    }
    first += product.term_stride;
    second += product.term_stride;
    w += product.w_stride;
    asm("" : "+r"(first), "+r"(second));  // or the compiler makes a pointer for each row, more than there are registers
  }
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
    BALLAST_UNROLL for (size_t i = 0; i < kVectors; ++i) store(sums[row][i], c + row * c_stride + i * kLanes);
  }
}

using MultiplyStrided = void (*)(const MatrixProduct&, float*, size_t);

// For so many rows; the first has none.
struct StridedTable {
  MultiplyStrided narrow[kTileRows + 1];
  MultiplyStrided wide[kTileRows + 1];
};
template <size_t... kRows>
constexpr StridedTable strided_table(std::index_sequence<kRows...>) {
  return {{nullptr, multiply_strided<kRows + 1, 1>...}, {nullptr, multiply_strided<kRows + 1, 2>...}};
}
constexpr StridedTable kStrided = strided_table(std::make_index_sequence<kTileRows>());

void multiply_matrix(const MatrixProduct& product) {
  const bool narrow = product.columns <= kLanes;
  const MultiplyStrided multiply = (narrow ? kStrided.narrow : kStrided.wide)[product.rows];
  if (product.columns == kPanel || product.columns == kLanes) {
    multiply(product, product.c, product.c_stride);
    return;
  }
  HWY_ALIGN float sums[kTileRows * kPanel] = {};
  const size_t bytes = product.columns * sizeof(float);
  for (size_t row = 0; product.add && row < product.rows; ++row) {
    std::memcpy(sums + row * kPanel, product.c + row * product.c_stride, bytes);
  }
  multiply(product, sums, kPanel);
  for (size_t row = 0; row < product.rows; ++row) {
    std::memcpy(product.c + row * product.c_stride, sums + row * kPanel, bytes);
  }
}

// ---------------------------------------------------------------- packing
template <class Weight>
HWY_INLINE Vector load_columns(const std::byte* at, size_t columns) {
  if (columns >= kLanes) return Weight::load(at);
  return columns == 0 ? zeros() : load_weight_part<Weight>(at, columns);
}

template <class Weight>
void pack(const std::byte* w, size_t stride, size_t terms, size_t columns, float* panel) {
  const size_t beyond = columns > kLanes ? columns - kLanes : 0;
  for (size_t k = 0; k < terms; ++k) {
    const std::byte* row = w + k * stride * Weight::kBytes;
    store(load_columns<Weight>(row, columns), panel + k * kPanel);
    store(load_columns<Weight>(row + kLanes * Weight::kBytes, beyond), panel + k * kPanel + kLanes);
  }
}

void pack_panel(const WeightView& w, size_t stride, size_t terms, size_t columns, float* panel) {
  switch (w.dtype) {
    case DType::kF16: return pack<F16Weight>(w.data, stride, terms, columns, panel);
    case DType::kBF16: return pack<Bf16Weight>(w.data, stride, terms, columns, panel);
    default: return pack<F32Weight>(w.data, stride, terms, columns, panel);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Four consecutive floats in each 128-bit block; block b is from row b * 4.
HWY_INLINE Vector load_blocks(const float* at, size_t stride) {
  const Floats d;
  Vector blocks = hn::LoadDup128(d, at);
  if constexpr (kLanes >= 8) {
    blocks = hn::IfThenElse(hn::FirstN(d, 4), blocks, hn::LoadDup128(d, at + 4 * stride));
  }
  if constexpr (kLanes >= 16) {
    blocks = hn::IfThenElse(hn::FirstN(d, 8), blocks, hn::LoadDup128(d, at + 8 * stride));
    blocks = hn::IfThenElse(hn::FirstN(d, 12), blocks, hn::LoadDup128(d, at + 12 * stride));
  }
  return blocks;
}

// Four elements of kLanes rows, turned into four vectors of the panel.
HWY_INLINE void turn_four(const float* at, size_t stride, float* to) {
  const Floats d;
  const hn::RepartitionToWide<Words> pairs;
  const Vector r0 = load_blocks(at, stride);
  const Vector r1 = load_blocks(at + stride, stride);
  const Vector r2 = load_blocks(at + 2 * stride, stride);
  const Vector r3 = load_blocks(at + 3 * stride, stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  store(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), to);
  store(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), to + kPanel);
  store(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), to + 2 * kPanel);
  store(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), to + 3 * kPanel);
}
#endif

// square[kPanel, kTurnTerms] -> panel[count, kPanel]
HWY_INLINE void turn(const float* square, size_t count, float* panel) {
  size_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; k + 4 <= count; k += 4) {
    turn_four(square + k, kTurnTerms, panel + k * kPanel);
    turn_four(square + kLanes * kTurnTerms + k, kTurnTerms, panel + k * kPanel + kLanes);
  }
#endif
  for (; k < count; ++k) {
    for (size_t column = 0; column < kPanel; ++column) panel[k * kPanel + column] = square[column * kTurnTerms + k];
  }
}

template <class Weight>
HWY_INLINE void widen_row(const std::byte* from, size_t count, float* to) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(Weight::load(from + i * Weight::kBytes), to + i);
  if (i < count) store_part(load_weight_part<Weight>(from + i * Weight::kBytes, count - i), to + i, count - i);
}

// The same from rows of floats that lie so close together that they do not push each other out of the cache.
#if HWY_TARGET != HWY_SCALAR
constexpr size_t kCloseRows = 128;
void turn_close(const float* w, size_t stride, size_t terms, float* panel, ptrdiff_t ahead) {
  constexpr size_t kFloatsOfLine = kCacheLine / sizeof(float);
  for (size_t k = 0; k < terms; k += 4) {
    if (k % kFloatsOfLine == 0) {
      const float* const next = w + ahead + k;
      for (size_t row = 0; row < kPanel; ++row) __builtin_prefetch(next + row * stride);
    }
    const float *first = w + k, *second = first + kLanes * stride;
    asm("" : "+r"(first), "+r"(second));  // or gcc 12 breaks down over the addresses
    turn_four(first, stride, panel + k * kPanel);
    turn_four(second, stride, panel + k * kPanel + kLanes);
  }
}
#endif

#undef BALLAST_TURNS_LINES
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
#define BALLAST_TURNS_LINES 1
// A word of each of 16 rows, turned into the vectors of the panel that it stands for. Two neighbours of 16 bits are
// turned as one word and taken apart afterwards, which is less work than turning floats.
HWY_INLINE void store_words(F32Weight, __m512i words, float* to) { _mm512_storeu_si512(to, words); }
HWY_INLINE void store_words(Bf16Weight, __m512i words, float* to) {
  _mm512_storeu_si512(to, _mm512_slli_epi32(words, 16));
  _mm512_storeu_si512(to + kPanel, _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000))));
}
HWY_INLINE void store_words(F16Weight, __m512i words, float* to) {
  alignas(64) static constexpr uint16_t kApart[32] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                                                      1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
  const __m512i apart = _mm512_permutexvar_epi16(_mm512_load_si512(kApart), words);
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm512_castsi512_si256(apart)));
  _mm512_storeu_ps(to + kPanel, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(apart, 1)));
}

template <class Weight>
constexpr size_t kLineTerms = kCacheLine / Weight::kBytes;

// The line of the cache that 16 rows have at w.
template <class Weight>
HWY_INLINE void turn_lines(const std::byte* w, size_t row_bytes, float* panel) {
  __m512i v[16];
  BALLAST_UNROLL for (size_t row = 0; row < 16; ++row) v[row] = _mm512_loadu_si512(w + row * row_bytes);
  turn_words(v);
  BALLAST_UNROLL for (size_t i = 0; i < 16; ++i)
      store_words(Weight(), v[i], panel + i * kLineTerms<Weight> / 16 * kPanel);
}

// Whole panels, as many terms as there are in whole lines; returns how many that were. A line is used up at once, so
// that it does not matter when rows push each other out of the first-level cache, and what comes next waits in the
// second.
template <class Weight>
size_t pack_lines(const std::byte* w, size_t stride, size_t terms, float* panel, ptrdiff_t ahead) {
  const size_t row_bytes = stride * Weight::kBytes;
  size_t k = 0;
  for (; k + kLineTerms<Weight> <= terms; k += kLineTerms<Weight>) {
    const std::byte* at = w + k * Weight::kBytes;
    const std::byte* next = at + ahead * static_cast<ptrdiff_t>(Weight::kBytes);
    for (size_t row = 0; row < kPanel; ++row) __builtin_prefetch(next + row * row_bytes, 0, 2);
    turn_lines<Weight>(at, row_bytes, panel + k * kPanel);
    turn_lines<Weight>(at + kLanes * row_bytes, row_bytes, panel + k * kPanel + kLanes);
  }
  return k;
}

// sum + factors[...] * w, term by term, for the terms that a word of each row stands for.
HWY_INLINE Vector add_words(F32Weight, __m512i words, const float* factors, Vector sum) {
  return hn::MulAdd(splat(factors[0]), Vector{_mm512_castsi512_ps(words)}, sum);
}
HWY_INLINE Vector add_words(Bf16Weight, __m512i words, const float* factors, Vector sum) {
  const __m512i high = _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000)));
  sum = hn::MulAdd(splat(factors[0]), Vector{_mm512_castsi512_ps(_mm512_slli_epi32(words, 16))}, sum);
  return hn::MulAdd(splat(factors[1]), Vector{_mm512_castsi512_ps(high)}, sum);
}
HWY_INLINE Vector add_words(F16Weight, __m512i words, const float* factors, Vector sum) {
  const __m256i low = _mm512_cvtepi32_epi16(words);
  const __m256i high = _mm512_cvtepi32_epi16(_mm512_srli_epi32(words, 16));
  sum = hn::MulAdd(splat(factors[0]), Vector{_mm512_cvtph_ps(low)}, sum);
  return hn::MulAdd(splat(factors[1]), Vector{_mm512_cvtph_ps(high)}, sum);
}

// Of 16 rows, one after the other in memory. Half a panel, because a processor follows so many streams of memory better
// than twice as many.
template <class Weight>
size_t multiply_row_lines(const float* a, const std::byte* w, size_t terms, float* c) {
  constexpr size_t kTerms = kLineTerms<Weight>;
  constexpr size_t kAhead = 4 * kCacheLine;
  const size_t row_bytes = terms * Weight::kBytes;
  Vector sum = zeros();
  size_t k = 0;
  for (; k + kTerms <= terms; k += kTerms) {
    const std::byte* const at = w + k * Weight::kBytes;
    // After the last lines of these rows come the first of the next 16.
    const std::byte* const next = at + kAhead + (k * Weight::kBytes + kAhead < row_bytes ? 0 : 15 * row_bytes);
    __m512i v[16];
    BALLAST_UNROLL for (size_t row = 0; row < 16; ++row) {
      __builtin_prefetch(next + row * row_bytes, 0, 2);
      v[row] = _mm512_loadu_si512(at + row * row_bytes);
    }
    turn_words(v);
    BALLAST_UNROLL for (size_t i = 0; i < 16; ++i) sum = add_words(Weight(), v[i], a + k + i * (kTerms / 16), sum);
  }
  if (k != 0) store(sum, c);
  return k;
}

template <class Weight>
size_t multiply_row_halves(const float* a, const std::byte* w, size_t terms, float* c) {
  multiply_row_lines<Weight>(a, w, terms, c);
  return multiply_row_lines<Weight>(a, w + kLanes * terms * Weight::kBytes, terms, c + kLanes);
}

size_t multiply_row_across(const float* a, const WeightView& w, size_t terms, float* c) {
  switch (w.dtype) {
    case DType::kF16: return multiply_row_halves<F16Weight>(a, w.data, terms, c);
    case DType::kBF16: return multiply_row_halves<Bf16Weight>(a, w.data, terms, c);
    default: return multiply_row_halves<F32Weight>(a, w.data, terms, c);
  }
}
#elif HWY_ARCH_WASM
#define BALLAST_TURNS_LINES 0
using WordVector = hn::Vec<Words>;

// Four words of each of four rows: vector i becomes word i of them all.
HWY_INLINE void turn_words(const std::byte* w, size_t row_bytes, WordVector* v) {
  const Words d;
  const hn::RepartitionToWide<Words> pairs;
  const auto row = [&](size_t i)
                       HWY_ATTR { return hn::LoadU(d, reinterpret_cast<const uint32_t*>(w + i * row_bytes)); };
  const WordVector r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  v[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

// sum + factors[...] * w, term by term, for the terms that a word of each row stands for: of two neighbours of 16 bits
// no more is to be done than of one float.
HWY_INLINE Vector add_words(F32Weight, WordVector words, const float* factors, Vector sum) {
  return hn::MulAdd(splat(factors[0]), hn::BitCast(Floats(), words), sum);
}
HWY_INLINE Vector add_words(Bf16Weight, WordVector words, const float* factors, Vector sum) {
  const WordVector high = hn::And(words, hn::Set(Words(), 0xFFFF0000));
  sum = hn::MulAdd(splat(factors[0]), hn::BitCast(Floats(), hn::ShiftLeft<16>(words)), sum);
  return hn::MulAdd(splat(factors[1]), hn::BitCast(Floats(), high), sum);
}

template <class Weight>
size_t multiply_row_words(const float* a, const std::byte* w, size_t terms, float* c) {
  constexpr size_t kWordTerms = sizeof(uint32_t) / Weight::kBytes, kTerms = 4 * kWordTerms;
  const size_t row_bytes = terms * Weight::kBytes;
  Vector left = zeros(), right = zeros();
  size_t k = 0;
  for (; k + kTerms <= terms; k += kTerms) {
    const std::byte* const at = w + k * Weight::kBytes;
    WordVector v[4];
    turn_words(at, row_bytes, v);
    BALLAST_UNROLL for (size_t i = 0; i < 4; ++i) left = add_words(Weight(), v[i], a + k + i * kWordTerms, left);
    turn_words(at + kLanes * row_bytes, row_bytes, v);
    BALLAST_UNROLL for (size_t i = 0; i < 4; ++i) right = add_words(Weight(), v[i], a + k + i * kWordTerms, right);
  }
  if (k == 0) return 0;
  store(left, c);
  store(right, c + kLanes);
  return k;
}

size_t multiply_row_across(const float* a, const WeightView& w, size_t terms, float* c) {
  switch (w.dtype) {
    case DType::kF32: return multiply_row_words<F32Weight>(a, w.data, terms, c);
    case DType::kBF16: return multiply_row_words<Bf16Weight>(a, w.data, terms, c);
    default: return 0;
  }
}
#else
#define BALLAST_TURNS_LINES 0
size_t multiply_row_across(const float*, const WeightView&, size_t, float*) { return 0; }
#endif

// Through a square of floats: rows whose distance is a power of two would push each other out of the cache while
// they are turned.
template <class Weight>
void pack_squares(const std::byte* w, size_t stride, size_t terms, size_t columns, float* panel, ptrdiff_t ahead) {
  HWY_ALIGN float square[kPanel * kTurnTerms];
  for (size_t row = columns; row < kPanel; ++row) std::memset(square + row * kTurnTerms, 0, kTurnTerms * sizeof(float));
  for (size_t begin = 0; begin < terms; begin += kTurnTerms) {
    const size_t count = smaller(kTurnTerms, terms - begin);
    for (size_t row = 0; row < columns; ++row) {
      const std::byte* from = w + (row * stride + begin) * Weight::kBytes;
      const std::byte* next = from + ahead * static_cast<ptrdiff_t>(Weight::kBytes);
      fetch_lines<2>(next, kTurnTerms * Weight::kBytes);
      widen_row<Weight>(from, count, square + row * kTurnTerms);
    }
    turn(square, count, panel + begin * kPanel);
  }
}

template <class Weight>
void pack_across(const std::byte* w, size_t stride, size_t terms, size_t columns, float* panel, ptrdiff_t ahead) {
  size_t done = 0;
#if BALLAST_TURNS_LINES
  if (columns == kPanel) done = pack_lines<Weight>(w, stride, terms, panel, ahead);
#endif
  if (done == terms) return;
  pack_squares<Weight>(w + done * Weight::kBytes, stride, terms - done, columns, panel + done * kPanel, ahead);
}

void pack_panel_across(const WeightView& w, size_t stride, size_t terms, size_t columns, float* panel,
                       ptrdiff_t ahead) {
#if HWY_TARGET != HWY_SCALAR
  if (w.dtype == DType::kF32 && stride <= kCloseRows && terms % 4 == 0 && columns == kPanel) {
    return turn_close(reinterpret_cast<const float*>(w.data), stride, terms, panel, ahead);
  }
#endif
  switch (w.dtype) {
    case DType::kF16: return pack_across<F16Weight>(w.data, stride, terms, columns, panel, ahead);
    case DType::kBF16: return pack_across<Bf16Weight>(w.data, stride, terms, columns, panel, ahead);
    default: return pack_across<F32Weight>(w.data, stride, terms, columns, panel, ahead);
  }
}

// ---------------------------------------------------------------- endings
template <class F>
HWY_INLINE void finish(float* c, size_t columns, const Ending& ending, F f) {
  const auto at = [&](size_t i, size_t count, Vector sum) HWY_ATTR {
    const bool whole = count == kLanes;
    const auto operand = [&](const float* from)
                             HWY_ATTR { return whole ? load(from + i) : load_part(from + i, count); };
    if (ending.bias != nullptr) sum = hn::Add(sum, operand(ending.bias));
    if (ending.residual_first && ending.residual != nullptr) sum = hn::Add(sum, operand(ending.residual));
    sum = f(sum);
    if (!ending.residual_first && ending.residual != nullptr) sum = hn::Add(sum, operand(ending.residual));
    return sum;
  };
  size_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) store(at(i, kLanes, load(c + i)), c + i);
  if (i < columns) store_part(at(i, columns - i, load_part(c + i, columns - i)), c + i, columns - i);
}

void finish_row(float* c, size_t columns, const Ending& ending) {
  switch (ending.activation) {
    case Activation::kNone: return finish(c, columns, ending, Identity());
    case Activation::kRelu: return finish(c, columns, ending, Relu());
    case Activation::kRelu6: return finish(c, columns, ending, Relu6());
    case Activation::kGeluErf: return finish(c, columns, ending, GeluErf());
    case Activation::kGeluTanh: return finish(c, columns, ending, GeluTanh());
    case Activation::kSilu: return finish(c, columns, ending, Silu());
  }
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
