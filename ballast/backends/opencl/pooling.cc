#include "ballast/ops/pooling.h"

#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/weight_access.h"

namespace ballast::opencl {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

template <typename Args>
bool supports_windows(const Context&, const Args& args) {
  const Dims& x = args.x.dims();
  const PoolParams& p = args.params;
  return is_f32(args.x) && fit_kernels({x[1] + p.pad_top + p.pad_bottom, x[2] + p.pad_left + p.pad_right,
                                        x[3] + p.pad_left + p.pad_right, p.pad_top, p.pad_bottom, p.pad_left,
                                        p.pad_right, p.window_h, p.window_w, p.stride_h, p.stride_w});
}

// Dimensions as NHWC, wherever the elements lie.
Status launch_pooling(Context& context, const Tensor& x, const Dims& in, const Tensor& y, const Dims& out,
                      const PoolParams& p, bool channels_first, bool is_mean) {
  return launch(context, {"images", "pool_f32"}, grid_over(y.count()), device_buffer(x), device_buffer(y), y.count(),
                narrow(in[1]), narrow(in[2]), narrow(in[3]), narrow(out[1]), narrow(out[2]), narrow(p.window_h),
                narrow(p.window_w), narrow(p.stride_h), narrow(p.stride_w), narrow(p.pad_top), narrow(p.pad_left),
                static_cast<uint32_t>(channels_first), static_cast<uint32_t>(is_mean));
}

Result<Tensor> pool_nhwc(Context& context, const Tensor& x, const PoolParams& params, bool is_mean) {
  BALLAST_TRY(Tensor y, context.workspace().make(pooled_dims(x.dims(), params), x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(launch_pooling(context, x, x.dims(), y, y.dims(), params, false, is_mean));
  return y;
}

Result<Tensor> run_max_pool_nhwc(Context& context, const MaxPool2dNhwcArgs& args) {
  return pool_nhwc(context, args.x, args.params, false);
}

Result<Tensor> run_avg_pool_nhwc(Context& context, const AvgPool2dNhwcArgs& args) {
  return pool_nhwc(context, args.x, args.params, true);
}

Result<Tensor> run_max_pool_nchw(Context& context, const MaxPool2dArgs& args) {
  const Dims& x = args.x.dims();
  const Dims in{x[0], x[2], x[3], x[1]}, out = pooled_dims(in, args.params);
  BALLAST_TRY(Tensor y, context.workspace().make({out[0], out[3], out[1], out[2]}, args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(launch_pooling(context, args.x, in, y, out, args.params, true, false));
  return y;
}

bool supports_global_mean(const Context&, const GlobalMeanPoolNhwcArgs& args) { return is_f32(args.x); }

Result<Tensor> run_global_mean(Context& context, const GlobalMeanPoolNhwcArgs& args) {
  const Dims& x = args.x.dims();
  BALLAST_TRY(Tensor y, context.workspace().make({x[0], x[3]}, args.x.dtype()));
  BALLAST_CHECK(launch(context, {"images", "mean_of_pixels_f32"}, {.x = y.count()}, device_buffer(args.x),
                       device_buffer(y), x[1] * x[2], x[3]));
  return y;
}

}  // namespace

void add_pooling(Registry& registry) {
  add_functional<MaxPool2dNhwcArgs, run_max_pool_nhwc, supports_windows<MaxPool2dNhwcArgs>>(registry);
  add_functional<MaxPool2dArgs, run_max_pool_nchw, supports_windows<MaxPool2dArgs>>(registry);
  add_functional<AvgPool2dNhwcArgs, run_avg_pool_nhwc, supports_windows<AvgPool2dNhwcArgs>>(registry);
  add_functional<GlobalMeanPoolNhwcArgs, run_global_mean, supports_global_mean>(registry);
}

}  // namespace ballast::opencl
