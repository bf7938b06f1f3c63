#include "ballast/ops/conv.h"

#include <fmt/format.h>

#include "ballast/base/checked.h"
#include "ballast/ops/activation.h"
#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/kernel_access.h"
#include "ballast/ops/rounding.h"

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

// Everything but weight and bias.
template <typename T>
Conv2dProblem<T> make_conv_problem(const Conv2dArgs& args, Tensor& y) {
  const Conv2dParams& params = args.params;
  Conv2dProblem<T> problem = conv2d_problem<T>(args.x.dims(), args.weight.shape(), params, y.dims());
  problem.x = args.x.data<T>();
  problem.y = y.writable<T>();
  problem.residual = params.residual != nullptr ? params.residual->data<T>() : nullptr;
  problem.activation = params.activation;
  return problem;
}

template <typename T>
Status run_kernel(Context& context, const Conv2dProblem<T>& problem) {
  const KernelTable<T>& table = kernels<T>(context);
  const uint64_t elements =
      table.conv2d_scratch != nullptr ? table.conv2d_scratch(problem, context.threads().size()) : 0;
  BALLAST_TRY(Tensor scratch, context.workspace().make({elements}, kDTypeOf<T>));
  table.conv2d(problem, scratch.writable<T>(), context.threads());
  return {};
}

template <typename T>
void set_tile(const Param& weight, const Lease& lease, Conv2dProblem<T>& problem) {
  problem.w = WeightView{lease.bytes().data(), weight.dtype()};
  problem.o_begin = lease.first_row();
  problem.o_count = lease.row_count();
}

// The weight in the form that the backend likes; nullopt where it has none, or there is no room for it.
template <typename T>
Result<std::optional<Lease>> packed_weight(Context& context, const Param& weight, Conv2dProblem<T> problem) {
  const KernelTable<T>& table = kernels<T>(context);
  BALLAST_TRY(const bool rounds, rounds_products(context));
  if (table.conv2d_pack == nullptr || rounds) return std::optional<Lease>();
  problem.w.dtype = weight.dtype();
  problem.o_count = problem.c_out;
  const uint64_t bytes = table.conv2d_packed_bytes(problem);
  if (bytes == 0) return std::optional<Lease>();
  const std::string name = fmt::format("conv2d.{}.{}", context.backend().name, context.backend().level());
  return weight.store().derived(weight, DerivedForm{name, bytes, [&](const Param& source, MutableByteSpan out) {
                                                      return for_each_tile(source, [&](const Lease& lease) -> Status {
                                                        set_tile(source, lease, problem);
                                                        table.conv2d_pack(problem, out.data(), context.threads());
                                                        return {};
                                                      });
                                                    }});
}

template <typename T>
Status run_tiles(Context& context, const Conv2dArgs& args, Tensor& y) {
  BALLAST_TRY(const auto bias, ParamValues<T>::take(context, args.bias));
  Conv2dProblem<T> problem = make_conv_problem<T>(args, y);
  problem.bias = bias.data();
  BALLAST_TRY(const std::optional<Lease> packed, packed_weight(context, args.weight, problem));
  if (packed) {
    problem.w = WeightView{packed->bytes().data(), args.weight.dtype(), true};
    problem.o_count = problem.c_out;
    return run_kernel(context, problem);
  }
  return for_each_tile(args.weight, [&](const Lease& lease) -> Status {
    set_tile(args.weight, lease, problem);
    Tensor rounded;
    const uint64_t row = args.weight.row_bytes() / (dtype_info(args.weight.dtype()).bits / 8);
    BALLAST_TRY(problem.w, product_weight(context, problem.w, lease.row_count() * row, rounded));
    return run_kernel(context, problem);
  });
}

Result<Tensor> run_fused_conv(Context& context, const Conv2dArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(conv2d_output_dims(args), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const Tensor x, product_operand(context, args.x));
  const Conv2dArgs operands{x, args.weight, args.bias, args.params};
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return run_tiles<T>(context, operands, y); }));
  return y;
}

bool is_conv_taken_apart(const Context& context, const Conv2dParams& params) {
  const Registry& registry = context.registry();
  return (params.activation != Activation::kNone && registry.is_overridden(functional_of(params.activation))) ||
         (params.residual != nullptr && registry.is_overridden("binary"));
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

Result<Tensor> run_conv_in_steps(Context& context, const Conv2dArgs& args) {
  const Conv2dParams plain = without_epilogue(args.params);
  BALLAST_TRY(Tensor y, run_fused_conv(context, Conv2dArgs{args.x, args.weight, args.bias, plain}));
  return finish_in_steps(context, args.params, std::move(y));
}

bool supports_conv2d(const Context& context, const Conv2dArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.conv2d; });
}

Result<Tensor> run_conv2d(Context& context, const Conv2dArgs& args) {
  return is_conv_taken_apart(context, args.params) ? run_conv_in_steps(context, args) : run_fused_conv(context, args);
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

void add_conv(Registry& registry) {
  add_builtin(registry, supports_conv2d, run_conv2d);
  add_conv_transpose(registry);
}

}  // namespace ballast::ops
