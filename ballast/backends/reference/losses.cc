#include <algorithm>
#include <cmath>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/loss.h"

namespace ballast::reference {

namespace {

// ---------------------------------------------------------------- cross-entropy

// Rows of logits, and what they should say.
template <typename T>
struct Answers {
  const T* logits;
  std::span<const uint32_t> labels;
  const T* targets;  // null: labels
  uint64_t classes;

  template <typename Args>
  explicit Answers(const Args& args)
      : logits(host_data<const T>(args.logits)),
        labels(args.labels),
        targets(args.targets != nullptr ? host_data<const T>(*args.targets) : nullptr),
        classes(args.logits.dims()[1]) {}

  bool is_ignored(uint64_t row) const { return targets == nullptr && labels[row] == kIgnoredLabel; }
  T target(uint64_t row, uint64_t c) const {
    if (targets != nullptr) return targets[row * classes + c];
    return labels[row] == c ? T{1} : T{0};
  }
  T largest(uint64_t row) const { return *std::max_element(logits + row * classes, logits + (row + 1) * classes); }
  // Of exp(z - largest).
  T sum(uint64_t row) const {
    const T most = largest(row);
    T total = 0;
    for (uint64_t c = 0; c < classes; ++c) total += std::exp(logits[row * classes + c] - most);
    return total;
  }
};

template <typename T>
T entropy_of(const Answers<T>& answers, uint64_t row) {
  if (answers.is_ignored(row)) return 0;
  const T largest = answers.largest(row), level = std::log(answers.sum(row));
  const T* z = answers.logits + row * answers.classes;
  if (answers.targets == nullptr) return level - (z[answers.labels[row]] - largest);
  T loss = 0;
  for (uint64_t c = 0; c < answers.classes; ++c) loss += answers.target(row, c) * (level - (z[c] - largest));
  return loss;
}

Result<Tensor> one_value(Context& context, double value, DType dtype) {
  BALLAST_TRY(Tensor y, context.workspace().make({1}, dtype));
  with_type(dtype, [&]<typename T>() { *host_data<T>(y) = static_cast<T>(value); });
  return y;
}

Result<Tensor> run_cross_entropy(Context& context, const CrossEntropyArgs& args) {
  const uint64_t rows = args.logits.dims()[0];
  double sum = 0;
  with_type(args.logits.dtype(), [&]<typename T>() {
    const Answers<T> answers(args);
    for (uint64_t row = 0; row < rows; ++row) sum += static_cast<double>(entropy_of(answers, row));
  });
  return one_value(context, sum / static_cast<double>(counted_rows(args.logits, args.labels, args.targets)),
                   args.logits.dtype());
}

// dz = scale * (softmax(z) * the sum of targets - targets).
template <typename T>
void entropy_row_back(const Answers<T>& answers, uint64_t row, T scale, T* dz) {
  std::fill_n(dz, answers.classes, T{0});
  if (answers.is_ignored(row)) return;
  const T largest = answers.largest(row), sum = answers.sum(row);
  T mass = 0;
  for (uint64_t c = 0; c < answers.classes; ++c) mass += answers.target(row, c);
  for (uint64_t c = 0; c < answers.classes; ++c) {
    const T share = std::exp(answers.logits[row * answers.classes + c] - largest) / sum;
    dz[c] = scale * (share * mass - answers.target(row, c));
  }
}

Status run_cross_entropy_gradient(Context& context, const CrossEntropyGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const Answers<T> answers(args);
    const double scale = static_cast<double>(*host_data<const T>(args.dy)) / static_cast<double>(args.counted);
    each(context, args.logits.dims()[0], [&](size_t row) {
      entropy_row_back(answers, row, static_cast<T>(scale), host_data<T>(args.dlogits) + row * answers.classes);
    });
  });
  return {};
}

// ---------------------------------------------------------------- hinge

// By how much class c comes too close to the row's own.
template <typename T>
double slack_of(const T* scores, uint32_t label, uint64_t c, double margin) {
  return margin - static_cast<double>(scores[label]) + static_cast<double>(scores[c]);
}

Result<Tensor> run_hinge(Context& context, const HingeLossArgs& args) {
  const uint64_t classes = args.logits.dims()[1];
  double sum = 0;
  with_type(args.logits.dtype(), [&]<typename T>() {
    for (size_t row = 0; row < args.labels.size(); ++row) {
      const uint32_t label = args.labels[row];
      for (uint64_t c = 0; label != kIgnoredLabel && c < classes; ++c) {
        const T* scores = host_data<const T>(args.logits) + row * classes;
        if (c != label) sum += std::max(0.0, slack_of(scores, label, c, args.margin));
      }
    }
  });
  return one_value(context, sum / static_cast<double>(count_labels(args.labels)), args.logits.dtype());
}

Status run_hinge_gradient(Context&, const HingeLossGradientArgs& args) {
  const uint64_t classes = args.logits.dims()[1];
  with_type(args.dy.dtype(), [&]<typename T>() {
    const auto share =
        static_cast<T>(static_cast<double>(*host_data<const T>(args.dy)) / static_cast<double>(args.counted));
    T* to = host_data<T>(args.dlogits);
    std::fill_n(to, args.dlogits.count(), T{0});
    for (size_t row = 0; row < args.labels.size(); ++row) {
      const uint32_t label = args.labels[row];
      const T* scores = host_data<const T>(args.logits) + row * classes;
      T* dscores = to + row * classes;
      uint64_t close = 0;
      for (uint64_t c = 0; label != kIgnoredLabel && c < classes; ++c) {
        if (c == label || !(slack_of(scores, label, c, args.margin) > 0)) continue;
        dscores[c] = share;
        ++close;
      }
      if (close != 0) dscores[label] = -share * static_cast<T>(close);
    }
  });
  return {};
}

// ---------------------------------------------------------------- one per element

// Probabilities are kept from 0 and 1 by this much.
constexpr double kProbabilityEdge = 1e-6;

template <typename T>
T kept_probability(T p) {
  const auto low = static_cast<T>(kProbabilityEdge);
  return p < low ? low : p > T{1} - low ? T{1} - low : p;
}

template <typename T>
T loss_of(ElementLoss loss, T z, T t, T parameter) {
  const T d = z - t, p = kept_probability(z);
  switch (loss) {
    case ElementLoss::kSquared: return d * d;
    case ElementLoss::kAbsolute: return std::abs(d);
    case ElementLoss::kSmoothL1:
      return std::abs(d) < parameter ? T{0.5} * d * d / parameter : std::abs(d) - T{0.5} * parameter;
    case ElementLoss::kBinaryCrossEntropy: return -(t * std::log(p) + (1 - t) * std::log1p(-p));
    case ElementLoss::kBinaryCrossEntropyWithLogits:
      return (z < 0 ? T{0} : z) - z * t + std::log1p(std::exp(-std::abs(z)));
  }
  return d;
}

template <typename T>
T loss_slope(ElementLoss loss, T z, T t, T parameter) {
  const T d = z - t;
  const T sign = d > 0 ? T{1} : d < 0 ? T{-1} : T{0};
  switch (loss) {
    case ElementLoss::kSquared: return 2 * d;
    case ElementLoss::kAbsolute: return sign;
    case ElementLoss::kSmoothL1: return std::abs(d) < parameter ? d / parameter : sign;
    case ElementLoss::kBinaryCrossEntropy: return kept_probability(z) == z ? d / (z * (1 - z)) : T{0};
    case ElementLoss::kBinaryCrossEntropyWithLogits: return 1 / (1 + std::exp(-z)) - t;
  }
  return d;
}

Result<Tensor> run_element_loss(Context& context, const ElementLossArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.predictions));
  with_type(y.dtype(), [&]<typename T>() {
    const T* z = host_data<const T>(args.predictions);
    const T* t = host_data<const T>(args.targets);
    T* out = host_data<T>(y);
    each_element(context, y.count(),
                 [&](size_t i) { out[i] = loss_of(args.loss, z[i], t[i], static_cast<T>(args.parameter)); });
  });
  return y;
}

Status run_element_loss_gradient(Context& context, const ElementLossGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* z = host_data<const T>(args.predictions);
    const T* t = host_data<const T>(args.targets);
    const T* dy = host_data<const T>(args.dy);
    T* dx = host_data<T>(args.dx);
    each_element(context, args.dy.count(),
                 [&](size_t i) { dx[i] = dy[i] * loss_slope(args.loss, z[i], t[i], static_cast<T>(args.parameter)); });
  });
  return {};
}

}  // namespace

void add_losses(Registry& registry) {
  registry.add_builtin<CrossEntropyArgs>(nullptr, run_cross_entropy);
  registry.add_builtin<HingeLossArgs>(nullptr, run_hinge);
  registry.add_builtin<ElementLossArgs>(nullptr, run_element_loss);
  registry.add_routine(run_cross_entropy_gradient);
  registry.add_routine(run_hinge_gradient);
  registry.add_routine(run_element_loss_gradient);
}

}  // namespace ballast::reference
