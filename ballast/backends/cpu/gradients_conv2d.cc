// The gradient of a convolution's weight: for blocks of output pixels, the pixels that each of them saw are copied side
// by side, and multiplied transposed with what came back to it. (The gradient of the image is in gradients_image.cc.)
#include "ballast/backends/cpu/gradients_conv2d.h"

#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/gradients_conv2d.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/panel-inl.h"
#include "ballast/backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::gradients::HWY_NAMESPACE {

using namespace ballast::cpu::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): the vectors of this target

using Image = Conv2dProblem<float>;

// ---------------------------------------------------------------- what of an axis a window sees
struct Visible {
  size_t begin, end;  // outputs whose window has this place inside the image
};
// Outputs o of [begin, end) with 0 <= o * stride + offset - pad < size.
Visible outputs_inside(size_t begin, size_t end, size_t stride, size_t offset, size_t pad, size_t size) {
  const size_t low = offset >= pad ? 0 : divide_up(pad - offset, stride);
  const size_t high = size + pad > offset ? divide_up(size + pad - offset, stride) : 0;
  const size_t first = smaller(larger(begin, low), end);
  return {first, larger(first, smaller(end, high))};
}

// ---------------------------------------------------------------- sizes
// The product c[term][output] = columns[pixel][term] transposed * dy[pixel][output], for each group. A term is a place
// of the kernel and an input channel.
struct WeightProduct {
  const Image& p;
  size_t taps = p.kernel_h * p.kernel_w;
  size_t inputs = p.c_in / p.groups, outputs = p.c_out / p.groups;  // of a group
  size_t terms = taps * inputs;
  size_t pixels = p.n * p.out_h * p.out_w;
  size_t wide_outputs = divide_up(outputs, kPanel) * kPanel;

  // Pieces of the sum over pixels: a matter of shapes, because the order of additions is.
  size_t pieces() const {
    constexpr size_t kPixels = 1024, kMostPieces = 16, kMostFloats = size_t{1} << 21;
    const size_t fit = kMostFloats / larger(1, terms * outputs * p.groups);
    return larger(1, smaller(smaller(kMostPieces, fit), pixels / kPixels));
  }
  // Pixels whose columns are kept at once, in the second-level cache.
  size_t block() const {
    constexpr size_t kFloats = size_t{1} << 16;
    return larger(16, smaller(256, kFloats / larger(1, terms)));
  }
  size_t sums() const { return p.groups * terms * outputs; }
  size_t worker_floats() const { return block() * (terms + kPanel + wide_outputs); }
};

bool is_depthwise(const Image& p) { return p.groups == p.c_in && p.c_in == p.c_out; }
bool has_weight(const Image& p) { return p.groups != 0 && p.c_in != 0 && p.c_out != 0 && p.kernel_h * p.kernel_w != 0; }

uint64_t weight_scratch(const Image& p, unsigned threads) {
  if (!has_weight(p) || is_depthwise(p)) return 0;
  const WeightProduct product{p};
  return product.pieces() * product.sums() + threads * product.worker_floats();
}

// ---------------------------------------------------------------- columns
// Terms [term_begin, term_end) of pixels [begin, end), side by side: to[pixel][term].
class Columns {
 public:
  Columns(const WeightProduct& product, size_t group, size_t term_begin, size_t term_end)
      : p_(product.p), inputs_(product.inputs), group_(group), term_begin_(term_begin), term_end_(term_end) {}

  size_t width() const { return term_end_ - term_begin_; }

  void copy(size_t begin, size_t end, float* to) const {
    while (begin < end) {
      const size_t line = begin / p_.out_w, x = begin % p_.out_w;
      const size_t count = smaller(end - begin, p_.out_w - x);
      for (size_t term = term_begin_; term < term_end_;) {
        const size_t tap = term / inputs_, input = term % inputs_;
        const size_t inputs = smaller(inputs_ - input, term_end_ - term);
        copy_tap(line, x, count, tap, input, inputs, to + term - term_begin_);
        term += inputs;
      }
      to += count * width();
      begin += count;
    }
  }

 private:
  void copy_tap(size_t line, size_t x, size_t count, size_t tap, size_t input, size_t inputs, float* to) const {
    const size_t top = line % p_.out_h * p_.stride_h + tap / p_.kernel_w * p_.dilation_h;
    const size_t left = tap % p_.kernel_w * p_.dilation_w;
    const bool inside = top >= p_.pad_top && top - p_.pad_top < p_.h;
    Visible seen = outputs_inside(x, x + count, p_.stride_w, left, p_.pad_left, p_.width);
    if (!inside) seen = {x, x};
    clear(to, seen.begin - x, inputs);
    if (seen.begin < seen.end) {
      const size_t row = (line / p_.out_h * p_.h + top - p_.pad_top) * p_.width;
      const float* from = p_.x + (row + seen.begin * p_.stride_w + left - p_.pad_left) * p_.c_in + group_ * inputs_;
      copy_pixels(from + input, p_.stride_w * p_.c_in, seen.end - seen.begin, inputs, to + (seen.begin - x) * width());
    }
    clear(to + (seen.end - x) * width(), x + count - seen.end, inputs);
  }

  void clear(float* to, size_t count, size_t inputs) const {
    for (size_t i = 0; i < count; ++i) std::memset(to + i * width(), 0, inputs * sizeof(float));
  }
  void copy_pixels(const float* from, size_t stride, size_t count, size_t inputs, float* to) const {
    const size_t step = width();
    if (inputs == 1) {
      for (size_t i = 0; i < count; ++i) to[i * step] = from[i * stride];
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      for_vectors(inputs, [&](size_t at, size_t lanes) HWY_ATTR {
        store_some(load_some(from + i * stride + at, lanes), to + i * step + at, lanes);
      });
    }
  }

  const Image& p_;
  const size_t inputs_, group_, term_begin_, term_end_;
};

// ---------------------------------------------------------------- the product
struct WeightTask {
  size_t group;
  size_t pixel_begin, pixel_end;
  size_t term_begin, term_end;
};

// sums[term][output], from zero.
void sum_task(const WeightProduct& product, const WeightTask& task, const float* dy, float* sums, float* scratch) {
  const Columns columns(product, task.group, task.term_begin, task.term_end);
  const size_t block = product.block();
  float* panels = scratch;
  float* copied = panels + block * product.wide_outputs;
  // Whole panels are used where they lie, if lines of pixels do not push each other out of the cache.
  const bool direct = product.outputs % kPanel == 0 && product.p.c_out <= 256;
  const Tiles tiles{columns.width()};
  size_t pixel = task.pixel_begin;
  do {
    const size_t count = smaller(block, task.pixel_end - pixel);
    columns.copy(pixel, pixel + count, copied);
    const float* from = dy + pixel * product.p.c_out + task.group * product.outputs;
    for (size_t j = 0; !direct && j < product.outputs; j += kPanel) {
      const WeightView w{reinterpret_cast<const std::byte*>(from + j), DType::kF32};
      pack_panel(w, product.p.c_out, count, smaller(kPanel, product.outputs - j), panels + j * count);
    }
    for (size_t tile = 0; tile < tiles.tiles; ++tile) {
      const size_t term = tiles.begin(tile);
      MatrixProduct sum{.a = copied + term, .row_stride = 1, .term_stride = columns.width()};
      sum.rows = tiles.begin(tile + 1) - term;
      sum.length = count;
      sum.c_stride = product.outputs;
      sum.add = pixel != task.pixel_begin;
      for (size_t j = 0; j < product.outputs; j += kPanel) {
        sum.w = direct ? from + j : panels + j * count;
        sum.w_stride = direct ? product.p.c_out : kPanel;
        sum.c = sums + (task.term_begin + term) * product.outputs + j;
        sum.columns = smaller(kPanel, product.outputs - j);
        multiply_matrix(sum);
      }
    }
    pixel += count;
  } while (pixel < task.pixel_end);
}

// dw[group][output][input][tap] = or += the sum of the pieces [piece][group][tap][input][output].
void gather_pieces(const WeightProduct& product, const float* sums, float* dw, bool add, ThreadPool& pool) {
  constexpr size_t kBlock = 64;
  const size_t pieces = product.pieces(), size = product.sums();
  pool.for_ranges(product.p.groups * product.terms, larger(1, 4096 / larger(1, product.outputs)),
                  [&](size_t begin, size_t end) HWY_ATTR {
                    HWY_ALIGN float total[kBlock];
                    for (size_t row = begin; row < end; ++row) {
                      const size_t group = row / product.terms, term = row % product.terms;
                      const size_t tap = term / product.inputs, input = term % product.inputs;
                      for (size_t output = 0; output < product.outputs; output += kBlock) {
                        const size_t count = smaller(kBlock, product.outputs - output);
                        const float* from = sums + row * product.outputs + output;
                        std::memcpy(total, from, count * sizeof(float));
                        for (size_t piece = 1; piece < pieces; ++piece)
                          put_sums(from + piece * size, total, count, true);
                        float* to =
                            dw + (((group * product.outputs + output) * product.inputs) + input) * product.taps + tap;
                        for (size_t i = 0; i < count; ++i) {
                          float* at = to + i * product.terms;
                          *at = add ? *at + total[i] : total[i];
                        }
                      }
                    }
                  });
}

void weight_product(const Conv2dGradient<float>& gradient, float* scratch, ThreadPool& pool) {
  const Image& p = *gradient.forward;
  const WeightProduct product{p};
  const size_t pieces = product.pieces();
  // Terms are cut only so that there is enough to do: that changes no bit.
  const size_t wanted = pool.size() == 1 ? 1 : divide_up(3 * pool.size(), pieces * p.groups);
  const size_t cuts = larger(1, smaller(wanted, product.terms / (2 * kTileRows)));
  const size_t tasks = p.groups * pieces * cuts;
  float* rooms = scratch + pieces * product.sums();
  size_t next = 0;
  pool.for_ranges(smaller(tasks, pool.size()), 1, [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t worker = begin; worker < end; ++worker) {
      for (;;) {
        const size_t index = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
        if (index >= tasks) break;
        const size_t cut = index % cuts, piece = index / cuts % pieces, group = index / cuts / pieces;
        const WeightTask task{group, product.pixels * piece / pieces, product.pixels * (piece + 1) / pieces,
                              product.terms * cut / cuts, product.terms * (cut + 1) / cuts};
        float* sums = scratch + (piece * p.groups + group) * product.terms * product.outputs;
        sum_task(product, task, gradient.dy, sums, rooms + worker * product.worker_floats());
      }
    }
  });
  gather_pieces(product, scratch, gradient.dw, gradient.add, pool);
}

// ---------------------------------------------------------------- depthwise
// Channels are lanes, lines of the output are rows of the sum.
void weight_depthwise(const Conv2dGradient<float>& gradient, ThreadPool& pool) {
  const Image& p = *gradient.forward;
  const size_t taps = p.kernel_h * p.kernel_w;
  for (size_t first = 0; first < p.c_in; first += kSumColumns) {
    const size_t channels = smaller(kSumColumns, p.c_in - first);
    for (size_t tap = 0; tap < taps; ++tap) {
      const size_t left = tap % p.kernel_w * p.dilation_w;
      const Visible seen = outputs_inside(0, p.out_w, p.stride_w, left, p.pad_left, p.width);
      ColumnSums<1> totals;
      sum_columns(p.n * p.out_h, channels, totals, pool,
                  [&](size_t line, size_t i, size_t lanes, Vector* sums) HWY_ATTR {
                    const size_t top = line % p.out_h * p.stride_h + tap / p.kernel_w * p.dilation_h;
                    if (top < p.pad_top || top - p.pad_top >= p.h) return;
                    const float* from = p.x + (line / p.out_h * p.h + top - p.pad_top) * p.width * p.c_in + first + i;
                    const float* dy = gradient.dy + line * p.out_w * p.c_out + first + i;
                    for (size_t x = seen.begin; x < seen.end; ++x) {
                      const Vector pixel = load_some(from + (x * p.stride_w + left - p.pad_left) * p.c_in, lanes);
                      sums[0] = hn::MulAdd(load_some(dy + x * p.c_out, lanes), pixel, sums[0]);
                    }
                  });
      for (size_t i = 0; i < channels; ++i) {
        float* to = gradient.dw + (first + i) * taps + tap;
        *to = gradient.add ? *to + totals.of[0][i] : totals.of[0][i];
      }
    }
  }
}

void weight_gradient(const Conv2dGradient<float>& gradient, float* scratch, ThreadPool& pool) {
  if (!has_weight(*gradient.forward)) return;
  if (is_depthwise(*gradient.forward)) weight_depthwise(gradient, pool);
  else weight_product(gradient, scratch, pool);
}

}  // namespace ballast::cpu::gradients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu::gradients {

HWY_EXPORT(weight_gradient);
HWY_EXPORT(weight_scratch);

void conv2d_weight(const Conv2dGradient<float>& gradient, float* scratch, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(weight_gradient)(gradient, scratch, pool);
}
uint64_t conv2d_weight_scratch(const Conv2dProblem<float>& forward, unsigned threads) {
  return HWY_DYNAMIC_DISPATCH(weight_scratch)(forward, threads);
}

}  // namespace ballast::cpu::gradients
#endif
