#include <algorithm>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/update_routines.h"

namespace ballast::host {

namespace {

Status run_fill(Context&, const FillArgs& args) {
  with_type(args.y.dtype(),
            [&]<typename T>() { std::fill_n(host_data<T>(args.y), args.y.count(), static_cast<T>(args.value)); });
  return {};
}

Status run_accumulate(Context& context, const AccumulateArgs& args) {
  with_type(args.sum.dtype(), [&]<typename T>() {
    T* const sum = host_data<T>(args.sum);
    kernels<T>(context).binary(BinaryOp::kAdd, sum, host_data<const T>(args.x), sum, args.sum.count(),
                               context.threads());
  });
  return {};
}

Status run_scale(Context& context, const ScaleArgs& args) {
  with_type(args.x.dtype(), [&]<typename T>() {
    T* const x = host_data<T>(args.x);
    kernels<T>(context).unary(UnaryOp::kScale, static_cast<T>(args.factor), x, x, args.x.count(), context.threads());
  });
  return {};
}

Status run_square_sum(Context& context, const SquareSumArgs& args) {
  return with_type(args.x.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::square_sum, "sums of squares"));
    args.sum = table->square_sum(host_data<const T>(args.x), args.x.count(), context.threads());
    return {};
  });
}

float* slot_or_null(std::span<float> slot) { return slot.empty() ? nullptr : slot.data(); }

Status run_sgd(Context& context, const SgdArgs& args) {
  BALLAST_TRY(const auto* table, gradients_with<float>(context, &GradientKernels<float>::sgd, "SGD"));
  table->sgd({.p = args.p.data(),
              .g = host_data<const float>(args.gradient),
              .velocity = slot_or_null(args.velocity),
              .count = args.p.size(),
              .lr = args.lr,
              .momentum = args.momentum,
              .weight_decay = args.weight_decay,
              .nesterov = args.nesterov},
             context.threads());
  return {};
}

Status run_adam(Context& context, const AdamArgs& args) {
  BALLAST_TRY(const auto* table, gradients_with<float>(context, &GradientKernels<float>::adam, "Adam"));
  table->adam({.p = args.p.data(),
               .g = host_data<const float>(args.gradient),
               .m = args.m.data(),
               .v = args.v.data(),
               .count = args.p.size(),
               .lr = args.lr,
               .beta1 = args.beta1,
               .beta2 = args.beta2,
               .eps = args.eps,
               .weight_decay = args.weight_decay,
               .correction1 = args.correction1,
               .correction2 = args.correction2,
               .decoupled = args.decoupled},
              context.threads());
  return {};
}

Status run_rmsprop(Context& context, const RmsPropArgs& args) {
  BALLAST_TRY(const auto* table, gradients_with<float>(context, &GradientKernels<float>::rmsprop, "RMSProp"));
  table->rmsprop({.p = args.p.data(),
                  .g = host_data<const float>(args.gradient),
                  .square_mean = args.square_mean.data(),
                  .buffer = slot_or_null(args.buffer),
                  .count = args.p.size(),
                  .lr = args.lr,
                  .alpha = args.alpha,
                  .eps = args.eps,
                  .weight_decay = args.weight_decay,
                  .momentum = args.momentum},
                 context.threads());
  return {};
}

}  // namespace

void add_updates(Registry& registry) {
  registry.add_routine(run_fill);
  registry.add_routine(run_accumulate);
  registry.add_routine(run_scale);
  registry.add_routine(run_square_sum);
  registry.add_routine(run_sgd);
  registry.add_routine(run_adam);
  registry.add_routine(run_rmsprop);
}

}  // namespace ballast::host
