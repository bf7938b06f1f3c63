#include "ballast/ops/loss.h"

#include <algorithm>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/backends/host/sums.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

template <typename T>
CrossEntropyProblem<T> make_problem(const Tensor& logits, std::span<const uint32_t> labels, const Tensor* targets) {
  CrossEntropyProblem<T> problem{};
  problem.logits = host_data<const T>(logits);
  problem.labels = targets == nullptr ? labels.data() : nullptr;
  problem.targets = targets != nullptr ? host_data<const T>(*targets) : nullptr;
  problem.rows = logits.dims()[0];
  problem.classes = logits.dims()[1];
  problem.ignored = kIgnoredLabel;
  return problem;
}

bool supports_cross_entropy(const Context& context, const CrossEntropyArgs& args) {
  return has_kernel(context, args.logits.dtype(), [](const auto& table) { return table.gradients.cross_entropy; });
}

Result<Tensor> run_cross_entropy(Context& context, const CrossEntropyArgs& args) {
  BALLAST_TRY(Tensor losses, context.workspace().make({args.logits.dims()[0]}, args.logits.dtype()));
  with_type(losses.dtype(), [&]<typename T>() {
    auto problem = make_problem<T>(args.logits, args.labels, args.targets);
    problem.losses = host_data<T>(losses);
    kernels<T>(context).gradients.cross_entropy(problem, context.threads());
  });
  BALLAST_TRY(const double sum, sum_in_pieces(context, losses));
  const uint64_t rows = counted_rows(args.logits, args.labels, args.targets);
  return single(context, sum / static_cast<double>(rows), losses.dtype());
}

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
    const T* scores = host_data<const T>(args.logits);
    auto* to = host_data<double>(losses);
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

Status run_cross_entropy_gradient(Context& context, const CrossEntropyGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table,
                gradients_with<T>(context, &GradientKernels<T>::cross_entropy_gradient, "gradients of cross-entropy"));
    const auto rows = static_cast<double>(args.counted);
    table->cross_entropy_gradient(make_problem<T>(args.logits, args.labels, args.targets),
                                  static_cast<T>(static_cast<double>(*host_data<const T>(args.dy)) / rows),
                                  host_data<T>(args.dlogits), context.threads());
    return {};
  });
}

template <typename T>
void hinge_row_back(const T* scores, uint64_t classes, uint32_t label, double margin, T share, T* dscores) {
  uint64_t violations = 0;
  for (uint64_t c = 0; c < classes; ++c) {
    const double slack = margin - static_cast<double>(scores[label]) + static_cast<double>(scores[c]);
    if (c == label || !(slack > 0)) continue;
    dscores[c] = share;
    ++violations;
  }
  dscores[label] = -share * static_cast<T>(violations);
}

Status run_hinge_gradient(Context& context, const HingeLossGradientArgs& args) {
  const uint64_t classes = args.logits.dims()[1];
  with_type(args.dy.dtype(), [&]<typename T>() {
    const auto share =
        static_cast<T>(static_cast<double>(*host_data<const T>(args.dy)) / static_cast<double>(args.counted));
    const T* from = host_data<const T>(args.logits);
    T* to = host_data<T>(args.dlogits);
    context.threads().for_ranges(args.logits.dims()[0], row_grain(classes), [&](size_t begin, size_t end) {
      std::fill(to + begin * classes, to + end * classes, T{0});
      for (size_t row = begin; row < end; ++row) {
        if (args.labels[row] == kIgnoredLabel) continue;
        hinge_row_back(from + row * classes, classes, args.labels[row], args.margin, share, to + row * classes);
      }
    });
  });
  return {};
}

}  // namespace

void add_loss(Registry& registry) {
  registry.add_builtin(supports_cross_entropy, run_cross_entropy);
  registry.add_builtin<HingeLossArgs>(nullptr, run_hinge);
  registry.add_routine(run_cross_entropy_gradient);
  registry.add_routine(run_hinge_gradient);
}

}  // namespace ballast::host
