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
    if (dx.count() == 0) return tape.add(context, input, dx);
    BALLAST_CHECK(with_type(dy.dtype(), [&]<typename T>() -> Status {
      BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::softmax, "gradients of softmax"));
      table->softmax(y.data<T>(), dy.data<T>(), dx.writable<T>(), dy.dims().leading(),
                     dy.dims().rank() == 0 ? 1 : dy.dims().back(), context.threads());
      return {};
    }));
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
    if (to_slopes) BALLAST_CHECK(add_to_slopes(context, dy, tape));
    if (!input.is_followed()) return {};
    BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
    BALLAST_CHECK(with_type(dy.dtype(), [&]<typename T>() -> Status {
      BALLAST_TRY(const auto values, ParamValues<T>::take(context, slopes));
      const uint64_t channels = dy.dims().back();
      const T* in = x.data<T>();
      const T* from = dy.data<T>();
      T* to = dx.writable<T>();
      context.threads().for_ranges(dy.dims().leading(), row_grain(channels), [&](size_t begin, size_t end) {
        for (size_t row = begin; row < end; ++row) {
          for (size_t c = 0; c < channels; ++c) {
            const size_t i = row * channels + c;
            to[i] = in[i] > T{0} ? from[i] : values.data()[c] * from[i];
          }
        }
      });
      return {};
    }));
    return tape.add(context, input, dx);
  }

  Status add_to_slopes(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const GradientPlace place, tape.place(slopes, dy.dtype()));
    BALLAST_TRY(Tensor terms, context.workspace().make(dy.dims(), dy.dtype()));
    with_type(dy.dtype(), [&]<typename T>() {
      const T* in = x.data<T>();
      const T* from = dy.data<T>();
      T* to = terms.writable<T>();
      context.threads().for_ranges(dy.count(), kElementGrain, [=](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) to[i] = in[i] > T{0} ? T{0} : in[i] * from[i];
      });
    });
    return add_column_sums(context, terms, place);
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
