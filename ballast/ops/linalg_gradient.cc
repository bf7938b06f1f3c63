#include <array>

#include "ballast/ops/gradient_access.h"
#include "ballast/ops/linalg.h"

namespace ballast::ops {

namespace {

// Adds a^T * b, of [m, k] and [m, n], to the gradient of a parameter.
Status add_transposed_product(Context& context, const Tensor& a, const Tensor& b, const GradientPlace& place) {
  return context.registry().run(context, TransposedProductArgs{a, b, *place.gradient, place.add});
}

WeightLayout flipped(WeightLayout layout) {
  return layout == WeightLayout::kInOut ? WeightLayout::kOutIn : WeightLayout::kInOut;
}

// relu(x * weight + bias), where ReLU and bias may be absent.
struct LinearStep {
  Param weight, bias;
  WeightLayout layout;
  bool to_weight, to_bias;
  Tensor x;  // where the gradient of the weight is wanted
  Tensor y;  // of a ReLU
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const Tensor dz, gradient_before_epilogue(context, tape, dy, y, to_bias ? &bias : nullptr));
    if (to_weight) BALLAST_CHECK(add_to_weight(context, dz, tape));
    if (!input.is_followed()) return {};
    BALLAST_TRY(const Tensor dx, linear(context, dz, weight, {.layout = flipped(layout)}));
    return tape.add(context, input, dx);
  }

  Status add_to_weight(Context& context, const Tensor& dz, Tape& tape) const {
    BALLAST_TRY(const GradientPlace place, tape.place(weight, dz.dtype()));
    return layout == WeightLayout::kInOut ? add_transposed_product(context, x, dz, place)
                                          : add_transposed_product(context, dz, x, place);
  }
};

void record_linear(Tape& tape, const Tensor& x, const Param& weight, const LinearOptions& options, const Tensor& y) {
  LinearStep step{};
  step.weight = weight;
  step.layout = options.layout;
  step.to_weight = tape.follows(weight);
  step.to_bias = tape.follows(options.bias);
  step.input = tape.input(x);
  if (!step.to_weight && !step.to_bias && !step.input.is_followed()) return;
  if (step.to_bias) step.bias = *options.bias;
  if (step.to_weight) step.x = x;
  if (options.activation == Activation::kRelu) step.y = y;
  tape.record(y, std::move(step));
}

Result<Tensor> transposed_last(Context& context, const Tensor& x) {
  constexpr std::array<size_t, 3> kBatch = {0, 2, 1};
  constexpr std::array<size_t, 2> kMatrix = {1, 0};
  if (x.dims().rank() == 3) return transpose(context, x, kBatch);
  return transpose(context, x, kMatrix);
}

// Of two activations.
struct MatmulStep {
  Tensor a, b;  // each where the gradient of the other is wanted
  Tape::Input a_input, b_input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (a_input.is_followed()) {
      BALLAST_TRY(const Tensor turned, transposed_last(context, b));
      BALLAST_TRY(const Tensor da, matmul(context, dy, turned));
      BALLAST_CHECK(tape.add(context, a_input, da));
    }
    if (!b_input.is_followed()) return {};
    BALLAST_TRY(const Tensor turned, transposed_last(context, a));
    BALLAST_TRY(const Tensor db, matmul(context, turned, dy));
    return tape.add(context, b_input, db);
  }
};

}  // namespace

void MatmulArgs::record(Tape& tape, const Tensor& y) const {
  if (b.param() != nullptr) return record_linear(tape, a, *b.param(), {.layout = layout}, y);
  MatmulStep step;
  step.a_input = tape.input(a);
  step.b_input = tape.input(*b.tensor());
  if (step.a_input.is_followed()) step.b = *b.tensor();
  if (step.b_input.is_followed()) step.a = a;
  if (step.a_input.is_followed() || step.b_input.is_followed()) tape.record(y, std::move(step));
}

void LinearArgs::record(Tape& tape, const Tensor& y) const {
  if (is_recorded_in_steps(options)) return tape.record_missing(y, kFunctional);  // not called through ops::linear
  // No model that trains has several matrices in one parameter.
  if (options.rows.count != 0) return tape.record_missing(y, kFunctional);
  record_linear(tape, x, weight, options, y);
}

}  // namespace ballast::ops
