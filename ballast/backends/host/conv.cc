#include "ballast/ops/conv.h"

#include <fmt/format.h>

#include <optional>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/backends/host/rounding.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

// The shapes of a convolution. Pointers, weight and epilogue are for the caller.
template <typename T>
Conv2dProblem<T> conv2d_problem(const Dims& x, const Shape& weight, const Conv2dParams& params, const Dims& y) {
  Conv2dProblem<T> problem{};
  problem.n = x[0], problem.h = x[1], problem.width = x[2], problem.c_in = x[3];
  problem.out_h = y[1], problem.out_w = y[2], problem.c_out = y[3];
  problem.kernel_h = weight[2], problem.kernel_w = weight[3];
  problem.groups = params.groups;
  problem.stride_h = params.stride_h, problem.stride_w = params.stride_w;
  problem.pad_top = params.pad_top, problem.pad_left = params.pad_left;
  problem.dilation_h = params.dilation_h, problem.dilation_w = params.dilation_w;
  problem.o_count = problem.c_out;
  return problem;
}

// Everything but weight and bias.
template <typename T>
Conv2dProblem<T> make_conv_problem(const Conv2dArgs& args, Tensor& y) {
  const Conv2dParams& params = args.params;
  Conv2dProblem<T> problem = conv2d_problem<T>(args.x.dims(), args.weight.shape(), params, y.dims());
  problem.x = host_data<const T>(args.x);
  problem.y = host_data<T>(y);
  problem.residual = params.residual != nullptr ? host_data<const T>(*params.residual) : nullptr;
  problem.activation = params.activation;
  return problem;
}

template <typename T>
Status run_kernel(Context& context, const Conv2dProblem<T>& problem) {
  const KernelTable<T>& table = kernels<T>(context);
  const uint64_t elements =
      table.conv2d_scratch != nullptr ? table.conv2d_scratch(problem, context.threads().size()) : 0;
  BALLAST_TRY(Tensor scratch, context.workspace().make({elements}, kDTypeOf<T>));
  table.conv2d(problem, host_data<T>(scratch), context.threads());
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

Result<Tensor> run_conv2d(Context& context, const Conv2dArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(conv2d_output_dims(args), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const Tensor x, product_operand(context, args.x));
  const Conv2dArgs operands{x, args.weight, args.bias, args.params};
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return run_tiles<T>(context, operands, y); }));
  return y;
}

bool supports_conv2d(const Context& context, const Conv2dArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.conv2d; });
}

template <typename T>
Status conv_back(Context& context, const Conv2dGradientArgs& args) {
  BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::conv2d, "gradients of convolutions"));
  Conv2dProblem<T> problem = conv2d_problem<T>(args.x_dims, args.weight_shape, args.params, args.dy.dims());
  Tensor weight_memory, x_memory, dy_memory;
  ParamValues<T> weight;
  if (args.weight != nullptr) {
    BALLAST_TRY(weight, ParamValues<T>::gather(context, *args.weight));
  }
  const uint64_t weights = problem.c_out * (problem.c_in / problem.groups) * problem.kernel_h * problem.kernel_w;
  BALLAST_TRY(const T* w, product_values(context, weight.data(), weights, weight_memory));
  problem.w = WeightView{reinterpret_cast<const std::byte*>(w), kDTypeOf<T>};
  if (args.x != nullptr) {
    BALLAST_TRY(problem.x, product_values(context, host_data<const T>(*args.x), args.x->count(), x_memory));
  }
  Conv2dGradient<T> gradient{};
  gradient.forward = &problem;
  BALLAST_TRY(gradient.dy, product_values(context, host_data<const T>(args.dy), args.dy.count(), dy_memory));
  gradient.dx = data_or_null<T>(args.dx);
  gradient.dw = data_or_null<T>(args.dw);
  gradient.add = args.add;
  const auto scratch_size = kernels<T>(context).gradients.conv2d_scratch;
  const uint64_t elements = scratch_size != nullptr ? scratch_size(gradient, context.threads().size()) : 0;
  BALLAST_TRY(Tensor scratch, context.workspace().make({elements}, kDTypeOf<T>));
  table->conv2d(gradient, host_data<T>(scratch), context.threads());
  return {};
}

Status run_conv2d_gradient(Context& context, const Conv2dGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() { return conv_back<T>(context, args); });
}

bool supports_conv_transpose(const Context& context, const ConvTranspose2dArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.gradients.conv2d; });
}

Result<Tensor> run_conv_transpose(Context& context, const ConvTranspose2dArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(conv_transpose2d_output_dims(args), args.x.dtype()));
  if (y.count() == 0) return y;
  const Conv2dParams params = convolution_of(args);
  Conv2dGradientArgs gradient{params, args.weight.shape(), y.dims(), args.x};
  gradient.weight = &args.weight;
  gradient.dx = &y;
  BALLAST_CHECK(run_conv2d_gradient(context, gradient));
  return args.bias != nullptr ? add_bias(context, y, *args.bias) : y;
}

}  // namespace

void add_conv(Registry& registry) {
  registry.add_builtin(supports_conv2d, run_conv2d);
  registry.add_builtin(supports_conv_transpose, run_conv_transpose);
  registry.add_routine(run_conv2d_gradient);
}

}  // namespace ballast::host
