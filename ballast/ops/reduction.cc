#include "ballast/ops/reduction.h"

#include <fmt/format.h>

#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

// Every element gets `share` of the one gradient.
struct SumAllStep {
  double share;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(input.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, SpreadAllArgs{dy, share, dx}));
    return tape.add(context, input, dx);
  }
};

struct SumLastDimStep {
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(input.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, SpreadRowsArgs{dy, dx}));
    return tape.add(context, input, dx);
  }
};

struct ScaleRowsStep {
  Tensor x;        // where the gradient of the factors is wanted
  Tensor factors;  // where the gradient of x is wanted
  Tape::Input input, factors_input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (input.is_followed()) {
      BALLAST_TRY(const Tensor dx, scale_rows(context, dy, factors));
      BALLAST_CHECK(tape.add(context, input, dx));
    }
    if (!factors_input.is_followed()) return {};
    BALLAST_TRY(const Tensor products, binary(context, BinaryOp::kMul, dy, x));
    BALLAST_TRY(const Tensor sums, sum_last_dim(context, products));
    return tape.add(context, factors_input, sums);
  }
};

}  // namespace

Dims row_dims(const Dims& x) { return x.rank() == 1 ? Dims{1} : Dims(x.span().first(x.rank() - 1)); }

Status MeanAllArgs::check() const {
  BALLAST_CHECK(ActivationArgs::check());
  if (x.count() != 0) return {};
  return refused(named("x", x), "there are no elements to take the mean of");
}

Status SumLastDimArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  return x.dims().rank() > 0 ? Status() : refused(named("x", x), "it must have a dimension");
}
std::string SumLastDimArgs::text() const { return typed(x); }

Status ScaleRowsArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  BALLAST_CHECK(check_activation("factors", factors));
  if (x.dims().rank() == 0) return refused(named("x", x), "it must have a dimension");
  const Dims expected = row_dims(x.dims());
  if (factors.dims() == expected && factors.dtype() == x.dtype()) return {};
  return does_not_fit(
      "factors " + typed(factors), "x " + typed(x),
      fmt::format("there must be one for each row, {} {}", dtype_name(x.dtype()), expected.to_string()));
}
std::string ScaleRowsArgs::text() const { return typed(x); }

void SumAllArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, SumAllStep{1, tape.input(x)});
}
void MeanAllArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, SumAllStep{1 / static_cast<double>(x.count()), tape.input(x)});
}
void SumLastDimArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, SumLastDimStep{tape.input(x)});
}
void ScaleRowsArgs::record(Tape& tape, const Tensor& y) const {
  ScaleRowsStep step{{}, {}, tape.input(x), tape.input(factors)};
  if (step.factors_input.is_followed()) step.x = x;
  if (step.input.is_followed()) step.factors = factors;
  if (step.input.is_followed() || step.factors_input.is_followed()) tape.record(y, std::move(step));
}

Result<Tensor> sum_all(Context& context, const Tensor& x) { return context.registry().call(context, SumAllArgs{{x}}); }
Result<Tensor> mean_all(Context& context, const Tensor& x) {
  return context.registry().call(context, MeanAllArgs{{x}});
}
Result<Tensor> sum_last_dim(Context& context, const Tensor& x) {
  return context.registry().call(context, SumLastDimArgs{x});
}
Result<Tensor> scale_rows(Context& context, const Tensor& x, const Tensor& factors) {
  return context.registry().call(context, ScaleRowsArgs{x, factors});
}

}  // namespace ballast::ops
