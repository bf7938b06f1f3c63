#include "ballast/ops/gradient_access.h"
#include "ballast/ops/normalization.h"

namespace ballast::ops {

namespace {

// Layer norm, or with `beta` invalid and `is_rms` the RMS form.
struct NormStep {
  Param gamma, beta;
  bool is_rms, to_gamma, to_beta;
  float eps, shift;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const PlacePair places, place_pair(tape, gamma, to_gamma, beta, to_beta, dy.dtype()));
    Tensor dx;
    if (input.is_followed()) {
      BALLAST_TRY(dx, context.workspace().make(dy.dims(), dy.dtype()));
    }
    if (dy.dims().back() != 0) {
      BALLAST_CHECK(with_type(dy.dtype(), [&]<typename T>() { return run<T>(context, dy, places, dx); }));
    }
    return input.is_followed() ? tape.add(context, input, dx) : Status();
  }

  template <typename T>
  Status run(Context& context, const Tensor& dy, const PlacePair& places, Tensor& dx) const {
    const auto slot = is_rms ? &GradientKernels<T>::rms_norm : &GradientKernels<T>::layer_norm;
    BALLAST_TRY(const auto* table, gradients_with<T>(context, slot, "gradients of norms"));
    BALLAST_TRY(const auto gammas, ParamValues<T>::take(context, gamma));
    Tensor shifted;
    BALLAST_TRY(const T* scales, shifted_values(context, gammas, dy.dims().back(), shift, shifted));
    NormGradient<T> problem{};
    problem.x = x.data<T>();
    problem.dy = dy.data<T>();
    problem.gamma = scales;
    problem.dx = dx.empty() ? nullptr : dx.writable<T>();
    problem.dgamma = data_or_null<T>(places.first);
    problem.dbeta = data_or_null<T>(places.second);
    problem.rows = dy.dims().leading();
    problem.features = dy.dims().back();
    problem.eps = static_cast<T>(eps);
    problem.add = places.add;
    (table->*slot)(problem, context.threads());
    return {};
  }
};

}  // namespace

void LayerNormArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma) && !tape.follows(beta)) return;
  tape.record(y, NormStep{gamma, beta, false, tape.follows(gamma), tape.follows(beta), eps, 0, x, tape.input(x)});
}

void RmsNormArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma)) return;
  tape.record(y, NormStep{gamma, Param(), true, tape.follows(gamma), false, eps, shift, x, tape.input(x)});
}

}  // namespace ballast::ops
