#include "ballast/ops/normalization.h"

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

// The values of a parameter plus `shift`; `memory` keeps them where they are not the parameter's own.
template <typename T>
Result<const T*> shifted_values(Context& context, const ParamValues<T>& values, uint64_t count, float shift,
                                Tensor& memory) {
  if (shift == 0) return values.data();
  BALLAST_TRY(memory, context.workspace().make({count}, kDTypeOf<T>));
  T* to = host_data<T>(memory);
  for (uint64_t i = 0; i < count; ++i) to[i] = values.data()[i] + static_cast<T>(shift);
  return host_data<const T>(memory);
}

template <typename T>
using NormKernel = void (*)(const NormProblem<T>&, ThreadPool&);

template <typename T>
Status normalise_rows(Context& context, NormKernel<T> kernel, const Tensor& x, const Param& gamma, const Param* beta,
                      float eps, float shift, Tensor& y) {
  BALLAST_TRY(const auto gammas, ParamValues<T>::take(context, gamma));
  Tensor shifted;
  BALLAST_TRY(const T* scales, shifted_values(context, gammas, x.dims().back(), shift, shifted));
  BALLAST_TRY(const auto shifts, ParamValues<T>::take(context, beta));
  kernel(NormProblem<T>{host_data<const T>(x), host_data<T>(y), scales, shifts.data(), x.dims().leading(),
                        x.dims().back(), static_cast<T>(eps)},
         context.threads());
  return {};
}

template <typename Pick>
Result<Tensor> run_norm(Context& context, const Pick& pick, const Tensor& x, const Param& gamma, const Param* beta,
                        float eps, float shift = 0) {
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(with_type(x.dtype(), [&]<typename T>() {
    return normalise_rows<T>(context, pick(kernels<T>(context)), x, gamma, beta, eps, shift, y);
  }));
  return y;
}

constexpr auto kPickLayerNorm = [](const auto& table) { return table.layer_norm; };

constexpr auto kPickRmsNorm = [](const auto& table) { return table.rms_norm; };

bool supports_layer_norm(const Context& context, const LayerNormArgs& args) {
  return has_kernel(context, args.x.dtype(), kPickLayerNorm);
}

Result<Tensor> run_layer_norm(Context& context, const LayerNormArgs& args) {
  return run_norm(context, kPickLayerNorm, args.x, args.gamma, &args.beta, args.eps);
}

bool supports_rms_norm(const Context& context, const RmsNormArgs& args) {
  return has_kernel(context, args.x.dtype(), kPickRmsNorm);
}

Result<Tensor> run_rms_norm(Context& context, const RmsNormArgs& args) {
  return run_norm(context, kPickRmsNorm, args.x, args.gamma, nullptr, args.eps, args.shift);
}

template <typename T>
Status norm_back(Context& context, const NormGradientArgs& args) {
  const auto slot = args.is_rms ? &GradientKernels<T>::rms_norm : &GradientKernels<T>::layer_norm;
  BALLAST_TRY(const auto* table, gradients_with<T>(context, slot, "gradients of norms"));
  BALLAST_TRY(const auto gammas, ParamValues<T>::take(context, args.gamma));
  Tensor shifted;
  BALLAST_TRY(const T* scales, shifted_values(context, gammas, args.dy.dims().back(), args.shift, shifted));
  NormGradient<T> problem{};
  problem.x = host_data<const T>(args.x);
  problem.dy = host_data<const T>(args.dy);
  problem.gamma = scales;
  problem.dx = data_or_null<T>(args.dx);
  problem.dgamma = data_or_null<T>(args.dgamma);
  problem.dbeta = data_or_null<T>(args.dbeta);
  problem.rows = args.dy.dims().leading();
  problem.features = args.dy.dims().back();
  problem.eps = static_cast<T>(args.eps);
  problem.add = args.add;
  (table->*slot)(problem, context.threads());
  return {};
}

Status run_norm_gradient(Context& context, const NormGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() { return norm_back<T>(context, args); });
}

}  // namespace

void add_normalization(Registry& registry) {
  registry.add_builtin(supports_layer_norm, run_layer_norm);
  registry.add_builtin(supports_rms_norm, run_rms_norm);
  registry.add_routine(run_norm_gradient);
}

}  // namespace ballast::host
