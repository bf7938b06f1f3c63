// Sums over the rows of a matrix, in pieces that depend on its shape alone. Included once per target.
#if defined(BALLAST_BACKENDS_CPU_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_BACKENDS_CPU_SUMS_INL_H
#undef BALLAST_BACKENDS_CPU_SUMS_INL_H
#else
#define BALLAST_BACKENDS_CPU_SUMS_INL_H
#endif

#include "ballast/backends/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

// The first `count` lanes, at least one of them; the others are 0.
HWY_INLINE Vector load_some(const float* from, size_t count) {
  return kLanes == 1 || count == kLanes ? load(from) : load_part(from, count);
}
HWY_INLINE void store_some(Vector v, float* to, size_t count) {
  if (kLanes == 1 || count == kLanes) store(v, to);
  else store_part(v, to, count);
}

// Calls body(i, lanes) for the vectors of [0, count); the last may have fewer lanes.
template <class Body>
HWY_INLINE void for_vectors(size_t count, const Body& body) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, kLanes);
  if (i < count) body(i, count - i);
}

// The sum over f(i, lanes), which gives a vector for [i, i + lanes).
template <class F>
HWY_INLINE float sum_vectors(size_t count, const F& f) {
  Vector even = zeros(), odd = zeros();
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    even = hn::Add(even, f(i, kLanes));
    odd = hn::Add(odd, f(i + kLanes, kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) even = hn::Add(even, f(i, kLanes));
  if (i < count) {
    even = hn::Add(even, hn::IfThenElseZero(hn::FirstN(Floats(), count - i), f(i, count - i)));
  }
  return hn::GetLane(hn::SumOfLanes(Floats(), hn::Add(even, odd)));
}

// Columns that are summed at once: their sums are kept on the stack.
constexpr size_t kSumColumns = 512;
constexpr size_t kSumPieces = 16;

template <size_t kSums>
struct ColumnSums {
  HWY_ALIGN float of[kSums][kSumColumns];
};

// One piece of rows, columns [begin, begin + kVectors * kLanes), or `lanes` of one vector.
template <size_t kSums, size_t kVectors, class F>
HWY_INLINE void sum_strip(size_t row_begin, size_t row_end, size_t begin, size_t lanes, ColumnSums<kSums>& to,
                          const F& f) {
  Vector sums[kVectors][kSums];
  BALLAST_UNROLL for (size_t v = 0; v < kVectors; ++v) {
    BALLAST_UNROLL for (size_t s = 0; s < kSums; ++s) sums[v][s] = zeros();
  }
  for (size_t row = row_begin; row < row_end; ++row) {
    BALLAST_UNROLL for (size_t v = 0; v < kVectors; ++v) f(row, begin + v * kLanes, lanes, sums[v]);
  }
  BALLAST_UNROLL for (size_t v = 0; v < kVectors; ++v) {
    BALLAST_UNROLL for (size_t s = 0; s < kSums; ++s) store_some(sums[v][s], to.of[s] + begin + v * kLanes, lanes);
  }
}

// totals.of[s][column] = the sum over all rows of what f(row, column, lanes, sums) adds to sums[s], for at most
// kSumColumns columns.
template <size_t kSums, class F>
HWY_INLINE void sum_columns(size_t rows, size_t columns, ColumnSums<kSums>& totals, ThreadPool& pool, const F& f) {
  constexpr size_t kVectors = 4, kStrip = kVectors * kLanes;
  constexpr size_t kWorth = 16384;  // elements that are worth another thread
  const size_t pieces = larger(1, smaller(kSumPieces, rows / 32));
  const size_t strips = divide_up(columns, kStrip);
  ColumnSums<kSums> partial[kSumPieces];
  const size_t grain = larger(1, kWorth / larger(1, rows / pieces * kStrip));
  pool.for_ranges(pieces * strips, grain, [&](size_t from, size_t to) HWY_ATTR {
    for (size_t task = from; task < to; ++task) {
      const size_t piece = task / strips, begin = task % strips * kStrip;
      const size_t row_begin = rows * piece / pieces, row_end = rows * (piece + 1) / pieces;
      if (begin + kStrip <= columns) {
        sum_strip<kSums, kVectors>(row_begin, row_end, begin, kLanes, partial[piece], f);
        continue;
      }
      for_vectors(columns - begin, [&](size_t i, size_t lanes) HWY_ATTR {
        sum_strip<kSums, 1>(row_begin, row_end, begin + i, lanes, partial[piece], f);
      });
    }
  });
  for (size_t s = 0; s < kSums; ++s) {
    std::memcpy(totals.of[s], partial[0].of[s], columns * sizeof(float));
    for (size_t piece = 1; piece < pieces; ++piece) {
      map(totals.of[s], partial[piece].of[s], totals.of[s], columns,
          [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); });
    }
  }
}

// to = or += from
HWY_INLINE void put_sums(const float* from, float* to, size_t count, bool add) {
  if (!add) std::memcpy(to, from, count * sizeof(float));
  else map(to, from, to, count, [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); });
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_BACKENDS_CPU_SUMS_INL_H
