#include "ballast/ops/activation.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

// `x` is the input, or the output where the slope can be told from it.
struct ActivationStep {
  UnaryOp op;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const Tensor dx, unary_gradient(context, op, 0, x, dy));
    return tape.add(context, input, dx);
  }
};

struct SoftmaxStep {
  Tensor y;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, SoftmaxGradientArgs{y, dy, dx}));
    return tape.add(context, input, dx);
  }
};

struct SwigluStep {
  Tensor gate;
  Tensor up;  // where the gradient of the gate is wanted
  Tape::Input gate_input, up_input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (gate_input.is_followed()) {
      BALLAST_TRY(const Tensor product, binary(context, BinaryOp::kMul, dy, up));
      BALLAST_TRY(const Tensor dgate, unary_gradient(context, UnaryOp::kSilu, 0, gate, product));
      BALLAST_CHECK(tape.add(context, gate_input, dgate));
    }
    if (!up_input.is_followed()) return {};
    BALLAST_TRY(const Tensor factor, unary(context, UnaryOp::kSilu, gate));
    BALLAST_TRY(const Tensor dup, binary(context, BinaryOp::kMul, dy, factor));
    return tape.add(context, up_input, dup);
  }
};

struct PreluStep {
  Param slopes;
  bool to_slopes;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, make_wanted(context, input.is_followed(), dy.dims(), dy.dtype()));
    BALLAST_TRY(Tensor terms, make_wanted(context, to_slopes, dy.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, PreluGradientArgs{x, slopes, dy, wanted(dx), wanted(terms)}));
    if (to_slopes) {
      BALLAST_TRY(const GradientPlace place, tape.place(slopes, dy.dtype()));
      BALLAST_CHECK(add_column_sums(context, terms, place));
    }
    return input.is_followed() ? tape.add(context, input, dx) : Status();
  }
};

void record_activation(Tape& tape, UnaryOp op, const Tensor& input, const Tensor& values, const Tensor& y) {
  if (tape.follows(input)) tape.record(y, ActivationStep{op, values, tape.input(input)});
}

}  // namespace

// The output is above 0 (and below 6) where the input is; whoever comes next keeps the output anyway.
void ReluArgs::record(Tape& tape, const Tensor& y) const { record_activation(tape, UnaryOp::kRelu, x, y, y); }
void Relu6Args::record(Tape& tape, const Tensor& y) const { record_activation(tape, UnaryOp::kRelu6, x, y, y); }
void SiluArgs::record(Tape& tape, const Tensor& y) const { record_activation(tape, UnaryOp::kSilu, x, x, y); }
void GeluArgs::record(Tape& tape, const Tensor& y) const {
  record_activation(tape, variant == Activation::kGeluTanh ? UnaryOp::kGeluTanh : UnaryOp::kGeluErf, x, x, y);
}

void SoftmaxLastDimArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, SoftmaxStep{y, tape.input(x)});
}

void SwigluArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(gate) && !tape.follows(up)) return;
  SwigluStep step{gate, {}, tape.input(gate), tape.input(up)};
  if (step.gate_input.is_followed()) step.up = up;
  tape.record(y, std::move(step));
}

void PreluArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(slopes)) return;
  tape.record(y, PreluStep{slopes, tape.follows(slopes), x, tape.input(x)});
}

}  // namespace ballast::ops
