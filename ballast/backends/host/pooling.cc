#include "ballast/ops/pooling.h"

#include <algorithm>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/backends/host/transposed.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

template <typename T>
Pool2dProblem<T> pool2d_problem(const Dims& x, const PoolParams& params, const Dims& y) {
  Pool2dProblem<T> problem{};
  problem.n = x[0], problem.h = x[1], problem.width = x[2], problem.c = x[3];
  problem.out_h = y[1], problem.out_w = y[2];
  problem.window_h = params.window_h, problem.window_w = params.window_w;
  problem.stride_h = params.stride_h, problem.stride_w = params.stride_w;
  problem.pad_top = params.pad_top, problem.pad_left = params.pad_left;
  return problem;
}

constexpr auto kPickMaxPool = [](const auto& table) { return table.max_pool2d; };

constexpr auto kPickAvgPool = [](const auto& table) { return table.avg_pool2d; };

constexpr auto kPickMean = [](const auto& table) { return table.mean_over_positions; };

template <typename Pick>
Result<Tensor> pool_nhwc(Context& context, const Pick& pick, const Tensor& x, const PoolParams& params) {
  const Dims& in = x.dims();
  const Dims out = pooled_dims(in, params);
  BALLAST_TRY(Tensor y, context.workspace().make(out, x.dtype()));
  if (y.count() == 0) return y;
  with_type(x.dtype(), [&]<typename T>() {
    Pool2dProblem<T> problem = pool2d_problem<T>(in, params, out);
    problem.x = host_data<const T>(x);
    problem.y = host_data<T>(y);
    pick(kernels<T>(context))(problem, context.threads());
  });
  return y;
}

template <typename Args>
bool supports_max_pool(const Context& context, const Args& args) {
  return has_kernel(context, args.x.dtype(), kPickMaxPool);
}

Result<Tensor> run_max_pool_nhwc(Context& context, const MaxPool2dNhwcArgs& args) {
  return pool_nhwc(context, kPickMaxPool, args.x, args.params);
}

Result<Tensor> run_max_pool_nchw(Context& context, const MaxPool2dArgs& args) {
  BALLAST_TRY(const Tensor x, transposed(context, args.x, kNchwToNhwc));
  BALLAST_TRY(const Tensor y, pool_nhwc(context, kPickMaxPool, x, args.params));
  return transposed(context, y, kNhwcToNchw);
}

bool supports_avg_pool(const Context& context, const AvgPool2dNhwcArgs& args) {
  return has_kernel(context, args.x.dtype(), kPickAvgPool);
}

Result<Tensor> run_avg_pool(Context& context, const AvgPool2dNhwcArgs& args) {
  return pool_nhwc(context, kPickAvgPool, args.x, args.params);
}

bool supports_mean(const Context& context, const GlobalMeanPoolNhwcArgs& args) {
  return has_kernel(context, args.x.dtype(), kPickMean);
}

Result<Tensor> run_mean(Context& context, const GlobalMeanPoolNhwcArgs& args) {
  const Dims& dims = args.x.dims();
  BALLAST_TRY(Tensor y, context.workspace().make({dims[0], dims[3]}, args.x.dtype()));
  if (y.count() == 0) return y;
  with_type(y.dtype(), [&]<typename T>() {
    kernels<T>(context).mean_over_positions(host_data<const T>(args.x), host_data<T>(y), dims[0], dims[1] * dims[2],
                                            dims[3], context.threads());
  });
  return y;
}

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

Status run_max_pool_gradient(Context& context, const MaxPool2dGradientArgs& args) {
  if (args.dx.count() == 0) return {};
  return with_type(args.x.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::max_pool2d, "gradients of pooling"));
    Pool2dProblem<T> problem = pool2d_problem<T>(args.x.dims(), args.params, args.dy.dims());
    problem.x = host_data<const T>(args.x);
    table->max_pool2d(problem, host_data<const T>(args.dy), host_data<T>(args.dx), context.threads());
    return {};
  });
}

Status run_avg_pool_gradient(Context& context, const AvgPool2dGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const Pool2dProblem<T> p = pool2d_problem<T>(args.dx.dims(), args.params, args.dy.dims());
    const T* const from = host_data<const T>(args.dy);
    T* const to = host_data<T>(args.dx);
    context.threads().for_ranges(p.n * p.h, row_grain(p.width * p.c), [&](size_t begin, size_t end) {
      for (uint64_t at = begin * p.width; at < end * p.width; ++at) {
        const uint64_t row = at / p.width;
        gather_pixel(p, row / p.h, row % p.h, at % p.width, from, to + at * p.c);
      }
    });
  });
  return {};
}

Status run_global_mean_gradient(Context& context, const GlobalMeanPoolGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const Dims& dims = args.dx.dims();
    const uint64_t positions = dims[1] * dims[2], channels = dims[3];
    const auto count = static_cast<T>(positions);
    const T* from = host_data<const T>(args.dy);
    T* to = host_data<T>(args.dx);
    context.threads().for_ranges(dims[0] * positions, row_grain(channels), [=](size_t begin, size_t end) {
      for (size_t at = begin; at < end; ++at) {
        const T* row = from + at / positions * channels;
        for (uint64_t c = 0; c < channels; ++c) to[at * channels + c] = row[c] / count;
      }
    });
  });
  return {};
}

}  // namespace

void add_pooling(Registry& registry) {
  registry.add_builtin(supports_max_pool<MaxPool2dNhwcArgs>, run_max_pool_nhwc);
  registry.add_builtin(supports_max_pool<MaxPool2dArgs>, run_max_pool_nchw);
  registry.add_builtin(supports_avg_pool, run_avg_pool);
  registry.add_builtin(supports_mean, run_mean);
  registry.add_routine(run_max_pool_gradient);
  registry.add_routine(run_avg_pool_gradient);
  registry.add_routine(run_global_mean_gradient);
}

}  // namespace ballast::host
