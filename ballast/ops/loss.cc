#include "ballast/ops/loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

struct CrossEntropyStep {
  Tensor logits;
  std::span<const uint32_t> labels;
  Tensor targets;  // empty: labels
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dlogits, context.workspace().make(logits.dims(), logits.dtype()));
    const Tensor* soft = targets.empty() ? nullptr : &targets;
    const uint64_t counted = counted_rows(logits, labels, soft);
    BALLAST_CHECK(
        context.registry().run(context, CrossEntropyGradientArgs{logits, labels, soft, counted, dy, dlogits}));
    return tape.add(context, input, dlogits);
  }
};

struct HingeStep {
  Tensor logits;
  std::span<const uint32_t> labels;
  double margin;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dlogits, context.workspace().make(logits.dims(), logits.dtype()));
    BALLAST_CHECK(context.registry().run(
        context, HingeLossGradientArgs{logits, labels, margin, count_labels(labels), dy, dlogits}));
    return tape.add(context, input, dlogits);
  }
};

}  // namespace

uint64_t counted_rows(const Tensor& logits, std::span<const uint32_t> labels, const Tensor* targets) {
  return targets != nullptr ? logits.dims()[0] : count_labels(labels);
}

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

}  // namespace ballast::ops
