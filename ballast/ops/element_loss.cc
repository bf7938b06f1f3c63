#include <fmt/format.h>

#include <array>

#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/loss.h"

namespace ballast::ops {

namespace {

constexpr std::array<std::string_view, 5> kNames = {"squared", "absolute", "smooth l1", "binary cross-entropy",
                                                    "binary cross-entropy with logits"};

struct ElementLossStep {
  ElementLoss loss;
  double parameter;
  Tensor predictions, targets;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
    BALLAST_CHECK(
        context.registry().run(context, ElementLossGradientArgs{loss, parameter, predictions, targets, dy, dx}));
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

}  // namespace ballast::ops
