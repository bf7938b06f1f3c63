#include "ballast/ops/conv.h"

#include <fmt/format.h>

#include "ballast/base/checked.h"
#include "ballast/ops/activation.h"
#include "ballast/ops/check.h"

namespace ballast::ops {

namespace {

std::optional<uint64_t> conv_out_h(const Conv2dArgs& args) {
  const Conv2dParams& p = args.params;
  return window_count(args.x.dims()[1], p.pad_top, p.pad_bottom, args.weight.shape()[2], p.dilation_h, p.stride_h);
}
std::optional<uint64_t> conv_out_w(const Conv2dArgs& args) {
  const Conv2dParams& p = args.params;
  return window_count(args.x.dims()[2], p.pad_left, p.pad_right, args.weight.shape()[3], p.dilation_w, p.stride_w);
}

Conv2dParams without_epilogue(Conv2dParams params) {
  params.activation = Activation::kNone;
  params.residual = nullptr;
  return params;
}

// What comes behind the sums.
Result<Tensor> finish_in_steps(Context& context, const Conv2dParams& params, Tensor y) {
  if (params.residual != nullptr) {
    BALLAST_TRY(y, add(context, y, *params.residual));
  }
  return activate(context, params.activation, y);
}

Status check_channels(const Conv2dArgs& args) {
  const Shape& shape = args.weight.shape();
  const uint64_t groups = args.params.groups;
  const uint64_t channels = args.x.dims()[3];
  if (channels == 0 || groups == 0 || shape[1] == 0 || channels / groups != shape[1] || channels % groups != 0) {
    return does_not_fit(named("x", args.x), named("weight", args.weight),
                        fmt::format("the last dimension of x must be {} for {} group{}",
                                    checked_mul(shape[1], groups).value_or(0), groups, groups == 1 ? "" : "s"));
  }
  if (shape[0] % groups == 0) return {};
  return refused(named("weight", args.weight),
                 fmt::format("{} outputs do not divide into {} groups", shape[0], groups));
}

Status check_windows(const Conv2dArgs& args) {
  const Conv2dParams& params = args.params;
  const Shape& shape = args.weight.shape();
  if (params.stride_h == 0 || params.stride_w == 0 || params.dilation_h == 0 || params.dilation_w == 0 ||
      shape[2] == 0 || shape[3] == 0) {
    return refused(named("weight", args.weight),
                   fmt::format("kernel, strides ({}, {}) and dilations ({}, {}) must be at least 1", params.stride_h,
                               params.stride_w, params.dilation_h, params.dilation_w));
  }
  if (conv_out_h(args) && conv_out_w(args)) return {};
  return does_not_fit(named("x", args.x), named("weight", args.weight),
                      fmt::format("the padded image is smaller than the kernel (padding {}, {}, {}, {})",
                                  params.pad_top, params.pad_bottom, params.pad_left, params.pad_right));
}

Status check_rest(const Conv2dArgs& args) {
  if (args.bias != nullptr) {
    BALLAST_CHECK(check_weight("bias", *args.bias, 1));
    if (args.bias->shape()[0] != args.weight.shape()[0]) {
      return does_not_fit(named("bias", *args.bias), named("weight", args.weight),
                          fmt::format("it must have {} values", args.weight.shape()[0]));
    }
  }
  const Tensor* residual = args.params.residual;
  if (residual == nullptr) return {};
  BALLAST_CHECK(check_activation("residual", *residual));
  const Dims expected = conv2d_output_dims(args);
  if (residual->dims() == expected && residual->dtype() == args.x.dtype()) return {};
  return does_not_fit("residual " + typed(*residual),
                      fmt::format("{} {}", named("x", args.x), named("weight", args.weight)),
                      fmt::format("the output is {} {}", dtype_name(args.x.dtype()), expected.to_string()));
}

}  // namespace

bool is_recorded_in_steps(const Conv2dParams& params) {
  return params.residual != nullptr ||
         (params.activation != Activation::kNone && params.activation != Activation::kRelu);
}

std::optional<uint64_t> window_count(uint64_t size, uint64_t pad_before, uint64_t pad_after, uint64_t window,
                                     uint64_t dilation, uint64_t stride) {
  const auto padding = checked_add(pad_before, pad_after);
  const auto padded = padding ? checked_add(size, *padding) : std::nullopt;
  const auto reach = checked_mul(window - 1, dilation);
  if (!padded || !reach || *reach >= *padded) return std::nullopt;
  return (*padded - *reach - 1) / stride + 1;
}

Dims conv2d_output_dims(const Conv2dArgs& args) {
  return {args.x.dims()[0], conv_out_h(args).value_or(0), conv_out_w(args).value_or(0), args.weight.shape()[0]};
}

bool Conv2dArgs::is_taken_apart(const Context& context) const {
  const Registry& registry = context.registry();
  return (params.activation != Activation::kNone && registry.is_overridden(functional_of(params.activation))) ||
         (params.residual != nullptr && registry.is_overridden("binary"));
}

Result<Tensor> Conv2dArgs::run_in_steps(Context& context) const {
  const Conv2dParams plain = without_epilogue(params);
  BALLAST_TRY(Tensor y, context.registry().call(context, Conv2dArgs{x, weight, bias, plain}));
  return finish_in_steps(context, params, std::move(y));
}

Status Conv2dArgs::check() const {
  BALLAST_CHECK(check_activation("x", x, 4));
  BALLAST_CHECK(check_plain_weight("weight", weight, 4));
  BALLAST_CHECK(check_channels(*this));
  BALLAST_CHECK(check_windows(*this));
  return check_rest(*this);
}

std::string Conv2dArgs::text() const {
  return fmt::format("{} by {}{} stride {}, {} pad {}, {}, {}, {} dilation {}, {} groups {}{} {}", typed(x),
                     typed(weight), bias != nullptr ? " + bias" : "", params.stride_h, params.stride_w, params.pad_top,
                     params.pad_bottom, params.pad_left, params.pad_right, params.dilation_h, params.dilation_w,
                     params.groups, params.residual != nullptr ? " + residual" : "", to_text(params.activation));
}

Result<Tensor> conv2d(Context& context, const Tensor& x, const Param& weight, const Param* bias,
                      const Conv2dParams& params) {
  if (context.tape == nullptr || !is_recorded_in_steps(params)) {
    return context.registry().call(context, Conv2dArgs{x, weight, bias, params});
  }
  BALLAST_TRY(Tensor y, conv2d(context, x, weight, bias, without_epilogue(params)));
  return finish_in_steps(context, params, std::move(y));
}

}  // namespace ballast::ops
