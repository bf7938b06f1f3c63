#include "ballast/ops/stochastic.h"

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"

namespace ballast::host {

namespace {

// Which elements stay follows from the key alone: the gradient drops the same ones.
Result<Tensor> drop(Context& context, const Tensor& x, float p, uint64_t key) {
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  BALLAST_CHECK(with_type(x.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::dropout, "dropout"));
    table->dropout(host_data<const T>(x), host_data<T>(y), x.count(), p, key, context.threads());
    return {};
  }));
  return y;
}

bool supports_dropout(const Context& context, const DropoutArgs& args) {
  return !args.drops() ||
         has_kernel(context, args.x.dtype(), [](const auto& table) { return table.gradients.dropout; });
}

Result<Tensor> run_dropout(Context& context, const DropoutArgs& args) {
  return args.drops() ? drop(context, args.x, args.p, *args.key) : args.x;
}

}  // namespace

void add_stochastic(Registry& registry) { registry.add_builtin(supports_dropout, run_dropout); }

}  // namespace ballast::host
