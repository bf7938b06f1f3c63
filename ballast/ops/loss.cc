#include "ballast/ops/loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/metric.h"
#include "ballast/ops/reduction.h"

namespace ballast::ops {

namespace {

template <typename T>
CrossEntropyProblem<T> make_problem(const Tensor& logits, std::span<const uint32_t> labels, const Tensor* targets) {
  CrossEntropyProblem<T> problem{};
  problem.logits = logits.data<T>();
  problem.labels = targets == nullptr ? labels.data() : nullptr;
  problem.targets = targets != nullptr ? targets->data<T>() : nullptr;
  problem.rows = logits.dims()[0];
  problem.classes = logits.dims()[1];
  problem.ignored = kIgnoredLabel;
  return problem;
}

uint64_t counted_rows(const Tensor& logits, std::span<const uint32_t> labels, const Tensor* targets) {
  return targets != nullptr ? logits.dims()[0] : count_labels(labels);
}

bool supports_cross_entropy(const Context& context, const CrossEntropyArgs& args) {
  return has_kernel(context, args.logits.dtype(), [](const auto& table) { return table.gradients.cross_entropy; });
}

Result<Tensor> run_cross_entropy(Context& context, const CrossEntropyArgs& args) {
  BALLAST_TRY(Tensor losses, context.workspace().make({args.logits.dims()[0]}, args.logits.dtype()));
  with_type(losses.dtype(), [&]<typename T>() {
    auto problem = make_problem<T>(args.logits, args.labels, args.targets);
    problem.losses = losses.writable<T>();
    kernels<T>(context).gradients.cross_entropy(problem, context.threads());
  });
  BALLAST_TRY(const double sum, sum_in_pieces(context, losses));
  const uint64_t rows = counted_rows(args.logits, args.labels, args.targets);
  return single(context, sum / static_cast<double>(rows), losses.dtype());
}

struct CrossEntropyStep {
  Tensor logits;
  std::span<const uint32_t> labels;
  Tensor targets;  // empty: labels
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dlogits, context.workspace().make(logits.dims(), logits.dtype()));
    const Tensor* soft = targets.empty() ? nullptr : &targets;
    BALLAST_CHECK(with_type(dy.dtype(), [&]<typename T>() -> Status {
      BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::cross_entropy_gradient,
                                                       "gradients of cross-entropy"));
      const auto rows = static_cast<double>(counted_rows(logits, labels, soft));
      table->cross_entropy_gradient(make_problem<T>(logits, labels, soft),
                                    static_cast<T>(static_cast<double>(*dy.data<T>()) / rows), dlogits.writable<T>(),
                                    context.threads());
      return {};
    }));
    return tape.add(context, input, dlogits);
  }
};

// The scores of one row against that of its label: the sum of what is above 0 of margin - true + other.
template <typename T>
double row_hinge(const T* scores, uint64_t classes, uint32_t label, double margin) {
  double sum = 0;
  for (uint64_t c = 0; c < classes; ++c) {
    if (c == label) continue;
    sum += std::max(0.0, margin - static_cast<double>(scores[label]) + static_cast<double>(scores[c]));
  }
  return sum;
}

Result<Tensor> run_hinge(Context& context, const HingeLossArgs& args) {
  const uint64_t rows = args.logits.dims()[0];
  const uint64_t classes = args.logits.dims()[1];
  BALLAST_TRY(Tensor losses, context.workspace().make({rows}, DType::kF64));
  with_type(args.logits.dtype(), [&]<typename T>() {
    const T* scores = args.logits.data<T>();
    auto* to = losses.writable<double>();
    context.threads().for_ranges(rows, row_grain(classes), [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        const bool counts = args.labels[row] != kIgnoredLabel;
        to[row] = counts ? row_hinge(scores + row * classes, classes, args.labels[row], args.margin) : 0;
      }
    });
  });
  BALLAST_TRY(const double sum, sum_in_pieces(context, losses));
  return single(context, sum / static_cast<double>(count_labels(args.labels)), args.logits.dtype());
}

struct HingeStep {
  Tensor logits;
  std::span<const uint32_t> labels;
  double margin;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dlogits, context.workspace().zeros(logits.dims(), logits.dtype()));
    const uint64_t classes = logits.dims()[1];
    with_type(dy.dtype(), [&]<typename T>() {
      const auto share = static_cast<T>(static_cast<double>(*dy.data<T>()) / static_cast<double>(count_labels(labels)));
      context.threads().for_ranges(logits.dims()[0], row_grain(classes), [&](size_t begin, size_t end) {
        for (size_t row = begin; row < end; ++row) {
          if (labels[row] == kIgnoredLabel) continue;
          add_row(logits.data<T>() + row * classes, classes, labels[row], share, dlogits.writable<T>() + row * classes);
        }
      });
    });
    return tape.add(context, input, dlogits);
  }

  template <typename T>
  void add_row(const T* scores, uint64_t classes, uint32_t label, T share, T* dscores) const {
    uint64_t violations = 0;
    for (uint64_t c = 0; c < classes; ++c) {
      const double slack = margin - static_cast<double>(scores[label]) + static_cast<double>(scores[c]);
      if (c == label || !(slack > 0)) continue;
      dscores[c] = share;
      ++violations;
    }
    dscores[label] = -share * static_cast<T>(violations);
  }
};

}  // namespace

uint64_t count_labels(std::span<const uint32_t> labels) {
  return labels.size() - static_cast<uint64_t>(std::ranges::count(labels, kIgnoredLabel));
}

Status check_labels(const Tensor& logits, std::span<const uint32_t> labels) {
  BALLAST_CHECK(check_activation("logits", logits, 2));
  const uint64_t classes = logits.dims()[1];
  if (labels.size() != logits.dims()[0]) {
    return does_not_fit(named("logits", logits), fmt::format("{} labels", labels.size()),
                        "there must be one for each row");
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < classes || labels[i] == kIgnoredLabel) continue;
    return make_error(ErrorCode::kInvalidArgument, fmt::format("label {} at row {} is outside the {} classes of {}",
                                                               labels[i], i, classes, named("logits", logits)));
  }
  if (count_labels(labels) != 0 && classes != 0) return {};
  return refused(named("logits", logits), "there is no row with a label to take the mean of");
}

Status CrossEntropyArgs::check() const {
  if (targets == nullptr) return check_labels(logits, labels);
  BALLAST_CHECK(check_activation("logits", logits, 2));
  BALLAST_CHECK(check_same("logits", logits, "targets", *targets));
  return logits.count() != 0 ? Status() : refused(named("logits", logits), "there are no rows to take the mean of");
}
std::string CrossEntropyArgs::text() const {
  return fmt::format("{} against {}", typed(logits), targets != nullptr ? "targets" : "labels");
}

Status HingeLossArgs::check() const { return check_labels(logits, labels); }
std::string HingeLossArgs::text() const { return fmt::format("{} margin {}", typed(logits), margin); }

void CrossEntropyArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(logits)) return;
  tape.record(
      y, CrossEntropyStep{logits, tape.keep(labels), targets != nullptr ? *targets : Tensor(), tape.input(logits)});
}

void HingeLossArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(logits)) tape.record(y, HingeStep{logits, tape.keep(labels), margin, tape.input(logits)});
}

Result<Tensor> cross_entropy(Context& context, const Tensor& logits, std::span<const uint32_t> labels) {
  return context.registry().call(context, CrossEntropyArgs{logits, labels, nullptr});
}
Result<Tensor> cross_entropy(Context& context, const Tensor& logits, const Tensor& targets) {
  return context.registry().call(context, CrossEntropyArgs{logits, {}, &targets});
}
Result<Tensor> hinge_loss(Context& context, const Tensor& logits, std::span<const uint32_t> labels, double margin) {
  return context.registry().call(context, HingeLossArgs{logits, labels, margin});
}

void add_loss(Registry& registry) {
  add_builtin(registry, supports_cross_entropy, run_cross_entropy);
  add_builtin<HingeLossArgs>(registry, nullptr, run_hinge);
  add_element_loss(registry);
  add_square_distances(registry);
  add_margin_logits(registry);
}

}  // namespace ballast::ops
