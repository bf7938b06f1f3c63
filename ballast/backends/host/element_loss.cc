#include <cmath>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/loss.h"

namespace ballast::host {

namespace {

// Probabilities are kept from 0 and 1 by this much.
constexpr double kEdge = 1e-6;

template <typename T>
T inside(T p) {
  const auto low = static_cast<T>(kEdge);
  return p < low ? low : p > T{1} - low ? T{1} - low : p;
}

template <typename T>
T value_of(ElementLoss loss, T z, T t, T parameter) {
  const T d = z - t;
  switch (loss) {
    case ElementLoss::kSquared: return d * d;
    case ElementLoss::kAbsolute: return std::abs(d);
    case ElementLoss::kSmoothL1:
      return std::abs(d) < parameter ? T{0.5} * d * d / parameter : std::abs(d) - T{0.5} * parameter;
    case ElementLoss::kBinaryCrossEntropy: return -(t * std::log(inside(z)) + (T{1} - t) * std::log1p(-inside(z)));
    case ElementLoss::kBinaryCrossEntropyWithLogits:
      return (z < T{0} ? T{0} : z) - z * t + std::log1p(std::exp(-std::abs(z)));
  }
  return d;
}

template <typename T>
T sign_of(T d) {
  return d > T{0} ? T{1} : d < T{0} ? T{-1} : T{0};
}

template <typename T>
T slope_of(ElementLoss loss, T z, T t, T parameter) {
  const T d = z - t;
  switch (loss) {
    case ElementLoss::kSquared: return T{2} * d;
    case ElementLoss::kAbsolute: return sign_of(d);
    case ElementLoss::kSmoothL1: return std::abs(d) < parameter ? d / parameter : sign_of(d);
    case ElementLoss::kBinaryCrossEntropy: return inside(z) == z ? d / (z * (T{1} - z)) : T{0};
    case ElementLoss::kBinaryCrossEntropyWithLogits: return T{1} / (T{1} + std::exp(-z)) - t;
  }
  return d;
}

// No table has a kernel for these: predictions are few beside what they were computed from.
Result<Tensor> run_element_loss(Context& context, const ElementLossArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.predictions.dims(), args.predictions.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* z = host_data<const T>(args.predictions);
    const T* t = host_data<const T>(args.targets);
    const auto parameter = static_cast<T>(args.parameter);
    const ElementLoss loss = args.loss;
    T* to = host_data<T>(y);
    context.threads().for_ranges(y.count(), kElementGrain, [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) to[i] = value_of(loss, z[i], t[i], parameter);
    });
  });
  return y;
}

Status run_element_loss_gradient(Context& context, const ElementLossGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* z = host_data<const T>(args.predictions);
    const T* t = host_data<const T>(args.targets);
    const T* from = host_data<const T>(args.dy);
    const auto parameter = static_cast<T>(args.parameter);
    const ElementLoss loss = args.loss;
    T* to = host_data<T>(args.dx);
    context.threads().for_ranges(args.dy.count(), kElementGrain, [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) to[i] = from[i] * slope_of(loss, z[i], t[i], parameter);
    });
  });
  return {};
}

}  // namespace

void add_element_loss(Registry& registry) {
  registry.add_builtin<ElementLossArgs>(nullptr, run_element_loss);
  registry.add_routine(run_element_loss_gradient);
}

}  // namespace ballast::host
