#include "ballast/ops/conv.h"

#include <algorithm>

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/kernels/arguments.h"
#include "ballast/backends/cuda/weight_access.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

constexpr uint64_t rounded_up(uint64_t number, uint64_t step) { return (number + step - 1) / step * step; }
constexpr uint64_t parts_of(uint64_t number, uint64_t size) { return (number + size - 1) / size; }

Windows windows_of(const Tensor& x, const Conv2dArgs& args, const Dims& y) {
  const Conv2dParams& p = args.params;
  return {.x = address_of(device_address(x)),
          .h = narrow(x.dims()[1]),
          .w = narrow(x.dims()[2]),
          .c = narrow(x.dims()[3]),
          .out_h = narrow(y[1]),
          .out_w = narrow(y[2]),
          .window_h = narrow(args.weight.shape()[2]),
          .window_w = narrow(args.weight.shape()[3]),
          .stride_h = narrow(p.stride_h),
          .stride_w = narrow(p.stride_w),
          .pad_top = narrow(p.pad_top),
          .pad_left = narrow(p.pad_left),
          .dilation_h = narrow(p.dilation_h),
          .dilation_w = narrow(p.dilation_w)};
}

Result<Convolution> convolution_of(Context& context, const Conv2dArgs& args, const Tensor& y) {
  BALLAST_TRY(const VectorWeight bias, vector_weight(context, args.bias));
  const uint64_t outputs = y.dims()[3];
  return Convolution{.ends = {.bias = address_of(bias.address),
                              .residual = address_of(device_address_or_null(args.params.residual)),
                              .y = address_of(device_address(y)),
                              .m = y.count() / outputs,
                              .n = outputs,
                              .bias_type = bias.type,
                              .bend = static_cast<uint32_t>(args.params.activation)},
                     .windows = windows_of(args.x, args, y.dims())};
}

// ---------------------------------------------------------------- of one group, on tensor cores

struct ConvolutionKernels {
  Kernel small, tall, arrange;
  uint32_t parts;  // of filters
};

ConvolutionKernels convolution_kernels(DType dtype, Numerics numerics) {
#define BALLAST_CONVOLUTION_KERNELS(name, type, parts) \
  { Kernel::convolve_##name##_small, Kernel::convolve_##name##_tall, Kernel::arrange_filters_##type, parts }
  if (dtype == DType::kF32) return BALLAST_CONVOLUTION_KERNELS(f32, f32, 3);
  if (dtype == DType::kF16) return BALLAST_CONVOLUTION_KERNELS(f16, f16, 2);
  if (numerics == Numerics::kExact) return BALLAST_CONVOLUTION_KERNELS(bf16_exact, bf16, 1);
  return BALLAST_CONVOLUTION_KERNELS(bf16_fast, bf16, 1);
#undef BALLAST_CONVOLUTION_KERNELS
}

// Channels that a pixel has room for where kernels read it.
uint64_t room_for(uint64_t channels) { return rounded_up(channels, 4); }

Result<Tensor> padded_image(Context& context, const Tensor& x) {
  const uint64_t channels = x.dims()[3], room = room_for(channels);
  if (room == channels) return x;
  BALLAST_TRY(Tensor padded, context.workspace().make({x.dims()[0], x.dims()[1], x.dims()[2], room}, x.dtype()));
  BALLAST_CHECK(launch(context, Kernel::pad_channels, grid_over(padded.count()), device_address(x),
                       device_address(padded), narrow(channels), narrow(room), padded.count()));
  return padded;
}

// Terms of a window: filters have zeros behind them, for they are read eight at a time.
uint64_t terms_of(const Shape& weight) { return rounded_up(weight[2] * weight[3] * room_for(weight[1]), 8); }

Result<CudaPointer> arranged_filters(Context& context, const Param& weight, const ConvolutionKernels& kernels) {
  const Shape& shape = weight.shape();
  const uint64_t outputs = shape[0], channels = shape[1], pixels = shape[2] * shape[3], terms = terms_of(shape);
  const auto make = [=](Context& on, const WeightSpan& stored, CudaPointer out) -> Status {
    BALLAST_CHECK(launch(on, kernels.arrange, grid_over(outputs * terms), stored.address, out, outputs,
                         narrow(channels), narrow(room_for(channels)), narrow(pixels), terms));
    return finish_form(on);
  };
  return weight_form(context, weight,
                     {.name = "conv2d.parts.1", .bytes = kernels.parts * outputs * terms * 2, .make = make});
}

// Of blocks for 64 windows, where they would leave multiprocessors without work, each has one segment; all segments
// together take so much memory at most.
constexpr uint64_t kMostSegmentBytes = uint64_t{64} << 20, kMostOfGridHeight = 65'535;

Status convolve_segments(Context& context, const ConvolutionKernels& kernels, Convolution& p, uint64_t blocks) {
  const uint64_t segments = parts_of(p.ends.k, kSegmentTerms), count = p.ends.m * p.ends.n;
  BALLAST_TRY(const Tensor partial, context.workspace().make({segments, count}, DType::kF32));
  p.partial = address_of(device_address(partial));
  const Grid grid{.grid = {narrow(blocks), narrow(segments)},
                  .block = {kConvolutionThreads},
                  .shared_bytes = convolution_shared_bytes(kConvolutionRows, kernels.parts)};
  BALLAST_CHECK(launch(context, kernels.small, grid, p));
  return launch(context, Kernel::sum_segments, grid_over(count), p, narrow(segments));
}

Status launch_convolution(Context& context, const ConvolutionKernels& kernels, Convolution& p) {
  const uint64_t across = parts_of(p.ends.n, kConvolutionOutputs), segments = parts_of(p.ends.k, kSegmentTerms);
  const uint64_t small = across * parts_of(p.ends.m, kConvolutionRows);
  const uint64_t tall = across * parts_of(p.ends.m, 2 * kConvolutionRows);
  const uint64_t multiprocessors = facts(context).multiprocessors;
  const bool fits =
      segments <= kMostOfGridHeight && segments * p.ends.m * p.ends.n * sizeof(float) <= kMostSegmentBytes;
  if (small < multiprocessors && segments > 1 && fits) return convolve_segments(context, kernels, p, small);
  const bool is_tall = tall >= 2 * multiprocessors &&
                       convolution_shared_bytes(2 * kConvolutionRows, kernels.parts) <= facts(context).shared_bytes;
  const uint32_t rows = is_tall ? 2 * kConvolutionRows : kConvolutionRows;
  const Grid grid{.grid = {blocks_for(is_tall ? tall : small, 1)},
                  .block = {kConvolutionThreads},
                  .shared_bytes = convolution_shared_bytes(rows, kernels.parts)};
  return launch(context, is_tall ? kernels.tall : kernels.small, grid, p);
}

Status convolve(Context& context, const Conv2dArgs& args, Convolution& p) {
  const ConvolutionKernels kernels = convolution_kernels(args.weight.dtype(), context.numerics);
  BALLAST_TRY(const CudaPointer filters, arranged_filters(context, args.weight, kernels));
  BALLAST_TRY(const Tensor x, padded_image(context, args.x));
  p.windows.x = address_of(device_address(x));
  p.windows.c = narrow(x.dims()[3]);
  p.ends.k = terms_of(args.weight.shape());
  p.filters = address_of(filters);
  return launch_convolution(context, kernels, p);
}

// ---------------------------------------------------------------- of several groups

// Whether each output reads a channel of its own, four of which lie side by side.
bool has_single_channels(const Conv2dArgs& args) {
  const Shape& weight = args.weight.shape();
  return weight[1] == 1 && weight[0] == args.params.groups && weight[0] % 4 == 0;
}

Status convolve_single(Context& context, const Conv2dArgs& args, Convolution& p) {
  const uint64_t outputs = p.ends.n, pixels = args.weight.shape()[2] * args.weight.shape()[3];
  const auto make = [=](Context& on, const WeightSpan& stored, CudaPointer out) -> Status {
    const auto type = static_cast<uint32_t>(*weight_type_of(stored.dtype));
    BALLAST_CHECK(launch(on, Kernel::arrange_single_filters, grid_over(outputs * pixels), stored.address, type, out,
                         outputs, narrow(pixels)));
    return finish_form(on);
  };
  const WeightForm form{.name = "conv2d.single.1", .bytes = outputs * pixels * sizeof(float), .make = make};
  BALLAST_TRY(const CudaPointer filters, weight_form(context, args.weight, form));
  p.filters = address_of(filters);
  return launch(context, Kernel::convolve_single_f32, grid_over(p.ends.m * outputs / 4), p);
}

Status convolve_groups(Context& context, const Conv2dArgs& args, const Convolution& p) {
  BALLAST_TRY(const WeightSpan span, weights(context, args.weight));
  GroupedConvolution grouped{p};
  grouped.weights = address_of(span.address);
  grouped.channels = narrow(args.weight.shape()[1]);
  grouped.outputs_of_group = narrow(p.ends.n / args.params.groups);
  grouped.weight_type = static_cast<uint32_t>(*weight_type_of(span.dtype));
  return launch(context, Kernel::convolve_groups_f32, grid_over(p.ends.m * p.ends.n), grouped);
}

// ---------------------------------------------------------------- functionals

bool supports_conv2d(const Context& context, const Conv2dArgs& args) {
  if (!is_f32(args.x) || context.product_dtype != DType::kF32) return false;
  if (!is_plain(weight_type_of(args.weight.dtype())) || !is_plain_or_absent(args.bias)) return false;
  const Conv2dParams& p = args.params;
  const Dims &x = args.x.dims(), y = conv2d_output_dims(args);
  const Shape& weight = args.weight.shape();
  return fit_kernels({x[1], x[2], x[3] + 3, p.pad_top, p.pad_left, p.pad_bottom, p.pad_right}) &&
         fit_kernels({x[1] + p.pad_top + p.pad_bottom, x[2] + p.pad_left + p.pad_right, p.stride_h, p.stride_w,
                      p.dilation_h, p.dilation_w, y[0] * y[1] * y[2], y[3], terms_of(weight)});
}

Result<Tensor> run_conv2d(Context& context, const Conv2dArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(conv2d_output_dims(args), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(Convolution p, convolution_of(context, args, y));
  if (args.params.groups == 1) BALLAST_CHECK(convolve(context, args, p));
  else if (has_single_channels(args)) BALLAST_CHECK(convolve_single(context, args, p));
  else BALLAST_CHECK(convolve_groups(context, args, p));
  return y;
}

bool supports_conv_transpose(const Context& context, const ConvTranspose2dArgs& args) {
  if (!is_f32(args.x) || context.product_dtype != DType::kF32) return false;
  if (!is_plain(weight_type_of(args.weight.dtype())) || !is_plain_or_absent(args.bias)) return false;
  const Dims &x = args.x.dims(), y = conv_transpose2d_output_dims(args);
  const Shape& weight = args.weight.shape();
  return fit_kernels({x[1], x[2], x[3], y[1], y[2], y[3], weight[2], weight[3], args.stride, args.pad});
}

Result<Tensor> run_conv_transpose(Context& context, const ConvTranspose2dArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(conv_transpose2d_output_dims(args), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const WeightSpan span, weights(context, args.weight));
  BALLAST_TRY(const VectorWeight bias, vector_weight(context, args.bias));
  const Dims &in = args.x.dims(), &out = y.dims();
  const TransposedConvolution p{.x = address_of(device_address(args.x)),
                                .y = address_of(device_address(y)),
                                .weights = address_of(span.address),
                                .bias = address_of(bias.address),
                                .count = y.count(),
                                .h = narrow(in[1]),
                                .w = narrow(in[2]),
                                .c = narrow(in[3]),
                                .out_h = narrow(out[1]),
                                .out_w = narrow(out[2]),
                                .outputs = narrow(out[3]),
                                .window_h = narrow(args.weight.shape()[2]),
                                .window_w = narrow(args.weight.shape()[3]),
                                .stride = narrow(args.stride),
                                .pad = narrow(args.pad),
                                .weight_type = static_cast<uint32_t>(*weight_type_of(span.dtype)),
                                .bias_type = bias.type};
  BALLAST_CHECK(launch(context, Kernel::convolve_transposed_f32, grid_over(y.count()), p));
  return y;
}

}  // namespace

void add_conv(Registry& registry) {
  add_functional<Conv2dArgs, run_conv2d, supports_conv2d>(registry);
  add_functional<ConvTranspose2dArgs, run_conv_transpose, supports_conv_transpose>(registry);
}

}  // namespace ballast::cuda
