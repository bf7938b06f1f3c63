#include "ballast/ops/gradient_access.h"
#include "ballast/ops/tensor_ops.h"

namespace ballast::ops {

namespace {

struct AddBiasStep {
  Param param;  // the bias, where it is one that is followed
  Tape::Input input, bias;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (param.valid()) {
      BALLAST_TRY(const GradientPlace place, tape.place(param, dy.dtype()));
      BALLAST_CHECK(add_column_sums(context, dy, place));
    } else if (bias.is_followed()) {
      BALLAST_TRY(const GradientPlace place, tape.place(context, bias, dy.dtype()));
      BALLAST_CHECK(add_column_sums(context, dy, place));
    }
    return tape.add(context, input, dy);
  }
};

struct SumStep {
  BinaryOp op;  // kAdd or kSub
  Tape::Input a, b;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_CHECK(tape.add(context, a, dy));
    if (op == BinaryOp::kAdd || !b.is_followed()) return tape.add(context, b, dy);
    BALLAST_TRY(const Tensor negative, unary(context, UnaryOp::kNeg, dy));
    return tape.add(context, b, negative);
  }
};

struct ProductStep {
  Tensor a, b;  // each where the gradient of the other is wanted
  Tape::Input a_input, b_input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (a_input.is_followed()) {
      BALLAST_TRY(const Tensor da, binary(context, BinaryOp::kMul, dy, b));
      BALLAST_CHECK(tape.add(context, a_input, da));
    }
    if (!b_input.is_followed()) return {};
    BALLAST_TRY(const Tensor db, binary(context, BinaryOp::kMul, dy, a));
    return tape.add(context, b_input, db);
  }
};

// With y = a / b: da = dy / b, and db = -da * y.
struct QuotientStep {
  Tensor b;
  Tensor y;  // where the gradient of b is wanted
  Tape::Input a_input, b_input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const Tensor da, binary(context, BinaryOp::kDiv, dy, b));
    BALLAST_CHECK(tape.add(context, a_input, da));
    if (!b_input.is_followed()) return {};
    BALLAST_TRY(const Tensor product, binary(context, BinaryOp::kMul, da, y));
    BALLAST_TRY(const Tensor db, unary(context, UnaryOp::kNeg, product));
    return tape.add(context, b_input, db);
  }
};

// Of two that are equal, b was taken.
struct ChoiceStep {
  BinaryOp op;  // kMax or kMin
  Tensor a, b;
  Tape::Input a_input, b_input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (a_input.is_followed()) BALLAST_CHECK(give(context, dy, tape, true));
    return b_input.is_followed() ? give(context, dy, tape, false) : Status();
  }

  Status give(Context& context, const Tensor& dy, Tape& tape, bool to_a) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, ChoiceGradientArgs{op, a, b, to_a, dy, dx}));
    return tape.add(context, to_a ? a_input : b_input, dx);
  }
};

struct UnaryStep {
  UnaryOp op;
  double parameter;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const Tensor dx, unary_gradient(context, op, parameter, x, dy));
    return tape.add(context, input, dx);
  }
};

// A slope that is the same everywhere: nothing of x is needed.
struct LinearUnaryStep {
  double slope;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (slope == 1) return tape.add(context, input, dy);
    BALLAST_TRY(const Tensor dx, unary(context, UnaryOp::kScale, dy, slope));
    return tape.add(context, input, dx);
  }
};

struct ClampStep {
  float low, high;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, ClampGradientArgs{x, low, high, dy, dx}));
    return tape.add(context, input, dx);
  }
};

}  // namespace

void AddBiasArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(bias)) return;
  AddBiasStep step;
  step.input = tape.input(x);
  if (bias.tensor() != nullptr) step.bias = tape.input(*bias.tensor());
  else if (tape.follows(bias)) step.param = *bias.param();
  tape.record(y, std::move(step));
}

void BinaryArgs::record(Tape& tape, const Tensor& y) const {
  const Tape::Input to_a = tape.input(a), to_b = tape.input(b);
  if (!to_a.is_followed() && !to_b.is_followed()) return;
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub: return tape.record(y, SumStep{op, to_a, to_b});
    case BinaryOp::kMul:
      return tape.record(y,
                         ProductStep{to_b.is_followed() ? a : Tensor(), to_a.is_followed() ? b : Tensor(), to_a, to_b});
    case BinaryOp::kDiv: return tape.record(y, QuotientStep{b, to_b.is_followed() ? y : Tensor(), to_a, to_b});
    case BinaryOp::kMax:
    case BinaryOp::kMin: return tape.record(y, ChoiceStep{op, a, b, to_a, to_b});
  }
}

void UnaryArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x)) return;
  const Tape::Input input = tape.input(x);
  switch (op) {
    case UnaryOp::kNeg: return tape.record(y, LinearUnaryStep{-1, input});
    case UnaryOp::kScale: return tape.record(y, LinearUnaryStep{parameter, input});
    case UnaryOp::kShift: return tape.record(y, LinearUnaryStep{1, input});
    default: return tape.record(y, UnaryStep{op, parameter, x, input});
  }
}

void ClampArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, ClampStep{low, high, x, tape.input(x)});
}

}  // namespace ballast::ops
