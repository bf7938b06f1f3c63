#include "ballast/ops/conv.h"

#include <algorithm>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::reference {

namespace {

// The shapes of a convolution, and which elements meet in it.
struct Convolution {
  uint64_t images, h, w, inputs;
  uint64_t out_h, out_w, outputs;
  uint64_t channels, kernel_h, kernel_w;  // of the weight [outputs, channels, kernel_h, kernel_w]
  const Conv2dParams& params;

  Convolution(const Dims& x, const Shape& weight, const Conv2dParams& p, const Dims& y)
      : images(x[0]),
        h(x[1]),
        w(x[2]),
        inputs(x[3]),
        out_h(y[1]),
        out_w(y[2]),
        outputs(y[3]),
        channels(weight[1]),
        kernel_h(weight[2]),
        kernel_w(weight[3]),
        params(p) {}

  // body(input, weight, output) with the places of all triples in y[output] += x[input] * w[weight] that belong to one
  // image and one output channel.
  template <typename Body>
  void for_each_triple(uint64_t image, uint64_t output, const Body& body) const {
    const uint64_t first_channel = output / (outputs / params.groups) * channels;
    for (uint64_t oy = 0; oy < out_h; ++oy) {
      for (uint64_t ky = 0; ky < kernel_h; ++ky) {
        const uint64_t y =
            oy * params.stride_h + ky * params.dilation_h - params.pad_top;  // above: wraps, is too large
        for (uint64_t ox = 0; y < h && ox < out_w; ++ox) {
          for (uint64_t kx = 0; kx < kernel_w; ++kx) {
            const uint64_t x = ox * params.stride_w + kx * params.dilation_w - params.pad_left;
            if (x >= w) continue;
            const uint64_t pixel = ((image * h + y) * w + x) * inputs + first_channel;
            const uint64_t at = ((image * out_h + oy) * out_w + ox) * outputs + output;
            for (uint64_t c = 0; c < channels; ++c) {
              body(pixel + c, ((output * channels + c) * kernel_h + ky) * kernel_w + kx, at);
            }
          }
        }
      }
    }
  }

  // body(input, weight) with the places of all pairs of which the element of one output channel at one position is the
  // sum, in the order kh, kw, channel.
  template <typename Body>
  void for_each_pair(uint64_t position, uint64_t output, const Body& body) const {
    const uint64_t image = position / (out_h * out_w), oy = position / out_w % out_h, ox = position % out_w;
    const uint64_t first_channel = output / (outputs / params.groups) * channels;
    for (uint64_t ky = 0; ky < kernel_h; ++ky) {
      const uint64_t y = oy * params.stride_h + ky * params.dilation_h - params.pad_top;  // above: wraps, is too large
      for (uint64_t kx = 0; y < h && kx < kernel_w; ++kx) {
        const uint64_t x = ox * params.stride_w + kx * params.dilation_w - params.pad_left;
        if (x >= w) continue;
        const uint64_t pixel = ((image * h + y) * w + x) * inputs + first_channel;
        for (uint64_t c = 0; c < channels; ++c) {
          body(pixel + c, ((output * channels + c) * kernel_h + ky) * kernel_w + kx);
        }
      }
    }
  }
};

template <typename T>
Status convolve(Context& context, const Conv2dArgs& args, const Tensor& x, Tensor& y) {
  const Convolution shape(x.dims(), args.weight.shape(), args.params, y.dims());
  BALLAST_TRY(const auto weight, Values<T>::operand_of(context, args.weight, 0, args.weight.rows()));
  BALLAST_TRY(const auto bias, Values<T>::of(context, args.bias));
  const T* residual = args.params.residual != nullptr ? host_data<const T>(*args.params.residual) : nullptr;
  const T* in = host_data<const T>(x);
  each(context, y.count() / shape.outputs, [&](size_t position) {
    for (uint64_t output = 0; output < shape.outputs; ++output) {
      T sum = 0;
      shape.for_each_pair(position, output, [&](uint64_t i, uint64_t w) { sum += in[i] * weight[w]; });
      if (bias.is_there()) sum += bias[output];
      const uint64_t at = position * shape.outputs + output;
      if (residual != nullptr) sum += residual[at];
      host_data<T>(y)[at] = activated(args.params.activation, sum);
    }
  });
  return {};
}

Result<Tensor> run_conv2d(Context& context, const Conv2dArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(conv2d_output_dims(args), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const Tensor x, operand(context, args.x));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return convolve<T>(context, args, x, y); }));
  return y;
}

// dx = the sum over outputs and their positions of weight * dy.
template <typename T>
Status input_gradient(Context& context, const Conv2dGradientArgs& args, const Convolution& shape, const Tensor& dy) {
  BALLAST_TRY(const auto weight, Values<T>::operand_of(context, *args.weight, 0, args.weight->rows()));
  const uint64_t size = shape.h * shape.w * shape.inputs;
  const T* from = host_data<const T>(dy);
  T* dx = host_data<T>(*args.dx);
  each(context, shape.images, [&](size_t image) {
    std::fill_n(dx + image * size, size, T{0});
    for (uint64_t output = 0; output < shape.outputs; ++output) {
      shape.for_each_triple(image, output, [&](uint64_t i, uint64_t w, uint64_t at) { dx[i] += weight[w] * from[at]; });
    }
  });
  return {};
}

template <typename T>
Status weight_gradient(Context& context, const Conv2dGradientArgs& args, const Convolution& shape, const Tensor& dy) {
  BALLAST_TRY(const Tensor x, operand(context, *args.x));
  const uint64_t size = shape.channels * shape.kernel_h * shape.kernel_w;
  const T* in = host_data<const T>(x);
  const T* from = host_data<const T>(dy);
  T* dw = host_data<T>(*args.dw);
  each(context, shape.outputs, [&](size_t output) {
    if (!args.add) std::fill_n(dw + output * size, size, T{0});
    for (uint64_t image = 0; image < shape.images; ++image) {
      shape.for_each_triple(image, output, [&](uint64_t i, uint64_t w, uint64_t at) { dw[w] += in[i] * from[at]; });
    }
  });
  return {};
}

Status run_conv2d_gradient(Context& context, const Conv2dGradientArgs& args) {
  const Convolution shape(args.x_dims, args.weight_shape, args.params, args.dy.dims());
  BALLAST_TRY(const Tensor dy, operand(context, args.dy));
  return with_type(dy.dtype(), [&]<typename T>() -> Status {
    if (args.dx != nullptr) BALLAST_CHECK(input_gradient<T>(context, args, shape, dy));
    return args.dw != nullptr ? weight_gradient<T>(context, args, shape, dy) : Status();
  });
}

// ---------------------------------------------------------------- transposed

// Each element of x, times the weight, is added to the window of y that it stands for.
template <typename T>
Status spread(Context& context, const ConvTranspose2dArgs& args, const Tensor& x, Tensor& y) {
  const Conv2dParams params = convolution_of(args);
  const Convolution shape(y.dims(), args.weight.shape(), params, x.dims());
  BALLAST_TRY(const auto weight, Values<T>::operand_of(context, args.weight, 0, args.weight.rows()));
  BALLAST_TRY(const auto bias, Values<T>::of(context, args.bias));
  const uint64_t size = shape.h * shape.w * shape.inputs;
  const T* in = host_data<const T>(x);
  T* out = host_data<T>(y);
  each(context, shape.images, [&](size_t image) {
    std::fill_n(out + image * size, size, T{0});
    for (uint64_t output = 0; output < shape.outputs; ++output) {
      shape.for_each_triple(image, output, [&](uint64_t i, uint64_t w, uint64_t at) { out[i] += weight[w] * in[at]; });
    }
    for (uint64_t i = image * size; bias.is_there() && i < (image + 1) * size; ++i) out[i] += bias[i % shape.inputs];
  });
  return {};
}

Result<Tensor> run_conv_transpose(Context& context, const ConvTranspose2dArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(conv_transpose2d_output_dims(args), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const Tensor x, operand(context, args.x));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return spread<T>(context, args, x, y); }));
  return y;
}

}  // namespace

void add_conv(Registry& registry) {
  registry.add_builtin<Conv2dArgs>(nullptr, run_conv2d);
  registry.add_builtin<ConvTranspose2dArgs>(nullptr, run_conv_transpose);
  registry.add_routine(run_conv2d_gradient);
}

}  // namespace ballast::reference
