// A transposed convolution is what a convolution does to gradients: y is the gradient of the input of a convolution
// from y's shape to x's, whose output has the gradient x. Its own gradients are that convolution.
#include <fmt/format.h>

#include "ballast/base/checked.h"
#include "ballast/ops/check.h"
#include "ballast/ops/conv.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

// (size - 1) * stride - 2 * pad + kernel; nullopt where that is nothing.
std::optional<uint64_t> grown(uint64_t size, uint64_t stride, uint64_t pad, uint64_t kernel) {
  const auto steps = checked_mul(size - 1, stride);
  const auto reach = steps ? checked_add(*steps, kernel) : std::nullopt;
  const auto cut = checked_mul(pad, uint64_t{2});
  if (size == 0 || !reach || !cut || *cut >= *reach) return std::nullopt;
  return *reach - *cut;
}

Conv2dParams convolution(uint64_t stride, uint64_t pad) {
  return {.stride_h = stride, .stride_w = stride, .pad_top = pad, .pad_bottom = pad, .pad_left = pad, .pad_right = pad};
}

struct ConvTranspose2dStep {
  Param weight, bias;
  uint64_t stride, pad;
  bool to_weight, to_bias;
  Tensor x;  // where the gradient of the weight is wanted
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (to_bias) {
      BALLAST_TRY(const GradientPlace place, tape.place(bias, dy.dtype()));
      BALLAST_CHECK(add_column_sums(context, dy, place));
    }
    if (to_weight) {
      BALLAST_TRY(const GradientPlace place, tape.place(weight, dy.dtype()));
      const Conv2dParams params = convolution(stride, pad);
      Conv2dGradientArgs args{params, weight.shape(), dy.dims(), x};
      args.x = &dy;
      args.dw = place.gradient;
      args.add = place.add;
      BALLAST_CHECK(context.registry().run(context, args));
    }
    if (!input.is_followed()) return {};
    BALLAST_TRY(const Tensor dx, conv2d(context, dy, weight, nullptr, convolution(stride, pad)));
    return tape.add(context, input, dx);
  }
};

}  // namespace

Dims conv_transpose2d_output_dims(const ConvTranspose2dArgs& args) {
  const Dims& in = args.x.dims();
  const Shape& kernel = args.weight.shape();
  return {in[0], grown(in[1], args.stride, args.pad, kernel[2]).value_or(0),
          grown(in[2], args.stride, args.pad, kernel[3]).value_or(0), kernel[1]};
}

Conv2dParams convolution_of(const ConvTranspose2dArgs& args) { return convolution(args.stride, args.pad); }

Status ConvTranspose2dArgs::check() const {
  BALLAST_CHECK(check_activation("x", x, 4));
  BALLAST_CHECK(check_plain_weight("weight", weight, 4));
  if (x.dims()[3] != weight.shape()[0] || x.dims()[3] == 0 || weight.shape()[1] == 0) {
    return does_not_fit(named("x", x), named("weight", weight),
                        fmt::format("the last dimension of x must be {}, and no dimension 0", weight.shape()[0]));
  }
  if (stride == 0 || weight.shape()[2] == 0 || weight.shape()[3] == 0) {
    return refused(named("weight", weight), fmt::format("kernel and stride ({}) must be at least 1", stride));
  }
  if (!grown(x.dims()[1], stride, pad, weight.shape()[2]) || !grown(x.dims()[2], stride, pad, weight.shape()[3])) {
    return does_not_fit(named("x", x), named("weight", weight),
                        fmt::format("nothing would be left after a padding of {}", pad));
  }
  if (bias == nullptr) return {};
  BALLAST_CHECK(check_weight("bias", *bias, 1));
  if (bias->shape()[0] == weight.shape()[1]) return {};
  return does_not_fit(named("bias", *bias), named("weight", weight),
                      fmt::format("it must have {} values", weight.shape()[1]));
}

std::string ConvTranspose2dArgs::text() const {
  return fmt::format("{} by {}{} stride {} pad {}", typed(x), typed(weight), bias != nullptr ? " + bias" : "", stride,
                     pad);
}

void ConvTranspose2dArgs::record(Tape& tape, const Tensor& y) const {
  ConvTranspose2dStep step{};
  step.weight = weight;
  step.stride = stride;
  step.pad = pad;
  step.to_weight = tape.follows(weight);
  step.to_bias = tape.follows(bias);
  step.input = tape.input(x);
  if (!step.to_weight && !step.to_bias && !step.input.is_followed()) return;
  if (step.to_bias) step.bias = *bias;
  if (step.to_weight) step.x = x;
  tape.record(y, std::move(step));
}

Result<Tensor> conv_transpose2d(Context& context, const Tensor& x, const Param& weight, const Param* bias,
                                uint64_t stride, uint64_t pad) {
  return context.registry().call(context, ConvTranspose2dArgs{x, weight, bias, stride, pad});
}

}  // namespace ballast::ops
