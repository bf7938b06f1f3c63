// Products with weights. Few rows stream the weight as it lies; many rows go through panels that stay in the cache.
#include "ballast/backends/cpu/bf16_tiles.h"
#include "ballast/backends/cpu/block_kernels.h"
#include "ballast/backends/cpu/kernels.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/gemm.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

WeightView moved(WeightView w, size_t elements) {
  w.data += elements * bytes_of_element(w.dtype);
  return w;
}

// ---------------------------------------------------------------- few rows
// Up to this many rows a weight is read once and not copied. Weights [N, K] are turned on the way, which pays as long
// as one tile takes all rows.
constexpr size_t kStreamRows = 16;
constexpr size_t kStreamRowsAcross = kTileRows < 8 ? 8 : kTileRows;
static_assert(kStreamRowsAcross <= kStreamRows);
// Rows of the weight that are read side by side: so many streams of memory, and so few loads and stores of sums.
constexpr size_t kStreams = 8;

// c[row] += a[row][0..kDepth) * w[kDepth, columns]
template <class Weight, size_t kRows, size_t kDepth>
HWY_INLINE void stream(const float* const* a, const std::byte* w, size_t stride, float* const* c, size_t begin,
                       size_t columns) {
  Vector factors[kRows][kDepth];
  BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
    BALLAST_UNROLL for (size_t k = 0; k < kDepth; ++k) factors[row][k] = splat(a[row][k]);
  }
  const auto step = [&](size_t j, size_t count) HWY_ATTR {
    const bool whole = count == kLanes;
    Vector sums[kRows];
    BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
      sums[row] = whole ? load(c[row] + j) : load_part(c[row] + j, count);
    }
    BALLAST_UNROLL for (size_t k = 0; k < kDepth; ++k) {
      const std::byte* at = w + (k * stride + j) * Weight::kBytes;
      if constexpr (kDepth > 1) __builtin_prefetch(at + kStreams * stride * Weight::kBytes);
      const Vector weight = whole ? Weight::load(at) : load_weight_part<Weight>(at, count);
      BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
        sums[row] = hn::MulAdd(factors[row][k], weight, sums[row]);
      }
    }
    BALLAST_UNROLL for (size_t row = 0; row < kRows; ++row) {
      if (whole) store(sums[row], c[row] + j);
      else store_part(sums[row], c[row] + j, count);
    }
  };
  size_t j = begin;
  for (; j + kLanes <= begin + columns; j += kLanes) step(j, kLanes);
  if (j < begin + columns) step(j, begin + columns - j);
}

// All m rows for kDepth rows of the weight, which the first group of rows brings into the cache.
template <class Weight, size_t kDepth>
HWY_INLINE void stream_rows(const float* const* a, size_t m, const std::byte* w, size_t stride, float* const* c,
                            size_t begin, size_t columns) {
  // No more factors than registers hold.
  constexpr size_t kDepthOfFour = kDepth < 4 ? kDepth : 4;
  size_t row = 0;
  for (; row + 4 <= m; row += 4) {
    for (size_t k = 0; k < kDepth; k += kDepthOfFour) {
      const float* at[] = {a[row] + k, a[row + 1] + k, a[row + 2] + k, a[row + 3] + k};
      stream<Weight, 4, kDepthOfFour>(at, w + k * stride * Weight::kBytes, stride, c + row, begin, columns);
    }
  }
  for (; row + 2 <= m; row += 2) stream<Weight, 2, kDepth>(a + row, w, stride, c + row, begin, columns);
  for (; row < m; ++row) stream<Weight, 1, kDepth>(a + row, w, stride, c + row, begin, columns);
}

template <class Weight>
void stream_columns(const GemmTile<float>& tile, size_t begin, size_t columns) {
  const float* a[kStreamRows];
  float* c[kStreamRows];
  for (size_t row = 0; row < tile.m; ++row) {
    a[row] = tile.a + row * tile.a_stride + tile.begin;
    c[row] = tile.c + row * tile.c_stride;
    if (tile.first) std::memset(c[row] + begin, 0, columns * sizeof(float));
  }
  size_t k = 0;
  const auto advance = [&](size_t by) {
    k += by;
    for (size_t row = 0; row < tile.m; ++row) a[row] += by;
  };
  while (k + kStreams <= tile.count) {
    stream_rows<Weight, kStreams>(a, tile.m, tile.w.data + k * tile.n * Weight::kBytes, tile.n, c, begin, columns);
    advance(kStreams);
  }
  while (k < tile.count) {
    stream_rows<Weight, 1>(a, tile.m, tile.w.data + k * tile.n * Weight::kBytes, tile.n, c, begin, columns);
    advance(1);
  }
}

void finish_tile(const GemmTile<float>& tile, size_t row_begin, size_t row_end, size_t begin, size_t columns) {
  for (size_t row = row_begin; row < row_end; ++row) {
    Ending ending;
    ending.activation = tile.activation;
    if (tile.bias != nullptr) ending.bias = tile.bias + begin;
    if (tile.residual != nullptr) ending.residual = tile.residual + row * tile.c_stride + begin;
    if (!ending.none()) finish_row(tile.c + row * tile.c_stride + begin, columns, ending);
  }
}

void stream_product(const GemmTile<float>& tile, size_t begin, size_t end) {
  // Sums of so many columns stay in the first-level cache while the weight passes by.
  constexpr size_t kSums = 4096;
  const size_t block = larger(kSums / tile.m, 512);
  for (size_t at = begin; at < end; at += block) {
    const size_t columns = smaller(block, end - at);
    switch (tile.w.dtype) {
      case DType::kF16: stream_columns<F16Weight>(tile, at, columns); break;
      case DType::kBF16: stream_columns<Bf16Weight>(tile, at, columns); break;
      default: stream_columns<F32Weight>(tile, at, columns);
    }
    if (tile.last) finish_tile(tile, 0, tile.m, at, columns);
  }
}

// Terms of a panel that are turned at once, and how far ahead of them the rows of the weight are fetched.
constexpr size_t kStreamTerms = 32;
constexpr size_t kStreamAhead = 128;

// The same for outputs [begin, end) of a weight [N, K]. A few terms of a panel are turned and used at once.
void stream_product_across(const GemmTile<float>& tile, size_t begin, size_t end) {
  HWY_ALIGN float panel[kStreamTerms * kPanel];
  // Tiles of about the same size, worked out here: divisions show inside the loops.
  const size_t tile_rows = divide_up(tile.m, divide_up(tile.m, kTileRows));
  for (size_t j = begin; j < end; j += kPanel) {
    const size_t columns = smaller(kPanel, end - j);
    const float* a[kStreamRows];
    float* c[kStreamRows];
    for (size_t row = 0; row < tile.m; ++row) c[row] = tile.c + row * tile.c_stride + j;
    size_t k = 0;
    if (tile.m == 1 && columns == kPanel) {
      k = multiply_row_across(tile.a, moved(tile.w, (j - tile.begin) * tile.k), tile.k, c[0]);
    }
    for (bool begun = k != 0; !begun || k < tile.k; begun = true) {
      const size_t terms = smaller(kStreamTerms, tile.k - k);
      // After the last terms come the first of the next panel.
      const auto ahead =
          static_cast<ptrdiff_t>(k + kStreamAhead < tile.k ? kStreamAhead : (kPanel - 1) * tile.k + kStreamAhead);
      pack_panel_across(moved(tile.w, (j - tile.begin) * tile.k + k), tile.k, terms, columns, panel, ahead);
      for (size_t row = 0; row < tile.m; ++row) a[row] = tile.a + row * tile.a_stride + k;
      for (size_t row = 0; row < tile.m; row += tile_rows) {
        multiply_panel({.a = a + row,
                        .rows = smaller(tile_rows, tile.m - row),
                        .length = terms,
                        .w = panel,
                        .c = c + row,
                        .columns = columns,
                        .add = begun});
      }
      k += terms;
    }
    finish_tile(tile, 0, tile.m, j, columns);
  }
}

// Long pieces: memory is read fastest from end to end.
size_t stream_grain(size_t columns, size_t threads) {
  const size_t pieces = threads * larger(1, smaller(4, columns / (threads * 2048)));
  return larger(kPanel, divide_up(divide_up(columns, pieces), 16) * 16);
}

// ---------------------------------------------------------------- many rows
// A block of packed panels stays in the second-level cache, on the stack of the thread that packed it.
constexpr size_t kBlockTerms = 256;
constexpr size_t kBlockColumns = 256;

struct Part {
  size_t row_begin, row_end, begin, end;  // columns [begin, end) of the result
};

// A panel of a weight in blocks, from terms that begin and end with one.
void pack_panel_of_blocks(const GemmTile<float>& tile, size_t j, size_t k, size_t terms, size_t columns, float* panel) {
  HWY_ALIGN float rows[kPanel * kBlockTerms];
  for (size_t column = 0; column < columns; ++column) {
    const std::byte* from = tile.w.data + bytes_of_blocks(tile.w.dtype, (j - tile.begin + column) * tile.k + k);
    widen_blocks(tile.w.dtype, from, rows + column * kBlockTerms, terms);
  }
  const WeightView plain{reinterpret_cast<const std::byte*>(rows), DType::kF32, false};
  pack_panel_across(plain, kBlockTerms, terms, columns, panel);
}

// Terms [k, k + terms) of the columns of a part, as panels one after the other.
void pack_block(const GemmTile<float>& tile, const Part& part, size_t k, size_t terms, float* panels) {
  const bool in_blocks = is_in_blocks(tile.w.dtype);
  for (size_t j = part.begin; j < part.end; j += kPanel, panels += terms * kPanel) {
    const size_t columns = smaller(kPanel, part.end - j);
    if (in_blocks) pack_panel_of_blocks(tile, j, k, terms, columns, panels);
    else if (tile.layout == WeightLayout::kInOut)
      pack_panel(moved(tile.w, k * tile.n + j), tile.n, terms, columns, panels);
    else pack_panel_across(moved(tile.w, (j - tile.begin) * tile.k + k), tile.k, terms, columns, panels);
  }
}

// Rows whose distance is a multiple of this push each other out of the first-level cache; many panels are worth
// bringing them together.
constexpr size_t kUnkindDistance = 1024;
constexpr size_t kManyPanels = 4;
constexpr size_t kTogether = kBlockTerms + 16;

void multiply_part(const GemmTile<float>& tile, const Part& part) {
  const bool across = tile.layout == WeightLayout::kOutIn;
  const size_t terms = across ? tile.k : tile.count;
  const size_t first_term = across ? 0 : tile.begin;
  const bool last = across || tile.last;
  const bool bring = tile.a_stride % kUnkindDistance == 0 && part.end - part.begin >= kManyPanels * kPanel;
  HWY_ALIGN float panels[kBlockTerms * kBlockColumns];
  HWY_ALIGN float together[kTileRows * kTogether];
  const Tiles tiles{part.row_end - part.row_begin};
  size_t k = 0;
  do {
    const size_t count = smaller(kBlockTerms, terms - k);
    pack_block(tile, part, k, count, panels);
    for (size_t t = 0; t < tiles.tiles; ++t) {
      const size_t row_begin = part.row_begin + tiles.begin(t);
      const size_t row_end = part.row_begin + tiles.begin(t + 1);
      MatrixProduct product{.a = tile.a + row_begin * tile.a_stride + first_term + k,
                            .row_stride = static_cast<size_t>(tile.a_stride)};
      product.rows = row_end - row_begin;
      product.length = count;
      product.w = panels;
      product.c_stride = tile.c_stride;
      product.add = k != 0 || !(across || tile.first);
      if (bring && count != 0) {  // without terms there may be no memory either
        for (size_t row = 0; row < product.rows; ++row) {
          std::memcpy(together + row * kTogether, product.a + row * tile.a_stride, count * sizeof(float));
        }
        product.a = together;
        product.row_stride = kTogether;
      }
      for (size_t j = part.begin; j < part.end; j += kPanel) {
        product.c = tile.c + row_begin * tile.c_stride + j;
        product.columns = smaller(kPanel, part.end - j);
        multiply_matrix(product);
        product.w += count * kPanel;
      }
      if (last && k + count == terms) finish_tile(tile, row_begin, row_end, part.begin, part.end - part.begin);
    }
    k += count;
  } while (k < terms);
}

// How a product is cut into parts. Neither affects a bit of the result.
struct Grid {
  size_t m, begin, end;
  size_t rows, columns;  // of a part
  size_t across = divide_up(end - begin, columns);
  size_t down = divide_up(m, rows);
  size_t count = across * down;

  // Side by side, or, to read each weight for all rows in a row, one below the other.
  Part part(size_t index) const { return at(index / across, index % across); }
  Part part_below(size_t index) const { return at(index % down, index / down); }

  Part at(size_t i, size_t j) const {
    const size_t row = i * rows, column = begin + j * columns;
    return {row, smaller(m, row + rows), column, smaller(end, column + columns)};
  }
};

Grid make_grid(size_t m, size_t begin, size_t end, size_t threads) {
  // Three parts for each thread, so that none waits long for the last; narrower ones first, since cutting rows means
  // packing twice.
  const size_t wanted = threads == 1 ? 1 : 3 * threads;
  size_t columns = smaller(kBlockColumns, divide_up(divide_up(end - begin, wanted), kPanel) * kPanel);
  columns = larger(columns, smaller(kBlockColumns, 2 * kPanel));
  const size_t across = divide_up(end - begin, columns);
  const size_t down = larger(1, smaller(divide_up(wanted, across), m / (8 * kTileRows)));
  return {m, begin, end, larger(1, divide_up(m, down)), columns};
}

void multiply_in_parts(const GemmTile<float>& tile, size_t begin, size_t end, ThreadPool& pool) {
  const Grid grid = make_grid(tile.m, begin, end, pool.size());
  pool.for_ranges(grid.count, 1, [&](size_t from, size_t to) HWY_ATTR {
    for (size_t index = from; index < to; ++index) multiply_part(tile, grid.part(index));
  });
}

// ---------------------------------------------------------------- weights in blocks, by integers
bool is_by_integers(const GemmTile<float>& tile) {
  return tile.numerics == Numerics::kFast && tile.k != 0 && multiplies_blocks(tile.w.dtype);
}

// Outputs that a thread goes through at once.
size_t integer_grain(const GemmTile<float>& tile, RoundedForm form, size_t threads) {
  constexpr size_t kMultiple = 32;
  const size_t share = divide_up(divide_up(tile.count, 4 * threads), kMultiple) * kMultiple;
  // Stripes of so many stay in the second-level cache while all rows go through them.
  constexpr size_t kPiece = 64;
  return form == RoundedForm::kTiles || tile.m <= 16 ? share : smaller(kPiece, share);
}

// Pieces of activations that a thread rounds at once: enough to be worth waking it.
size_t rounding_grain(RoundedForm form, size_t pieces, size_t k, size_t threads) {
  constexpr size_t kStripesAtOnce = 16;
  const size_t least = form == RoundedForm::kTiles ? 1 : divide_up(kStripesAtOnce, stripes_of(k));
  return larger(least, divide_up(pieces, 2 * threads));
}

void multiply_by_integers(const GemmTile<float>& tile, ThreadPool& pool) {
  const RoundedForm form = rounded_form(tile.w.dtype, tile.m, tile.w.packed);
  if (!tile.is_prepared) {
    const Activations a{tile.a, static_cast<size_t>(tile.a_stride), static_cast<size_t>(tile.m),
                        static_cast<size_t>(tile.k)};
    const size_t pieces = rounded_pieces(form, tile.m, tile.k);
    pool.for_ranges(pieces, rounding_grain(form, pieces, tile.k, pool.size()),
                    [&](size_t from, size_t to) HWY_ATTR { round_activations(a, form, from, to, tile.scratch); });
  }
  const size_t grain = integer_grain(tile, form, pool.size());
  pool.for_ranges(tile.count, grain, [&](size_t from, size_t to) HWY_ATTR {
    for (size_t at = from; at < to; at += grain) {
      const size_t end = smaller(at + grain, to);
      multiply_blocks({.dtype = tile.w.dtype,
                       .w = tile.w.data,
                       .row_bytes = bytes_of_blocks(tile.w.dtype, tile.k),
                       .form = form,
                       .a = tile.scratch,
                       .m = static_cast<size_t>(tile.m),
                       .k = static_cast<size_t>(tile.k),
                       .c = tile.c + tile.begin,
                       .c_stride = static_cast<size_t>(tile.c_stride),
                       .begin = at,
                       .end = end,
                       .packed = tile.w.packed});
      finish_tile(tile, 0, tile.m, tile.begin + at, end - at);
    }
  });
}

// ---------------------------------------------------------------- bf16 weights, by tiles
// Few rows read long pieces of the weight. Of many, a part is a block whose activations and sums stay in a cache; parts
// become narrower until there are some for each thread, because shorter ones would read the weight more often.
Grid make_tile_grid(size_t m, size_t outputs, size_t threads) {
  constexpr size_t kNarrowest = 64;
  const auto width = [&](size_t pieces) { return larger(1, divide_up(divide_up(outputs, pieces), kPanel)) * kPanel; };
  if (m <= kDirectRows) return {m, 0, outputs, larger(1, m), width(threads == 1 ? 1 : 4 * threads)};
  const size_t down = divide_up(m, kMostRows);
  const size_t rows = divide_up(divide_up(m, down), 16) * 16;
  const size_t across = threads == 1 ? 1 : divide_up(3 * threads, down);
  return {m, 0, outputs, rows, larger(kNarrowest, smaller(kMostOutputs, width(across)))};
}

void split_rows(const GemmTile<float>& tile, ThreadPool& pool) {
  const size_t least = tile.m <= kDirectRows ? 512 : 32;  // steps worth waking a thread for
  const size_t steps = split_groups_of(tile.m) * split_steps_of(tile.k);
  pool.for_ranges(steps, larger(least, divide_up(steps, 2 * pool.size())), [&](size_t from, size_t to) HWY_ATTR {
    split_activations({tile.a, static_cast<size_t>(tile.a_stride), static_cast<size_t>(tile.m),
                       static_cast<size_t>(tile.k), from, to, tile.scratch});
  });
}

void multiply_by_bf16_tiles(const GemmTile<float>& tile, ThreadPool& pool) {
  if (!tile.is_prepared) split_rows(tile, pool);
  const Grid grid = make_tile_grid(tile.m, tile.count, pool.size());
  pool.for_ranges(grid.count, 1, [&](size_t from, size_t to) HWY_ATTR {
    for (size_t index = from; index < to; ++index) {
      const Part part = grid.part_below(index);
      multiply_bf16_tiles({.w = tile.w.data,
                           .a = tile.scratch,
                           .m = static_cast<size_t>(tile.m),
                           .k = static_cast<size_t>(tile.k),
                           .c = tile.c + tile.begin,
                           .c_stride = static_cast<size_t>(tile.c_stride),
                           .row_begin = part.row_begin,
                           .row_end = part.row_end,
                           .begin = part.begin,
                           .end = part.end});
      finish_tile(tile, part.row_begin, part.row_end, tile.begin + part.begin, part.end - part.begin);
    }
  });
}

// ---------------------------------------------------------------- doors
void gemm(const GemmTile<float>& tile, ThreadPool& pool) {
  const bool across = tile.layout == WeightLayout::kOutIn;
  const size_t begin = across ? tile.begin : 0;
  const size_t end = across ? tile.begin + tile.count : tile.n;
  if (tile.m == 0 || begin == end) return;
  if (is_in_blocks(tile.w.dtype)) {
    if (is_by_integers(tile)) multiply_by_integers(tile, pool);
    else multiply_in_parts(tile, begin, end, pool);
    return;
  }
  if (is_by_bf16_tiles(tile)) return multiply_by_bf16_tiles(tile, pool);
  if (!across && tile.m <= kStreamRows) {
    pool.for_ranges(end, stream_grain(end, pool.size()),
                    [&](size_t from, size_t to) HWY_ATTR { stream_product(tile, from, to); });
    return;
  }
  if (across && tile.m <= kStreamRowsAcross) {
    const size_t grain = divide_up(divide_up(end - begin, 4 * pool.size()), kPanel) * kPanel;
    pool.for_ranges(end - begin, grain,
                    [&](size_t from, size_t to) HWY_ATTR { stream_product_across(tile, begin + from, begin + to); });
    return;
  }
  multiply_in_parts(tile, begin, end, pool);
}

void batched_matmul(const BatchedMatmul<float>& problem, ThreadPool& pool) {
  if (problem.m == 0 || problem.n == 0) return;
  const size_t threads = problem.batch >= pool.size() ? 1 : pool.size();
  const Grid grid = make_grid(problem.m, 0, problem.n, threads);
  pool.for_ranges(problem.batch * grid.count, 1, [&](size_t from, size_t to) HWY_ATTR {
    for (size_t index = from; index < to; ++index) {
      const size_t batch = index / grid.count;
      GemmTile<float> tile;
      tile.a = problem.a + batch * problem.m * problem.k;
      tile.c = problem.c + batch * problem.m * problem.n;
      tile.m = problem.m;
      tile.n = tile.c_stride = problem.n;
      tile.k = tile.a_stride = tile.count = problem.k;
      tile.w.data = reinterpret_cast<const std::byte*>(problem.b + batch * problem.k * problem.n);
      multiply_part(tile, grid.part(index % grid.count));
    }
  });
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu {

HWY_EXPORT(gemm);
HWY_EXPORT(batched_matmul);

void gemm(const GemmTile<float>& tile, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(gemm)(tile, pool); }
uint64_t gemm_scratch(const GemmTile<float>& tile) {
  if (is_by_bf16_tiles(tile)) return split_bytes(tile.m, tile.k);
  if (tile.numerics != Numerics::kFast || !multiplies_blocks(tile.w.dtype)) return 0;
  return rounded_bytes(rounded_form(tile.w.dtype, tile.m, tile.w.packed), tile.m, tile.k);
}
uint64_t gemm_packed_bytes(const GemmTile<float>& tile) {
  const bool may_be = tile.numerics == Numerics::kFast && tile.layout == WeightLayout::kOutIn;
  return may_be ? packed_bytes(tile.w.dtype, tile.n, tile.k) : 0;
}
void gemm_pack(const GemmTile<float>& tile, std::byte* packed, ThreadPool& pool) {
  const size_t row_bytes = bytes_of_blocks(tile.w.dtype, tile.k);
  pool.for_ranges(tile.count, kPackedOutputs, [&](size_t from, size_t to) {
    pack_blocks({.dtype = tile.w.dtype,
                 .w = tile.w.data + from * row_bytes,
                 .row_bytes = row_bytes,
                 .n = static_cast<size_t>(tile.n),
                 .k = static_cast<size_t>(tile.k),
                 .begin = static_cast<size_t>(tile.begin + from),
                 .end = static_cast<size_t>(tile.begin + to),
                 .packed = packed});
  });
}
void batched_matmul(const BatchedMatmul<float>& problem, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(batched_matmul)(problem, pool);
}

}  // namespace ballast::cpu
#endif
