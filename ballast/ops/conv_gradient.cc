#include "ballast/ops/conv.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

struct Conv2dStep {
  Param weight, bias;
  Conv2dParams params;
  bool to_weight, to_bias;
  Tensor x;  // where the gradient of the weight is wanted
  Tensor y;  // of a ReLU
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dz, gradient_before_epilogue(context, tape, dy, y, to_bias ? &bias : nullptr));
    if (!to_weight && !input.is_followed()) return {};
    Conv2dGradientArgs args{params, weight.shape(), input.dims(), dz};
    BALLAST_TRY(Tensor dx, make_wanted(context, input.is_followed(), input.dims(), dz.dtype()));
    if (input.is_followed()) {
      args.weight = &weight;
      args.dx = &dx;
    }
    if (to_weight) {
      BALLAST_TRY(const GradientPlace place, tape.place(weight, dz.dtype()));
      args.x = &x;
      args.dw = place.gradient;
      args.add = place.add;
    }
    BALLAST_CHECK(context.registry().run(context, args));
    return input.is_followed() ? tape.add(context, input, dx) : Status();
  }
};

}  // namespace

void Conv2dArgs::record(Tape& tape, const Tensor& y) const {
  if (is_recorded_in_steps(params)) return tape.record_missing(y, kFunctional);  // not called through ops::conv2d
  Conv2dStep step{};
  step.weight = weight;
  step.params = params;
  step.to_weight = tape.follows(weight);
  step.to_bias = tape.follows(bias);
  step.input = tape.input(x);
  if (!step.to_weight && !step.to_bias && !step.input.is_followed()) return;
  if (step.to_bias) step.bias = *bias;
  if (step.to_weight) step.x = x;
  if (params.activation == Activation::kRelu) step.y = y;
  tape.record(y, std::move(step));
}

}  // namespace ballast::ops
