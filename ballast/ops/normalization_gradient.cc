#include "ballast/ops/gradient_access.h"
#include "ballast/ops/normalization.h"

namespace ballast::ops {

namespace {

// Layer norm, or with `beta` invalid and `is_rms` the RMS form.
struct NormGradient {
  Param gamma, beta;
  bool is_rms, to_gamma, to_beta;
  float eps, shift;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const PlacePair places, place_pair(context, tape, gamma, to_gamma, beta, to_beta, dy.dtype()));
    BALLAST_TRY(Tensor dx, make_wanted(context, input.is_followed(), dy.dims(), dy.dtype()));
    if (dy.dims().back() != 0) {
      BALLAST_CHECK(context.registry().run(context, NormGradientArgs{is_rms, x, gamma, eps, shift, dy, wanted(dx),
                                                                     places.first, places.second, places.add}));
    }
    return input.is_followed() ? tape.add(context, input, dx) : Status();
  }
};

}  // namespace

void LayerNormArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma) && !tape.follows(beta)) return;
  tape.record(y, NormGradient{gamma, beta, false, tape.follows(gamma), tape.follows(beta), eps, 0, x, tape.input(x)});
}

void RmsNormArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma)) return;
  tape.record(y, NormGradient{gamma, Param(), true, tape.follows(gamma), false, eps, shift, x, tape.input(x)});
}

}  // namespace ballast::ops
