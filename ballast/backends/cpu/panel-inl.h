// Panels: the few columns of a weight that registers hold sums for, and the one loop that products, convolutions and
// attention multiply with. Declarations for the target that is being compiled; panel.cc has the code.
#if defined(BALLAST_BACKENDS_CPU_PANEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_BACKENDS_CPU_PANEL_INL_H
#undef BALLAST_BACKENDS_CPU_PANEL_INL_H
#else
#define BALLAST_BACKENDS_CPU_PANEL_INL_H
#endif

#include "ballast/backends/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

constexpr size_t kPanel = 2 * kLanes;
// Rows of a tile: as many as there are registers for two sums each, beside two weights and a factor. 14 divides the
// rows of images of 224 pixels and their halves.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr size_t kTileRows = 14;
#elif HWY_ARCH_ARM_A64
constexpr size_t kTileRows = 12;
#else
constexpr size_t kTileRows = 6;
#endif

// c[row][j] (+)= sum over k of a[row][k] * w[k][j], j < columns <= kPanel. The sum runs over `segments` pieces of
// `length` terms; a[segment * rows + row] is where the factors of a row begin in a segment. Strictly ascending, one
// multiply-add per term, so that neither the number of rows nor where sums are interrupted changes a bit.
struct PanelProduct {
  const float* const* a = nullptr;
  size_t rows = 0;  // at most kTileRows
  size_t segments = 1;
  size_t length = 0;
  const float* w = nullptr;  // whole vectors are read, also beyond `columns`
  size_t w_stride = kPanel;  // from term to term
  float* const* c = nullptr;
  size_t columns = kPanel;
  bool add = false;  // go on with what is in c
  // What lies so many floats behind each weight is fetched into the cache meanwhile; it need not exist.
  ptrdiff_t fetch_ahead = 0;
};
void multiply_panel(const PanelProduct& product);

// The same sums for factors that lie in a matrix, as it is or transposed: c[row][j] (+)= sum over k of
// a[row * row_stride + k * term_stride] * w[k][j]. Fewer loads than above, where each row has a pointer of its own.
struct MatrixProduct {
  const float* a = nullptr;
  size_t row_stride = 0, term_stride = 1;
  size_t rows = 0;  // at most kTileRows
  size_t length = 0;
  const float* w = nullptr;  // whole vectors are read, also beyond `columns`
  size_t w_stride = kPanel;  // from term to term
  float* c = nullptr;
  size_t c_stride = 0;
  size_t columns = kPanel;
  bool add = false;  // go on with what is in c
};
void multiply_matrix(const MatrixProduct& product);

// Rows [0, count) in tiles of about the same size, none larger than kTileRows.
struct Tiles {
  size_t count;
  size_t tiles = divide_up(count, kTileRows);
  size_t begin(size_t tile) const { return count * tile / tiles; }
};

// Fills a panel [terms, kPanel] from a weight [terms, ...] whose rows are `stride` elements apart. Columns from
// `columns` on become 0.
void pack_panel(const WeightView& w, size_t stride, size_t terms, size_t columns, float* panel);
// The same from a weight [columns, ...]: column j of the panel is row j of the weight. What lies `ahead` elements
// behind each element is fetched into the cache meanwhile; it need not exist.
constexpr size_t kTurnTerms = 16;
void pack_panel_across(const WeightView& w, size_t stride, size_t terms, size_t columns, float* panel,
                       ptrdiff_t ahead = kTurnTerms);

// c[j] = sum over k of a[k] * w[j][k], j < kPanel, for one row and the first terms of a weight [kPanel, terms], as
// multiply_panel would give it: the weight is turned in registers and used there. Returns how many terms that were: all
// that fill lines of the cache, or none, where the instruction set has too few registers for it.
size_t multiply_row_across(const float* a, const WeightView& w, size_t terms, float* c);

// What is done to a row of sums at the end: activation(c + bias) + residual, or activation(c + bias + residual).
struct Ending {
  const float* bias = nullptr;
  const float* residual = nullptr;
  Activation activation = Activation::kNone;
  bool residual_first = false;

  bool none() const { return bias == nullptr && residual == nullptr && activation == Activation::kNone; }
};
void finish_row(float* c, size_t columns, const Ending& ending);

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_BACKENDS_CPU_PANEL_INL_H
