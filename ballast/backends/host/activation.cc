#include "ballast/ops/activation.h"

#include <algorithm>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

template <typename Args>
bool supports_activation(const Context& context, const Args& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.unary; });
}

Result<Tensor> run_activation(Context& context, const Tensor& x, UnaryOp op) {
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  with_type(x.dtype(), [&]<typename T>() {
    kernels<T>(context).unary(op, T{0}, host_data<const T>(x), host_data<T>(y), x.count(), context.threads());
  });
  return y;
}

template <typename Args, UnaryOp kOp>
void add_unary(Registry& registry) {
  registry.add_builtin<Args>(supports_activation<Args>,
                             [](Context& context, const Args& args) { return run_activation(context, args.x, kOp); });
}

bool supports_softmax(const Context& context, const SoftmaxLastDimArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.softmax; });
}

Result<Tensor> run_softmax(Context& context, const SoftmaxLastDimArgs& args) {
  const Tensor& x = args.x;
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  if (x.count() == 0) return y;
  with_type(x.dtype(), [&]<typename T>() {
    kernels<T>(context).softmax(host_data<const T>(x), host_data<T>(y), x.dims().leading(),
                                x.dims().rank() == 0 ? 1 : x.dims().back(), context.threads());
  });
  return y;
}

Result<Tensor> run_gelu(Context& context, const GeluArgs& args) {
  return run_activation(context, args.x,
                        args.variant == Activation::kGeluTanh ? UnaryOp::kGeluTanh : UnaryOp::kGeluErf);
}

bool supports_swiglu(const Context& context, const SwigluArgs& args) {
  return has_kernel(context, args.gate.dtype(), [](const auto& table) { return table.swiglu; });
}

Result<Tensor> run_swiglu(Context& context, const SwigluArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.gate.dims(), args.gate.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    kernels<T>(context).swiglu(host_data<const T>(args.gate), host_data<const T>(args.up), host_data<T>(y), y.count(),
                               context.threads());
  });
  return y;
}

// As fast as memory: no table has a kernel for this.
template <typename T>
Status prelu_rows(Context& context, const PreluArgs& args, Tensor& y) {
  BALLAST_TRY(const auto slopes, ParamValues<T>::take(context, args.slopes));
  const uint64_t channels = y.dims().back();
  const T* from = host_data<const T>(args.x);
  T* to = host_data<T>(y);
  const size_t grain = std::max<uint64_t>(1, (1 << 14) / channels);
  context.threads().for_ranges(y.dims().leading(), grain, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const T* x = from + row * channels;
      for (size_t c = 0; c < channels; ++c) to[row * channels + c] = x[c] > T{0} ? x[c] : slopes.data()[c] * x[c];
    }
  });
  return {};
}

Result<Tensor> run_prelu(Context& context, const PreluArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return prelu_rows<T>(context, args, y); }));
  return y;
}

bool supports_prelu(const Context& context, const PreluArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.widen; });
}

Status run_softmax_gradient(Context& context, const SoftmaxGradientArgs& args) {
  const Dims& dims = args.dy.dims();
  if (args.dx.count() == 0) return {};
  return with_type(args.dy.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::softmax, "gradients of softmax"));
    table->softmax(host_data<const T>(args.y), host_data<const T>(args.dy), host_data<T>(args.dx), dims.leading(),
                   dims.rank() == 0 ? 1 : dims.back(), context.threads());
    return {};
  });
}

Status run_unary_gradient(Context& context, const UnaryGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::unary, "gradients of activations"));
    table->unary(args.op, static_cast<T>(args.parameter), host_data<const T>(args.x), host_data<const T>(args.dy),
                 host_data<T>(args.dx), args.dx.count(), context.threads());
    return {};
  });
}

template <typename T>
Status prelu_slopes_along(Context& context, const PreluGradientArgs& args) {
  BALLAST_TRY(const auto values, ParamValues<T>::take(context, args.slopes));
  const uint64_t channels = args.dy.dims().back();
  const T* in = host_data<const T>(args.x);
  const T* from = host_data<const T>(args.dy);
  T* to = host_data<T>(*args.dx);
  context.threads().for_ranges(args.dy.dims().leading(), row_grain(channels), [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      for (size_t c = 0; c < channels; ++c) {
        const size_t i = row * channels + c;
        to[i] = in[i] > T{0} ? from[i] : values.data()[c] * from[i];
      }
    }
  });
  return {};
}

template <typename T>
void prelu_terms(Context& context, const PreluGradientArgs& args) {
  const T* in = host_data<const T>(args.x);
  const T* from = host_data<const T>(args.dy);
  T* to = host_data<T>(*args.terms);
  context.threads().for_ranges(args.dy.count(), kElementGrain, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) to[i] = in[i] > T{0} ? T{0} : in[i] * from[i];
  });
}

Status run_prelu_gradient(Context& context, const PreluGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() -> Status {
    if (args.terms != nullptr) prelu_terms<T>(context, args);
    return args.dx != nullptr ? prelu_slopes_along<T>(context, args) : Status();
  });
}

}  // namespace

void add_activation(Registry& registry) {
  add_unary<ReluArgs, UnaryOp::kRelu>(registry);
  add_unary<Relu6Args, UnaryOp::kRelu6>(registry);
  add_unary<SiluArgs, UnaryOp::kSilu>(registry);
  registry.add_builtin(supports_softmax, run_softmax);
  registry.add_builtin(supports_activation<GeluArgs>, run_gelu);
  registry.add_builtin(supports_swiglu, run_swiglu);
  registry.add_builtin(supports_prelu, run_prelu);
  registry.add_routine(run_unary_gradient);
  registry.add_routine(run_softmax_gradient);
  registry.add_routine(run_prelu_gradient);
}

}  // namespace ballast::host
