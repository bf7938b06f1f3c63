#include "ballast/ops/normalization.h"

#include <fmt/format.h>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/kernel_access.h"

namespace ballast::ops {

namespace {

template <typename T>
using NormKernel = void (*)(const NormProblem<T>&, ThreadPool&);

template <typename T>
Status normalise_rows(Context& context, NormKernel<T> kernel, const Tensor& x, const Param& gamma, const Param* beta,
                      float eps, float shift, Tensor& y) {
  BALLAST_TRY(const auto gammas, ParamValues<T>::take(context, gamma));
  Tensor shifted;
  BALLAST_TRY(const T* scales, shifted_values(context, gammas, x.dims().back(), shift, shifted));
  BALLAST_TRY(const auto shifts, ParamValues<T>::take(context, beta));
  kernel(NormProblem<T>{x.data<T>(), y.writable<T>(), scales, shifts.data(), x.dims().leading(), x.dims().back(),
                        static_cast<T>(eps)},
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

}  // namespace

Status LayerNormArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  BALLAST_CHECK(check_vector("gamma", gamma, "x", x));
  return check_vector("beta", beta, "x", x);
}
std::string LayerNormArgs::text() const {
  return fmt::format("{} gamma {} beta {}", typed(x), typed(gamma), typed(beta));
}

Status RmsNormArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  return check_vector("gamma", gamma, "x", x);
}
std::string RmsNormArgs::text() const {
  return fmt::format("{} gamma {}{}", typed(x), typed(gamma), shift != 0 ? fmt::format(" + {}", shift) : "");
}

Result<Tensor> layer_norm(Context& context, const Tensor& x, const Param& gamma, const Param& beta, float eps) {
  return context.registry().call(context, LayerNormArgs{x, gamma, beta, eps});
}
Result<Tensor> rms_norm(Context& context, const Tensor& x, const Param& gamma, float eps, float shift) {
  return context.registry().call(context, RmsNormArgs{x, gamma, eps, shift});
}

void add_normalization(Registry& registry) {
  add_builtin(registry, supports_layer_norm, run_layer_norm);
  add_builtin(registry, supports_rms_norm, run_rms_norm);
  add_batch_norm(registry);
  add_group_norm(registry);
}

}  // namespace ballast::ops
