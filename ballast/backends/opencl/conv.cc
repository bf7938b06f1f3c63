#include "ballast/ops/conv.h"

#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/weight_access.h"

namespace ballast::opencl {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

bool supports_conv2d(const Context& context, const Conv2dArgs& args) {
  if (!is_f32(args.x) || context.product_dtype != DType::kF32) return false;
  if (!is_plain(args.weight.dtype()) || !is_readable_or_absent(args.bias)) return false;
  const Conv2dParams& p = args.params;
  const Dims &x = args.x.dims(), y = conv2d_output_dims(args);
  const Shape& weight = args.weight.shape();
  return fit_kernels({x[1], x[2], x[3], y[1], y[2], y[3], weight[1], weight[2], weight[3], p.stride_h, p.stride_w,
                      p.pad_top, p.pad_left, p.dilation_h, p.dilation_w});
}

Result<Tensor> run_conv2d(Context& context, const Conv2dArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(conv2d_output_dims(args), args.x.dtype()));
  if (y.count() == 0) return y;
  const Conv2dParams& p = args.params;
  const Dims &x = args.x.dims(), &out = y.dims();
  const Shape& weight = args.weight.shape();
  BALLAST_TRY(const WeightSpan span, weights(context, args.weight));
  BALLAST_TRY(const VectorWeight bias, vector_weight(context, args.bias));
  BALLAST_CHECK(launch(context, {"images", "convolve_f32"}, grid_over(y.count()), device_buffer(args.x), span.buffer,
                       static_cast<uint32_t>(*weight_type_of(span.dtype)), bias.buffer, bias.type,
                       device_buffer_or_null(p.residual), device_buffer(y), y.count(), narrow(x[1]), narrow(x[2]),
                       narrow(x[3]), narrow(out[1]), narrow(out[2]), narrow(out[3]), narrow(weight[1]),
                       narrow(out[3] / p.groups), narrow(weight[2]), narrow(weight[3]), narrow(p.stride_h),
                       narrow(p.stride_w), narrow(p.pad_top), narrow(p.pad_left), narrow(p.dilation_h),
                       narrow(p.dilation_w), static_cast<uint32_t>(p.activation)));
  return y;
}

}  // namespace

void add_conv(Registry& registry) { add_functional<Conv2dArgs, run_conv2d, supports_conv2d>(registry); }

}  // namespace ballast::opencl
