#include "ballast/ops/pooling.h"

#include <fmt/format.h>

#include "ballast/ops/check.h"
#include "ballast/ops/conv.h"

namespace ballast::ops {

namespace {

std::optional<uint64_t> pooled_h(uint64_t h, const PoolParams& p) {
  return window_count(h, p.pad_top, p.pad_bottom, p.window_h, 1, p.stride_h);
}
std::optional<uint64_t> pooled_w(uint64_t w, const PoolParams& p) {
  return window_count(w, p.pad_left, p.pad_right, p.window_w, 1, p.stride_w);
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

Dims pooled_dims(const Dims& x, const PoolParams& params) {
  return {x[0], pooled_h(x[1], params).value_or(0), pooled_w(x[2], params).value_or(0), x[3]};
}

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

}  // namespace ballast::ops
