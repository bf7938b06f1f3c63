#include <algorithm>
#include <cmath>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/update_routines.h"

namespace ballast::reference {

namespace {

Status run_fill(Context&, const FillArgs& args) {
  with_type(args.y.dtype(),
            [&]<typename T>() { std::fill_n(host_data<T>(args.y), args.y.count(), static_cast<T>(args.value)); });
  return {};
}

Status run_accumulate(Context& context, const AccumulateArgs& args) {
  with_type(args.sum.dtype(), [&]<typename T>() {
    T* sum = host_data<T>(args.sum);
    each_element(context, args.sum.count(), [&](size_t i) { sum[i] += host_data<const T>(args.x)[i]; });
  });
  return {};
}

Status run_scale(Context& context, const ScaleArgs& args) {
  with_type(args.x.dtype(), [&]<typename T>() {
    T* x = host_data<T>(args.x);
    each_element(context, args.x.count(), [&](size_t i) { x[i] = static_cast<T>(args.factor) * x[i]; });
  });
  return {};
}

Status run_square_sum(Context&, const SquareSumArgs& args) {
  with_type(args.x.dtype(), [&]<typename T>() {
    double sum = 0;
    for (uint64_t i = 0; i < args.x.count(); ++i) {
      const auto x = static_cast<double>(host_data<const T>(args.x)[i]);
      sum += x * x;
    }
    args.sum = sum;
  });
  return {};
}

float rounded(double value) { return static_cast<float>(value); }

Status run_sgd(Context& context, const SgdArgs& args) {
  const float lr = rounded(args.lr), momentum = rounded(args.momentum), decay = rounded(args.weight_decay);
  each_element(context, args.p.size(), [&](size_t i) {
    float g = host_data<const float>(args.gradient)[i];
    if (args.weight_decay != 0) g += decay * args.p[i];
    if (!args.velocity.empty()) {
      const float v = args.velocity[i] = momentum * args.velocity[i] + g;
      g = args.nesterov ? g + momentum * v : v;
    }
    args.p[i] -= lr * g;
  });
  return {};
}

Status run_adam(Context& context, const AdamArgs& args) {
  const float lr = rounded(args.lr), decay = rounded(args.weight_decay), eps = rounded(args.eps);
  const float beta1 = rounded(args.beta1), beta2 = rounded(args.beta2);
  const float correction1 = rounded(args.correction1), correction2 = rounded(args.correction2);
  each_element(context, args.p.size(), [&](size_t i) {
    float g = host_data<const float>(args.gradient)[i];
    if (args.weight_decay != 0 && !args.decoupled) g += decay * args.p[i];
    const float m = args.m[i] = beta1 * args.m[i] + (1 - beta1) * g;
    const float v = args.v[i] = beta2 * args.v[i] + (1 - beta2) * (g * g);
    if (args.weight_decay != 0 && args.decoupled) args.p[i] -= lr * decay * args.p[i];
    args.p[i] -= lr * (m / correction1 / (std::sqrt(v / correction2) + eps));
  });
  return {};
}

Status run_rmsprop(Context& context, const RmsPropArgs& args) {
  const float lr = rounded(args.lr), decay = rounded(args.weight_decay), eps = rounded(args.eps);
  const float alpha = rounded(args.alpha), momentum = rounded(args.momentum);
  each_element(context, args.p.size(), [&](size_t i) {
    float g = host_data<const float>(args.gradient)[i];
    if (args.weight_decay != 0) g += decay * args.p[i];
    const float s = args.square_mean[i] = alpha * args.square_mean[i] + (1 - alpha) * (g * g);
    float step = lr * (g / (std::sqrt(s) + eps));
    if (!args.buffer.empty()) step = args.buffer[i] = momentum * args.buffer[i] + step;
    args.p[i] -= step;
  });
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

}  // namespace ballast::reference
