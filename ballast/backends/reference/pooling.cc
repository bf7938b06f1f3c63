#include "ballast/ops/pooling.h"

#include <algorithm>
#include <limits>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/sampling.h"

namespace ballast::reference {

namespace {

// Where the elements of images lie, NHWC or NCHW.
struct Images {
  uint64_t n, h, w, c;
  bool is_nchw;

  Images(const Dims& dims, bool nchw)
      : n(dims[0]), h(dims[nchw ? 2 : 1]), w(dims[nchw ? 3 : 2]), c(dims[nchw ? 1 : 3]), is_nchw(nchw) {}

  uint64_t place(uint64_t image, uint64_t y, uint64_t x, uint64_t channel) const {
    return is_nchw ? ((image * c + channel) * h + y) * w + x : ((image * h + y) * w + x) * c + channel;
  }
};

// body(y, x) for the pixels of one window that lie inside the image, in row order.
template <typename Body>
void for_each_pixel(const Images& in, const PoolParams& p, uint64_t oy, uint64_t ox, const Body& body) {
  for (uint64_t ky = 0; ky < p.window_h; ++ky) {
    const uint64_t y = oy * p.stride_h + ky - p.pad_top;  // above the image: wraps, and is too large
    for (uint64_t kx = 0; y < in.h && kx < p.window_w; ++kx) {
      const uint64_t x = ox * p.stride_w + kx - p.pad_left;
      if (x < in.w) body(y, x);
    }
  }
}

// body(image, oy, ox) for each window.
template <typename Body>
void for_each_window(Context& context, const Images& out, const Body& body) {
  each(context, out.n * out.h * out.w, [&](size_t i) { body(i / (out.h * out.w), i / out.w % out.h, i % out.w); });
}

// What lies outside the image does not count, and NaN stays.
template <typename T>
void pool_largest(Context& context, const Tensor& x, const PoolParams& params, bool is_nchw, Tensor& y) {
  const Images in(x.dims(), is_nchw), out(y.dims(), is_nchw);
  for_each_window(context, out, [&](uint64_t image, uint64_t oy, uint64_t ox) {
    for (uint64_t c = 0; c < in.c; ++c) {
      T best = -std::numeric_limits<T>::infinity();
      for_each_pixel(in, params, oy, ox, [&](uint64_t py, uint64_t px) {
        const T value = host_data<const T>(x)[in.place(image, py, px, c)];
        if (best == best && !(value <= best)) best = value;
      });
      host_data<T>(y)[out.place(image, oy, ox, c)] = best;
    }
  });
}

Result<Tensor> run_max_pool_nhwc(Context& context, const MaxPool2dNhwcArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(pooled_dims(args.x.dims(), args.params), args.x.dtype()));
  if (y.count() == 0) return y;
  with_type(y.dtype(), [&]<typename T>() { pool_largest<T>(context, args.x, args.params, false, y); });
  return y;
}

Result<Tensor> run_max_pool_nchw(Context& context, const MaxPool2dArgs& args) {
  const Dims& in = args.x.dims();
  const Dims nhwc = pooled_dims({in[0], in[2], in[3], in[1]}, args.params);
  BALLAST_TRY(Tensor y, context.workspace().make({nhwc[0], nhwc[3], nhwc[1], nhwc[2]}, args.x.dtype()));
  if (y.count() == 0) return y;
  with_type(y.dtype(), [&]<typename T>() { pool_largest<T>(context, args.x, args.params, true, y); });
  return y;
}

// The first largest of each window gets the gradient; NaN is larger than all.
Status run_max_pool_gradient(Context& context, const MaxPool2dGradientArgs& args) {
  const Images in(args.x.dims(), false), out(args.dy.dims(), false);
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* x = host_data<const T>(args.x);
    T* dx = host_data<T>(args.dx);
    std::fill_n(dx, args.dx.count(), T{0});
    each(context, in.n * in.c, [&](size_t i) {
      const uint64_t image = i / in.c, c = i % in.c;
      for (uint64_t window = 0; window < out.h * out.w; ++window) {
        const uint64_t oy = window / out.w, ox = window % out.w;
        const T* best = nullptr;
        for_each_pixel(in, args.params, oy, ox, [&](uint64_t py, uint64_t px) {
          const T* pixel = x + in.place(image, py, px, c);
          if (best == nullptr || (*best == *best && !(*pixel <= *best))) best = pixel;
        });
        if (best != nullptr) dx[best - x] += host_data<const T>(args.dy)[out.place(image, oy, ox, c)];
      }
    });
  });
  return {};
}

// What lies outside the image is 0, and counts.
Result<Tensor> run_avg_pool(Context& context, const AvgPool2dNhwcArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(pooled_dims(args.x.dims(), args.params), args.x.dtype()));
  if (y.count() == 0) return y;
  const Images in(args.x.dims(), false), out(y.dims(), false);
  with_type(y.dtype(), [&]<typename T>() {
    const auto size = static_cast<T>(args.params.window_h * args.params.window_w);
    for_each_window(context, out, [&](uint64_t image, uint64_t oy, uint64_t ox) {
      for (uint64_t c = 0; c < in.c; ++c) {
        T sum = 0;
        for_each_pixel(in, args.params, oy, ox, [&](uint64_t py, uint64_t px) {
          sum += host_data<const T>(args.x)[in.place(image, py, px, c)];
        });
        host_data<T>(y)[out.place(image, oy, ox, c)] = sum / size;
      }
    });
  });
  return y;
}

Status run_avg_pool_gradient(Context& context, const AvgPool2dGradientArgs& args) {
  const Images in(args.dx.dims(), false), out(args.dy.dims(), false);
  with_type(args.dy.dtype(), [&]<typename T>() {
    const auto size = static_cast<T>(args.params.window_h * args.params.window_w);
    T* dx = host_data<T>(args.dx);
    std::fill_n(dx, args.dx.count(), T{0});
    each(context, in.n * in.c, [&](size_t i) {
      const uint64_t image = i / in.c, c = i % in.c;
      for (uint64_t window = 0; window < out.h * out.w; ++window) {
        const uint64_t oy = window / out.w, ox = window % out.w;
        const T dy = host_data<const T>(args.dy)[out.place(image, oy, ox, c)];
        for_each_pixel(in, args.params, oy, ox,
                       [&](uint64_t py, uint64_t px) { dx[in.place(image, py, px, c)] += dy; });
      }
      for (uint64_t at = 0; at < in.h * in.w; ++at) dx[in.place(image, at / in.w, at % in.w, c)] /= size;
    });
  });
  return {};
}

Result<Tensor> run_global_mean(Context& context, const GlobalMeanPoolNhwcArgs& args) {
  const Images in(args.x.dims(), false);
  BALLAST_TRY(Tensor y, context.workspace().make({in.n, in.c}, args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    each(context, y.count(), [&](size_t i) {
      T sum = 0;
      for (uint64_t at = 0; at < in.h * in.w; ++at) {
        sum += host_data<const T>(args.x)[in.place(i / in.c, at / in.w, at % in.w, i % in.c)];
      }
      host_data<T>(y)[i] = sum / static_cast<T>(in.h * in.w);
    });
  });
  return y;
}

Status run_global_mean_gradient(Context& context, const GlobalMeanPoolGradientArgs& args) {
  const Images in(args.dx.dims(), false);
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* dy = host_data<const T>(args.dy);
    T* dx = host_data<T>(args.dx);
    each_element(context, args.dx.count(), [&](size_t i) {
      const uint64_t image = i / (in.h * in.w * in.c);
      dx[i] = dy[image * in.c + i % in.c] / static_cast<T>(in.h * in.w);
    });
  });
  return {};
}

// ---------------------------------------------------------------- larger images

// How much place `from` of one side counts at place `to` of the side that is `factor` times as long.
double share_of(uint64_t from, uint64_t to, uint64_t size, uint64_t factor, Upsampling method) {
  if (method == Upsampling::kNearest) return to / factor == from ? 1 : 0;
  const auto last = static_cast<double>(size - 1);
  double at = (static_cast<double>(to) + 0.5) / static_cast<double>(factor) - 0.5;
  if (method == Upsampling::kBilinearAlignedCorners) {
    const uint64_t out_last = size * factor - 1;
    at = out_last == 0 ? 0 : static_cast<double>(to) * last / static_cast<double>(out_last);
  }
  const double distance = std::clamp(at, 0.0, last) - static_cast<double>(from);
  return std::max(0.0, distance < 0 ? 1 + distance : 1 - distance);
}

// body(pixel of the input, pixel of the output, share) for all pairs of one image that meet.
template <typename Body>
void for_each_meeting(const Images& in, uint64_t image, uint64_t factor, Upsampling method, const Body& body) {
  const uint64_t height = in.h * factor, width = in.w * factor;
  for (uint64_t oy = 0; oy < height; ++oy) {
    for (uint64_t y = 0; y < in.h; ++y) {
      const double down = share_of(y, oy, in.h, factor, method);
      for (uint64_t ox = 0; down != 0 && ox < width; ++ox) {
        for (uint64_t x = 0; x < in.w; ++x) {
          const double across = share_of(x, ox, in.w, factor, method);
          if (across == 0) continue;
          body((image * in.h + y) * in.w + x, (image * height + oy) * width + ox, down * across);
        }
      }
    }
  }
}

Result<Tensor> run_upsampling(Context& context, const Upsample2dArgs& args) {
  const Images in(args.x.dims(), false);
  BALLAST_TRY(Tensor y,
              context.workspace().zeros({in.n, in.h * args.factor, in.w * args.factor, in.c}, args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    each(context, in.n, [&](size_t image) {
      for_each_meeting(in, image, args.factor, args.method, [&](uint64_t pixel, uint64_t out, double share) {
        for (uint64_t c = 0; c < in.c; ++c) {
          host_data<T>(y)[out * in.c + c] += static_cast<T>(share) * host_data<const T>(args.x)[pixel * in.c + c];
        }
      });
    });
  });
  return y;
}

Status run_upsampling_gradient(Context& context, const Upsample2dGradientArgs& args) {
  const Images in(args.dx.dims(), false);
  with_type(args.dy.dtype(), [&]<typename T>() {
    T* dx = host_data<T>(args.dx);
    std::fill_n(dx, args.dx.count(), T{0});
    each(context, in.n, [&](size_t image) {
      for_each_meeting(in, image, args.factor, args.method, [&](uint64_t pixel, uint64_t out, double share) {
        for (uint64_t c = 0; c < in.c; ++c) {
          dx[pixel * in.c + c] += static_cast<T>(share) * host_data<const T>(args.dy)[out * in.c + c];
        }
      });
    });
  });
  return {};
}

}  // namespace

void add_pooling(Registry& registry) {
  registry.add_builtin<MaxPool2dNhwcArgs>(nullptr, run_max_pool_nhwc);
  registry.add_builtin<MaxPool2dArgs>(nullptr, run_max_pool_nchw);
  registry.add_builtin<AvgPool2dNhwcArgs>(nullptr, run_avg_pool);
  registry.add_builtin<GlobalMeanPoolNhwcArgs>(nullptr, run_global_mean);
  registry.add_builtin<Upsample2dArgs>(nullptr, run_upsampling);
  registry.add_routine(run_max_pool_gradient);
  registry.add_routine(run_avg_pool_gradient);
  registry.add_routine(run_global_mean_gradient);
  registry.add_routine(run_upsampling_gradient);
}

}  // namespace ballast::reference
