#include "ballast/ops/pooling.h"

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/kernels/arguments.h"
#include "ballast/backends/cuda/weight_access.h"
#include "ballast/ops/sampling.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

// ---------------------------------------------------------------- windows

bool supports_pooling(const Tensor& x, const PoolParams& p) {
  const Dims& dims = x.dims();
  return is_f32(x) && fit_kernels({dims[1], dims[2], dims[3], p.pad_top, p.pad_bottom, p.pad_left, p.pad_right}) &&
         fit_kernels({dims[1] + p.pad_top + p.pad_bottom, dims[2] + p.pad_left + p.pad_right, p.window_h, p.window_w,
                      p.stride_h, p.stride_w});
}
template <typename Args>
bool supports_windows(const Context&, const Args& args) {
  return supports_pooling(args.x, args.params);
}

ImageStrides nhwc_strides(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }
ImageStrides nchw_strides(const Dims& d) { return {d[1] * d[2] * d[3], d[3], 1, d[2] * d[3]}; }

// Dimensions of x and y as NHWC, wherever their elements lie.
Status launch_pooling(Context& context, const Tensor& x, const Dims& in, const ImageStrides& from, const Tensor& y,
                      const Dims& out, const ImageStrides& to, const PoolParams& params, Pooling pooling) {
  const Windows windows{.x = address_of(device_address(x)),
                        .h = narrow(in[1]),
                        .w = narrow(in[2]),
                        .c = narrow(in[3]),
                        .out_h = narrow(out[1]),
                        .out_w = narrow(out[2]),
                        .window_h = narrow(params.window_h),
                        .window_w = narrow(params.window_w),
                        .stride_h = narrow(params.stride_h),
                        .stride_w = narrow(params.stride_w),
                        .pad_top = narrow(params.pad_top),
                        .pad_left = narrow(params.pad_left)};
  if (from.c == 1 && in[3] % 4 == 0) {
    return launch(context, Kernel::pool_fours_f32, grid_over(y.count() / 4), windows, device_address(y),
                  static_cast<uint32_t>(pooling), y.count());
  }
  return launch(context, Kernel::pool_f32, grid_over(y.count()), windows, from, to, device_address(y),
                static_cast<uint32_t>(pooling), y.count());
}

Result<Tensor> pool_nhwc(Context& context, const Tensor& x, const PoolParams& params, Pooling pooling) {
  BALLAST_TRY(Tensor y, context.workspace().make(pooled_dims(x.dims(), params), x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(launch_pooling(context, x, x.dims(), nhwc_strides(x.dims()), y, y.dims(), nhwc_strides(y.dims()),
                               params, pooling));
  return y;
}

Result<Tensor> run_max_pool_nhwc(Context& context, const MaxPool2dNhwcArgs& args) {
  return pool_nhwc(context, args.x, args.params, Pooling::kLargest);
}

Result<Tensor> run_avg_pool_nhwc(Context& context, const AvgPool2dNhwcArgs& args) {
  return pool_nhwc(context, args.x, args.params, Pooling::kMean);
}

Result<Tensor> run_max_pool_nchw(Context& context, const MaxPool2dArgs& args) {
  const Dims& x = args.x.dims();
  const Dims in{x[0], x[2], x[3], x[1]}, out = pooled_dims(in, args.params);
  BALLAST_TRY(Tensor y, context.workspace().make({out[0], out[3], out[1], out[2]}, args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(launch_pooling(context, args.x, in, nchw_strides(x), y, out, nchw_strides(y.dims()), args.params,
                               Pooling::kLargest));
  return y;
}

// ---------------------------------------------------------------- whole images

bool supports_global_mean(const Context&, const GlobalMeanPoolNhwcArgs& args) {
  return is_f32(args.x) && fit_kernels({args.x.dims()[0] * args.x.dims()[3]});
}

Result<Tensor> run_global_mean(Context& context, const GlobalMeanPoolNhwcArgs& args) {
  const Dims& x = args.x.dims();
  BALLAST_TRY(Tensor y, context.workspace().make({x[0], x[3]}, args.x.dtype()));
  if (y.count() == 0) return y;
  const Grid grid{.grid = {blocks_for(x[0] * ((x[3] + 31) / 32), 1)}, .block = {256}};
  BALLAST_CHECK(
      launch(context, Kernel::mean_of_pixels_f32, grid, device_address(args.x), device_address(y), x[1] * x[2], x[3]));
  return y;
}

bool supports_upsampling(const Context&, const Upsample2dArgs& args) {
  const Dims& x = args.x.dims();
  return is_f32(args.x) && fit_kernels({x[1] * args.factor, x[2] * args.factor, args.factor});
}

// Kernels are given a method as its number.
static_assert(static_cast<uint32_t>(Upsampling::kNearest) == 0 &&
              static_cast<uint32_t>(Upsampling::kBilinearAlignedCorners) == 2);

Result<Tensor> run_upsampling(Context& context, const Upsample2dArgs& args) {
  const Dims& x = args.x.dims();
  BALLAST_TRY(Tensor y, context.workspace().make({x[0], x[1] * args.factor, x[2] * args.factor, x[3]}, args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(launch(context, Kernel::upsample_f32, grid_over(y.count()), device_address(args.x), device_address(y),
                       static_cast<uint32_t>(x[1]), static_cast<uint32_t>(x[2]), x[3],
                       static_cast<uint32_t>(args.factor), static_cast<uint32_t>(args.method), y.count()));
  return y;
}

}  // namespace

void add_pooling(Registry& registry) {
  add_functional<MaxPool2dNhwcArgs, run_max_pool_nhwc, supports_windows<MaxPool2dNhwcArgs>>(registry);
  add_functional<MaxPool2dArgs, run_max_pool_nchw, supports_windows<MaxPool2dArgs>>(registry);
  add_functional<AvgPool2dNhwcArgs, run_avg_pool_nhwc, supports_windows<AvgPool2dNhwcArgs>>(registry);
  add_functional<GlobalMeanPoolNhwcArgs, run_global_mean, supports_global_mean>(registry);
  add_functional<Upsample2dArgs, run_upsampling, supports_upsampling>(registry);
}

}  // namespace ballast::cuda
