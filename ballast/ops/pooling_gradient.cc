#include "ballast/ops/gradient_access.h"
#include "ballast/ops/pooling.h"

namespace ballast::ops {

namespace {

Result<Tensor> max_pool_gradient(Context& context, const Tensor& x, const PoolParams& params, const Tensor& dy) {
  BALLAST_TRY(Tensor dx, context.workspace().make(x.dims(), x.dtype()));
  BALLAST_CHECK(context.registry().run(context, MaxPool2dGradientArgs{x, params, dy, dx}));
  return dx;
}

struct MaxPoolStep {
  PoolParams params;
  bool is_nchw;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (!is_nchw) {
      BALLAST_TRY(const Tensor dx, max_pool_gradient(context, x, params, dy));
      return tape.add(context, input, dx);
    }
    BALLAST_TRY(const Tensor x_nhwc, transpose(context, x, kNchwToNhwc));
    BALLAST_TRY(const Tensor dy_nhwc, transpose(context, dy, kNchwToNhwc));
    BALLAST_TRY(const Tensor dx_nhwc, max_pool_gradient(context, x_nhwc, params, dy_nhwc));
    BALLAST_TRY(const Tensor dx, transpose(context, dx_nhwc, kNhwcToNchw));
    return tape.add(context, input, dx);
  }
};

struct AvgPoolStep {
  PoolParams params;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(input.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, AvgPool2dGradientArgs{params, dy, dx}));
    return tape.add(context, input, dx);
  }
};

struct GlobalMeanStep {
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(input.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, GlobalMeanPoolGradientArgs{dy, dx}));
    return tape.add(context, input, dx);
  }
};

}  // namespace

void MaxPool2dNhwcArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, MaxPoolStep{params, false, x, tape.input(x)});
}
void MaxPool2dArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, MaxPoolStep{params, true, x, tape.input(x)});
}
void AvgPool2dNhwcArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, AvgPoolStep{params, tape.input(x)});
}
void GlobalMeanPoolNhwcArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, GlobalMeanStep{tape.input(x)});
}

}  // namespace ballast::ops
