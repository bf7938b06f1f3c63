#include "ballast/ops/tensor_ops.h"

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

bool supports_add_bias(const Context& context, const AddBiasArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.add_bias; });
}

template <typename T>
Status add_rows(Context& context, const AddBiasArgs& args, Tensor& y) {
  const Param* param = args.bias.param();
  BALLAST_TRY(const auto values, ParamValues<T>::take(context, param));
  const T* bias = param != nullptr ? values.data() : host_data<const T>(*args.bias.tensor());
  kernels<T>(context).add_bias(host_data<const T>(args.x), bias, host_data<T>(y), y.dims().leading(), y.dims().back(),
                               context.threads());
  return {};
}

Result<Tensor> run_add_bias(Context& context, const AddBiasArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return add_rows<T>(context, args, y); }));
  return y;
}

bool supports_binary(const Context& context, const BinaryArgs& args) {
  return has_kernel(context, args.a.dtype(), [](const auto& table) { return table.binary; });
}

Result<Tensor> run_binary(Context& context, const BinaryArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.a.dims(), args.a.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    kernels<T>(context).binary(args.op, host_data<const T>(args.a), host_data<const T>(args.b), host_data<T>(y),
                               y.count(), context.threads());
  });
  return y;
}

bool supports_unary(const Context& context, const UnaryArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.unary; });
}

Result<Tensor> run_unary(Context& context, const UnaryArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    kernels<T>(context).unary(args.op, static_cast<T>(args.parameter), host_data<const T>(args.x), host_data<T>(y),
                              y.count(), context.threads());
  });
  return y;
}

// No table has a kernel for this: no model that we run uses it.
Result<Tensor> run_clamp(Context& context, const ClampArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* x = host_data<const T>(args.x);
    T* out = host_data<T>(y);
    const T low = args.low;
    const T high = args.high;
    context.threads().for_ranges(y.count(), 1 << 14, [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) out[i] = x[i] < low ? low : (x[i] > high ? high : x[i]);  // keeps NaN
    });
  });
  return y;
}

Status run_column_sums(Context& context, const ColumnSumsArgs& args) {
  const uint64_t features = args.sums.count();
  return with_type(args.x.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::column_sums, "sums of columns"));
    table->column_sums(host_data<const T>(args.x), host_data<T>(args.sums), args.x.count() / features, features,
                       args.add, context.threads());
    return {};
  });
}

Status run_choice_gradient(Context& context, const ChoiceGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* x = args.op == BinaryOp::kMax ? host_data<const T>(args.a) : host_data<const T>(args.b);
    const T* y = args.op == BinaryOp::kMax ? host_data<const T>(args.b) : host_data<const T>(args.a);
    const bool if_greater = args.to_a;
    const T* from = host_data<const T>(args.dy);
    T* to = host_data<T>(args.dx);
    context.threads().for_ranges(args.dy.count(), kElementGrain, [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) to[i] = (x[i] > y[i]) == if_greater ? from[i] : T{0};
    });
  });
  return {};
}

Status run_clamp_gradient(Context& context, const ClampGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* in = host_data<const T>(args.x);
    const T* from = host_data<const T>(args.dy);
    T* to = host_data<T>(args.dx);
    const T least = args.low, most = args.high;
    context.threads().for_ranges(args.dy.count(), kElementGrain, [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) to[i] = in[i] < least || in[i] > most ? T{0} : from[i];
    });
  });
  return {};
}

}  // namespace

void add_tensor_ops(Registry& registry) {
  registry.add_builtin(supports_add_bias, run_add_bias);
  registry.add_builtin(supports_binary, run_binary);
  registry.add_builtin(supports_unary, run_unary);
  registry.add_builtin<ClampArgs>(nullptr, run_clamp);
  registry.add_routine(run_column_sums);
  registry.add_routine(run_choice_gradient);
  registry.add_routine(run_clamp_gradient);
}

}  // namespace ballast::host
