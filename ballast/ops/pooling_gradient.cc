#include <algorithm>

#include "ballast/ops/gradient_access.h"
#include "ballast/ops/pooling.h"
#include "ballast/ops/shape.h"

namespace ballast::ops {

namespace {

Result<Tensor> max_pool_gradient(Context& context, const Tensor& x, const PoolParams& params, const Tensor& dy) {
  BALLAST_TRY(Tensor dx, context.workspace().make(x.dims(), x.dtype()));
  if (dx.count() == 0) return dx;
  BALLAST_CHECK(with_type(x.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::max_pool2d, "gradients of pooling"));
    Pool2dProblem<T> problem = pool2d_problem<T>(x.dims(), params, dy.dims());
    problem.x = x.data<T>();
    table->max_pool2d(problem, dy.data<T>(), dx.writable<T>(), context.threads());
    return {};
  }));
  return dx;
}

struct MaxPoolStep {
  PoolParams params;
  bool is_nchw;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (!is_nchw) {
      BALLAST_TRY(const Tensor dx, max_pool_gradient(context, x, params, dy));
      return tape.add(context, input, dx);
    }
    BALLAST_TRY(const Tensor x_nhwc, transposed(context, x, kNchwToNhwc));
    BALLAST_TRY(const Tensor dy_nhwc, transposed(context, dy, kNchwToNhwc));
    BALLAST_TRY(const Tensor dx_nhwc, max_pool_gradient(context, x_nhwc, params, dy_nhwc));
    BALLAST_TRY(const Tensor dx, transposed(context, dx_nhwc, kNhwcToNchw));
    return tape.add(context, input, dx);
  }
};

// [first, last) of the windows along one side that hold a place.
struct Windows {
  uint64_t first, last;
};
Windows windows_over(uint64_t at, uint64_t pad, uint64_t window, uint64_t stride, uint64_t count) {
  const uint64_t padded = at + pad;
  const uint64_t first = padded < window ? 0 : (padded - window) / stride + 1;
  return {first, std::min(count, padded / stride + 1)};
}

// Each pixel gathers from the windows that it is in.
template <typename T>
void gather_pixel(const Pool2dProblem<T>& p, uint64_t image, uint64_t y, uint64_t x, const T* dy, T* dx) {
  const Windows down = windows_over(y, p.pad_top, p.window_h, p.stride_h, p.out_h);
  const Windows across = windows_over(x, p.pad_left, p.window_w, p.stride_w, p.out_w);
  std::fill_n(dx, p.c, T{0});
  for (uint64_t oy = down.first; oy < down.last; ++oy) {
    for (uint64_t ox = across.first; ox < across.last; ++ox) {
      const T* from = dy + ((image * p.out_h + oy) * p.out_w + ox) * p.c;
      for (uint64_t c = 0; c < p.c; ++c) dx[c] += from[c];
    }
  }
  const auto window = static_cast<T>(p.window_h * p.window_w);
  for (uint64_t c = 0; c < p.c; ++c) dx[c] /= window;
}

struct AvgPoolStep {
  PoolParams params;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(input.dims(), dy.dtype()));
    with_type(dy.dtype(), [&]<typename T>() {
      const Pool2dProblem<T> p = pool2d_problem<T>(input.dims(), params, dy.dims());
      T* const to = dx.writable<T>();
      context.threads().for_ranges(p.n * p.h, row_grain(p.width * p.c), [&](size_t begin, size_t end) {
        for (uint64_t at = begin * p.width; at < end * p.width; ++at) {
          const uint64_t row = at / p.width;
          gather_pixel(p, row / p.h, row % p.h, at % p.width, dy.data<T>(), to + at * p.c);
        }
      });
    });
    return tape.add(context, input, dx);
  }
};

struct GlobalMeanStep {
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(input.dims(), dy.dtype()));
    with_type(dy.dtype(), [&]<typename T>() {
      const Dims& dims = input.dims();
      const uint64_t positions = dims[1] * dims[2], channels = dims[3];
      const auto count = static_cast<T>(positions);
      const T* from = dy.data<T>();
      T* to = dx.writable<T>();
      context.threads().for_ranges(dims[0] * positions, row_grain(channels), [=](size_t begin, size_t end) {
        for (size_t at = begin; at < end; ++at) {
          const T* row = from + at / positions * channels;
          for (uint64_t c = 0; c < channels; ++c) to[at * channels + c] = row[c] / count;
        }
      });
    });
    return tape.add(context, input, dx);
  }
};

}  // namespace

void MaxPool2dNhwcArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, MaxPoolStep{params, false, x, tape.input(x)});
}
void MaxPool2dArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, MaxPoolStep{params, true, x, tape.input(x)});
}
void AvgPool2dNhwcArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, AvgPoolStep{params, tape.input(x)});
}
void GlobalMeanPoolNhwcArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, GlobalMeanStep{tape.input(x)});
}

}  // namespace ballast::ops
