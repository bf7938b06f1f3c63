#include <fmt/format.h>

#include <array>
#include <cmath>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/loss.h"

namespace ballast::ops {

namespace {

constexpr std::array<std::string_view, 5> kNames = {"squared", "absolute", "smooth l1", "binary cross-entropy",
                                                    "binary cross-entropy with logits"};

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

// No backend has a kernel for these: predictions are few beside what they were computed from.
Result<Tensor> run_element_loss(Context& context, const ElementLossArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.predictions.dims(), args.predictions.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* z = args.predictions.data<T>();
    const T* t = args.targets.data<T>();
    const auto parameter = static_cast<T>(args.parameter);
    const ElementLoss loss = args.loss;
    T* to = y.writable<T>();
    context.threads().for_ranges(y.count(), kElementGrain, [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) to[i] = value_of(loss, z[i], t[i], parameter);
    });
  });
  return y;
}

struct ElementLossStep {
  ElementLoss loss;
  double parameter;
  Tensor predictions, targets;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
    with_type(dy.dtype(), [&]<typename T>() {
      const T* z = predictions.data<T>();
      const T* t = targets.data<T>();
      const T* from = dy.data<T>();
      T* to = dx.writable<T>();
      context.threads().for_ranges(dy.count(), kElementGrain, [=, this](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
          to[i] = from[i] * slope_of(loss, z[i], t[i], static_cast<T>(parameter));
        }
      });
    });
    return tape.add(context, input, dx);
  }
};

}  // namespace

Status ElementLossArgs::check() const {
  BALLAST_CHECK(check_same("predictions", predictions, "targets", targets));
  if (loss != ElementLoss::kSmoothL1 || parameter > 0) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("beta is {} and must be above 0", parameter));
}
std::string ElementLossArgs::text() const {
  return fmt::format("{} {}", kNames[static_cast<size_t>(loss)], typed(predictions));
}

// Targets get no gradient.
void ElementLossArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(predictions)) return;
  tape.record(y, ElementLossStep{loss, parameter, predictions, targets, tape.input(predictions)});
}

Result<Tensor> element_loss(Context& context, ElementLoss loss, const Tensor& predictions, const Tensor& targets,
                            double parameter) {
  return context.registry().call(context, ElementLossArgs{loss, predictions, targets, parameter});
}

void add_element_loss(Registry& registry) { add_builtin<ElementLossArgs>(registry, nullptr, run_element_loss); }

}  // namespace ballast::ops
