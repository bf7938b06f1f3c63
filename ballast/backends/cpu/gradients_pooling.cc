// The gradient of max pooling: channels are lanes.
#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/gradients_pooling.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::gradients::HWY_NAMESPACE {

using namespace ballast::cpu::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): the vectors of this target

// [begin, end) of a window that lies inside an axis.
struct WindowSpan {
  size_t begin, end;
};
WindowSpan window_inside(size_t out, size_t stride, size_t pad, size_t window, size_t size) {
  const size_t begin = out * stride;  // in the padded axis
  const size_t first = larger(begin, pad) - pad;
  const size_t last = begin + window > pad ? smaller(begin + window - pad, size) : 0;
  return {smaller(first, last), last};
}

// dx += dy where the first largest of the window is; the first NaN counts as larger than all numbers.
void return_window(const float* x, const float* dy, float* dx, const Pool2dProblem<float>& p, WindowSpan ys,
                   WindowSpan xs) {
  const Ints ints;
  for_vectors(p.c, [&](size_t i, size_t lanes) HWY_ATTR {
    const auto pixel = [&](size_t y, size_t at) HWY_ATTR { return (y * p.width + at) * p.c + i; };
    Vector most = splat(-__builtin_inff());
    auto place = hn::Zero(ints);
    int32_t index = 0;
    for (size_t y = ys.begin; y < ys.end; ++y) {
      for (size_t at = xs.begin; at < xs.end; ++at, ++index) {
        const Vector v = load_some(x + pixel(y, at), lanes);
        const auto better = hn::Or(hn::Gt(v, most), hn::AndNot(hn::IsNaN(most), hn::IsNaN(v)));
        most = hn::IfThenElse(better, v, most);
        place = hn::IfThenElse(hn::RebindMask(ints, better), hn::Set(ints, index), place);
      }
    }
    const Vector back = load_some(dy + i, lanes);
    index = 0;
    for (size_t y = ys.begin; y < ys.end; ++y) {
      for (size_t at = xs.begin; at < xs.end; ++at, ++index) {
        float* to = dx + pixel(y, at);
        const auto here = hn::RebindMask(Floats(), hn::Eq(place, hn::Set(ints, index)));
        store_some(hn::Add(load_some(to, lanes), hn::IfThenElseZero(here, back)), to, lanes);
      }
    }
  });
}

// Output rows [begin, end) of one image into the image's gradient.
void return_rows(const Pool2dProblem<float>& p, const float* dy, float* dx, size_t image, size_t begin, size_t end) {
  const size_t offset = image * p.h * p.width * p.c;
  for (size_t y = begin; y < end; ++y) {
    const WindowSpan ys = window_inside(y, p.stride_h, p.pad_top, p.window_h, p.h);
    for (size_t x = 0; x < p.out_w; ++x) {
      const WindowSpan xs = window_inside(x, p.stride_w, p.pad_left, p.window_w, p.width);
      return_window(p.x + offset, dy + ((image * p.out_h + y) * p.out_w + x) * p.c, dx + offset, p, ys, xs);
    }
  }
}

// Images are shared among threads; windows of one image may overlap, and are added in order.
void max_pool2d(const Pool2dProblem<float>& p, const float* dy, float* dx, ThreadPool& pool) {
  const size_t image_floats = p.h * p.width * p.c;
  // Rows of windows that do not overlap can be cut too: each owns the rows of the image up to the next.
  const bool apart = p.window_h <= p.stride_h && p.out_h > 0;
  const size_t parts = apart ? p.out_h : 1;
  const size_t grain = larger(1, 8192 / larger(1, image_floats / parts));
  pool.for_ranges(p.n * parts, grain, [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t index = begin; index < end; ++index) {
      const size_t image = index / parts, part = index % parts;
      const auto first_row = [&](size_t row) HWY_ATTR {
        return row == 0 ? 0 : row == parts ? p.h : smaller(p.h, larger(row * p.stride_h, p.pad_top) - p.pad_top);
      };
      const size_t from = first_row(part), to = first_row(part + 1);
      std::memset(dx + image * image_floats + from * p.width * p.c, 0, (to - from) * p.width * p.c * sizeof(float));
      return_rows(p, dy, dx, image, apart ? part : 0, apart ? part + 1 : p.out_h);
    }
  });
}

}  // namespace ballast::cpu::gradients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu::gradients {

HWY_EXPORT(max_pool2d);
void max_pool2d(const Pool2dProblem<float>& problem, const float* dy, float* dx, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(max_pool2d)(problem, dy, dx, pool);
}

}  // namespace ballast::cpu::gradients
#endif
