#include "ballast/ops/pooling.h"

#include <fmt/format.h>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/conv.h"
#include "ballast/ops/kernel_access.h"
#include "ballast/ops/shape.h"

namespace ballast::ops {

namespace {

constexpr auto kPickMaxPool = [](const auto& table) { return table.max_pool2d; };
constexpr auto kPickAvgPool = [](const auto& table) { return table.avg_pool2d; };
constexpr auto kPickMean = [](const auto& table) { return table.mean_over_positions; };

std::optional<uint64_t> pooled_h(uint64_t h, const PoolParams& p) {
  return window_count(h, p.pad_top, p.pad_bottom, p.window_h, 1, p.stride_h);
}
std::optional<uint64_t> pooled_w(uint64_t w, const PoolParams& p) {
  return window_count(w, p.pad_left, p.pad_right, p.window_w, 1, p.stride_w);
}

template <typename Pick>
Result<Tensor> pool_nhwc(Context& context, const Pick& pick, const Tensor& x, const PoolParams& params) {
  const Dims& in = x.dims();
  const Dims out{in[0], pooled_h(in[1], params).value_or(0), pooled_w(in[2], params).value_or(0), in[3]};
  BALLAST_TRY(Tensor y, context.workspace().make(out, x.dtype()));
  if (y.count() == 0) return y;
  with_type(x.dtype(), [&]<typename T>() {
    Pool2dProblem<T> problem = pool2d_problem<T>(in, params, out);
    problem.x = x.data<T>();
    problem.y = y.writable<T>();
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
    kernels<T>(context).mean_over_positions(args.x.data<T>(), y.writable<T>(), dims[0], dims[1] * dims[2], dims[3],
                                            context.threads());
  });
  return y;
}

std::string params_text(const PoolParams& p) {
  return fmt::format("window {}, {} stride {}, {} pad {}, {}, {}, {}", p.window_h, p.window_w, p.stride_h, p.stride_w,
                     p.pad_top, p.pad_bottom, p.pad_left, p.pad_right);
}

// A window that lies in the padding alone has no largest element.
Status check_pool(const Tensor& x, const PoolParams& p, size_t h_axis, size_t w_axis) {
  BALLAST_CHECK(check_activation("x", x, 4));
  if (p.window_h == 0 || p.window_w == 0 || p.stride_h == 0 || p.stride_w == 0) {
    return refused(params_text(p), "window and stride must be at least 1");
  }
  if (p.pad_top >= p.window_h || p.pad_bottom >= p.window_h || p.pad_left >= p.window_w || p.pad_right >= p.window_w) {
    return refused(params_text(p), "the padding must be smaller than the window");
  }
  if (x.dims()[h_axis] != 0 && x.dims()[w_axis] != 0 && pooled_h(x.dims()[h_axis], p) &&
      pooled_w(x.dims()[w_axis], p)) {
    return {};
  }
  return does_not_fit(named("x", x), params_text(p), "the padded image is smaller than the window");
}

}  // namespace

Status MaxPool2dNhwcArgs::check() const { return check_pool(x, params, 1, 2); }
std::string MaxPool2dNhwcArgs::text() const { return fmt::format("{} {}", typed(x), params_text(params)); }

Status MaxPool2dArgs::check() const { return check_pool(x, params, 2, 3); }
std::string MaxPool2dArgs::text() const { return fmt::format("{} {}", typed(x), params_text(params)); }

Status AvgPool2dNhwcArgs::check() const { return check_pool(x, params, 1, 2); }
std::string AvgPool2dNhwcArgs::text() const { return fmt::format("{} {}", typed(x), params_text(params)); }

Status GlobalMeanPoolNhwcArgs::check() const {
  BALLAST_CHECK(check_activation("x", x, 4));
  if (x.dims()[1] != 0 && x.dims()[2] != 0) return {};
  return refused(named("x", x), "there are no positions to take the mean of");
}
std::string GlobalMeanPoolNhwcArgs::text() const { return typed(x); }

Result<Tensor> max_pool2d_nhwc(Context& context, const Tensor& x, const PoolParams& params) {
  return context.registry().call(context, MaxPool2dNhwcArgs{x, params});
}
Result<Tensor> max_pool2d(Context& context, const Tensor& x, const PoolParams& params) {
  return context.registry().call(context, MaxPool2dArgs{x, params});
}
Result<Tensor> avg_pool2d_nhwc(Context& context, const Tensor& x, const PoolParams& params) {
  return context.registry().call(context, AvgPool2dNhwcArgs{x, params});
}
Result<Tensor> global_mean_pool_nhwc(Context& context, const Tensor& x) {
  return context.registry().call(context, GlobalMeanPoolNhwcArgs{x});
}

void add_pooling(Registry& registry) {
  add_builtin(registry, supports_max_pool<MaxPool2dNhwcArgs>, run_max_pool_nhwc);
  add_builtin(registry, supports_max_pool<MaxPool2dArgs>, run_max_pool_nchw);
  add_builtin(registry, supports_avg_pool, run_avg_pool);
  add_builtin(registry, supports_mean, run_mean);
}

}  // namespace ballast::ops
