// Gradients of parameters that are sums over many rows: of weights, of biases, of tables.
#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/gradients_products.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/panel-inl.h"
#include "ballast/backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::gradients::HWY_NAMESPACE {

using namespace ballast::cpu::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): the vectors of this target

// ---------------------------------------------------------------- A transposed * B
// A block of packed panels stays in the second-level cache, on the stack of the thread that packed it. It is wide,
// since `a` passes by once for each block, and not long, so that the sums of the block stay in that cache too.
constexpr size_t kBlockTerms = 128;
constexpr size_t kBlockColumns = 512;
// Factors of a tile, side by side.
constexpr size_t kFactors = (kTileRows + kLanes - 1) / kLanes * kLanes;

struct ProductPart {
  size_t row_begin, row_end, begin, end;  // of c
};

// Rows of `a` lie far apart, often at distances that are unkind to a cache; many panels are worth a copy. What the next
// tile wants is fetched meanwhile.
void copy_factors(const float* a, size_t stride, size_t terms, size_t rows, bool whole, float* to) {
  for (size_t k = 0; k < terms; ++k) {
    const float* from = a + k * stride;
    __builtin_prefetch(from + 2 * rows - 1);
    if (whole) {
      for (size_t i = 0; i < kFactors; i += kLanes) store(load(from + i), to + k * kFactors + i);
    } else {
      std::memcpy(to + k * kFactors, from, rows * sizeof(float));
    }
  }
}

// Panels of [terms, columns], read row by row as it lies in memory.
void pack_rows(const float* from, size_t stride, size_t terms, size_t columns, float* panels) {
  for (size_t k = 0; k < terms; ++k) {
    const float* row = from + k * stride;
    float* to = panels + k * kPanel;
    size_t j = 0;
    for (; j + kPanel <= columns; j += kPanel, to += terms * kPanel) {
      store(load(row + j), to);
      store(load(row + j + kLanes), to + kLanes);
    }
    if (j == columns) continue;
    std::memset(to, 0, kPanel * sizeof(float));
    std::memcpy(to, row + j, (columns - j) * sizeof(float));
  }
}

void multiply_transposed(const TransposedProduct<float>& p, const ProductPart& part) {
  constexpr size_t kManyPanels = 5;
  HWY_ALIGN float panels[kBlockTerms * kBlockColumns];
  HWY_ALIGN float factors[kBlockTerms * kFactors];
  const Tiles tiles{part.row_end - part.row_begin};
  const bool many = part.end - part.begin >= kManyPanels * kPanel;
  size_t k = 0;
  do {
    const size_t terms = smaller(kBlockTerms, p.m - k);
    pack_rows(p.b + k * p.n + part.begin, p.n, terms, part.end - part.begin, panels);
    for (size_t tile = 0; tile < tiles.tiles; ++tile) {
      const size_t row = part.row_begin + tiles.begin(tile);
      MatrixProduct product{.a = p.a + k * p.k + row, .row_stride = 1, .term_stride = p.k};
      product.rows = part.row_begin + tiles.begin(tile + 1) - row;
      product.length = terms;
      product.c_stride = p.n;
      product.add = p.add || k != 0;
      if (many) {
        copy_factors(product.a, p.k, terms, product.rows, row + kFactors <= p.k, factors);
        product.a = factors;
        product.term_stride = kFactors;
      }
      for (size_t j = part.begin; j < part.end; j += kPanel) {
        product.w = panels + (j - part.begin) * terms;
        product.c = p.c + row * p.n + j;
        product.columns = smaller(kPanel, part.end - j);
        multiply_matrix(product);
      }
    }
    k += terms;
  } while (k < p.m);
}

uint64_t transposed_product_scratch(const TransposedProduct<float>& /*problem*/) { return 0; }

void transposed_product(const TransposedProduct<float>& p, float* /*scratch*/, ThreadPool& pool) {
  if (p.k == 0 || p.n == 0) return;
  // How the product is cut does not change a bit: each element is one sum over all of m, in order.
  constexpr size_t kWorth = size_t{1} << 18;  // multiplications that are worth another thread
  const size_t columns = smaller(kBlockColumns, divide_up(p.n, kPanel) * kPanel);
  const size_t across = divide_up(p.n, columns);
  const size_t work = p.m * p.k * p.n;
  const size_t wanted = pool.size() == 1 ? 1 : smaller(3 * pool.size(), larger(1, work / kWorth));
  constexpr size_t kSums = size_t{1} << 17;  // of a part: what stays in the second-level cache
  const size_t enough = smaller(divide_up(wanted, across), p.k / (2 * kTileRows));
  const size_t down = larger(1, larger(enough, divide_up(p.k * columns, kSums)));
  const size_t parts = across * down;
  pool.for_ranges(parts, wanted == 1 ? parts : 1, [&](size_t from, size_t to) HWY_ATTR {
    for (size_t index = from; index < to; ++index) {
      const size_t row = index / across, column = index % across * columns;
      multiply_transposed(p, {p.k * row / down, p.k * (row + 1) / down, column, smaller(p.n, column + columns)});
    }
  });
}

// ---------------------------------------------------------------- sums of rows
void column_sums(const float* x, float* y, uint64_t rows, uint64_t features, bool add, ThreadPool& pool) {
  for (size_t begin = 0; begin < features; begin += kSumColumns) {
    const size_t columns = smaller(kSumColumns, features - begin);
    ColumnSums<1> totals;
    sum_columns(rows, columns, totals, pool, [&](size_t row, size_t i, size_t lanes, Vector* sums) HWY_ATTR {
      sums[0] = hn::Add(sums[0], load_some(x + row * features + begin + i, lanes));
    });
    put_sums(totals.of[0], y + begin, columns, add);
  }
}

// Threads share the columns, so that every row of the table is added to in the order of `indices`.
void scatter_rows(const uint32_t* indices, const float* rows, float* table, uint64_t count, uint64_t features,
                  ThreadPool& pool) {
  constexpr size_t kColumns = 64, kWorth = 16384;
  const size_t grain = larger(kColumns, divide_up(kWorth / larger(1, count), kColumns) * kColumns);
  pool.for_ranges(features, grain, [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t i = 0; i < count; ++i) {
      float* to = table + indices[i] * features + begin;
      map(to, rows + i * features + begin, to, end - begin, [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); });
    }
  });
}

}  // namespace ballast::cpu::gradients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu::gradients {

HWY_EXPORT(transposed_product);
HWY_EXPORT(transposed_product_scratch);
HWY_EXPORT(column_sums);
HWY_EXPORT(scatter_rows);

void transposed_product(const TransposedProduct<float>& problem, float* scratch, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(transposed_product)(problem, scratch, pool);
}
uint64_t transposed_product_scratch(const TransposedProduct<float>& problem) {
  return HWY_DYNAMIC_DISPATCH(transposed_product_scratch)(problem);
}
void column_sums(const float* x, float* y, uint64_t rows, uint64_t features, bool add, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(column_sums)(x, y, rows, features, add, pool);
}
void scatter_rows(const uint32_t* indices, const float* rows, float* table, uint64_t count, uint64_t features,
                  ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(scatter_rows)(indices, rows, table, count, features, pool);
}

}  // namespace ballast::cpu::gradients
#endif
