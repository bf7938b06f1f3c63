#include "ballast/ops/conv.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/rounding.h"

namespace ballast::ops {

namespace {

template <typename T>
Status run_gradients(Context& context, const Conv2dProblem<T>& shapes, const Tensor& dy,
                     const Conv2dGradientWanted& wanted) {
  BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::conv2d, "gradients of convolutions"));
  Conv2dProblem<T> problem = shapes;
  Tensor weight_memory, x_memory, dy_memory;
  ParamValues<T> weight;
  if (wanted.weight != nullptr) {
    BALLAST_TRY(weight, ParamValues<T>::gather(context, *wanted.weight));
  }
  const uint64_t weights = problem.c_out * (problem.c_in / problem.groups) * problem.kernel_h * problem.kernel_w;
  BALLAST_TRY(const T* w, product_values(context, weight.data(), weights, weight_memory));
  problem.w = WeightView{reinterpret_cast<const std::byte*>(w), kDTypeOf<T>};
  if (wanted.x != nullptr) {
    BALLAST_TRY(problem.x, product_values(context, wanted.x->data<T>(), wanted.x->count(), x_memory));
  }
  Conv2dGradient<T> gradient{};
  gradient.forward = &problem;
  BALLAST_TRY(gradient.dy, product_values(context, dy.data<T>(), dy.count(), dy_memory));
  gradient.dx = data_or_null<T>(wanted.dx);
  gradient.dw = wanted.dw != nullptr ? wanted.dw->gradient->writable<T>() : nullptr;
  gradient.add = wanted.dw != nullptr && wanted.dw->add;
  const auto scratch_size = kernels<T>(context).gradients.conv2d_scratch;
  const uint64_t elements = scratch_size != nullptr ? scratch_size(gradient, context.threads().size()) : 0;
  BALLAST_TRY(Tensor scratch, context.workspace().make({elements}, kDTypeOf<T>));
  table->conv2d(gradient, scratch.writable<T>(), context.threads());
  return {};
}

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
    Conv2dGradientWanted wanted;
    GradientPlace place;
    Tensor dx;
    if (to_weight) {
      BALLAST_TRY(place, tape.place(weight, dz.dtype()));
      wanted.x = &x;
      wanted.dw = &place;
    }
    if (input.is_followed()) {
      BALLAST_TRY(dx, context.workspace().make(input.dims(), dz.dtype()));
      wanted.weight = &weight;
      wanted.dx = &dx;
    }
    BALLAST_CHECK(conv2d_gradients(context, params, weight.shape(), input.dims(), dz, wanted));
    return input.is_followed() ? tape.add(context, input, dx) : Status();
  }
};

}  // namespace

Status conv2d_gradients(Context& context, const Conv2dParams& params, const Shape& weight, const Dims& x,
                        const Tensor& dy, const Conv2dGradientWanted& wanted) {
  return with_type(dy.dtype(), [&]<typename T>() {
    return run_gradients<T>(context, conv2d_problem<T>(x, weight, params, dy.dims()), dy, wanted);
  });
}

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
