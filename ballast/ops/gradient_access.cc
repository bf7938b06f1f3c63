#include "ballast/ops/gradient_access.h"

#include "ballast/ops/update_routines.h"

namespace ballast::ops {

Result<Tensor> unary_gradient(Context& context, UnaryOp op, double parameter, const Tensor& x, const Tensor& dy) {
  BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
  BALLAST_CHECK(context.registry().run(context, UnaryGradientArgs{op, parameter, x, dy, dx}));
  return dx;
}

Status add_column_sums(Context& context, const Tensor& x, const GradientPlace& place) {
  if (place.gradient->count() == 0) return {};
  return context.registry().run(context, ColumnSumsArgs{x, *place.gradient, place.add});
}

Status fill_zero(Context& context, Tensor& tensor) { return context.registry().run(context, FillArgs{tensor, 0}); }

Result<Tensor> make_wanted(Context& context, bool is_wanted, const Dims& dims, DType dtype) {
  return is_wanted ? context.workspace().make(dims, dtype) : Tensor();
}

Result<Tensor> gradient_before_epilogue(Context& context, Tape& tape, const Tensor& dy, const Tensor& y,
                                        const Param* bias) {
  Tensor dz = dy;
  if (!y.empty()) {
    BALLAST_TRY(dz, unary_gradient(context, UnaryOp::kRelu, 0, y, dy));
  }
  if (bias != nullptr) {
    BALLAST_TRY(const GradientPlace place, tape.place(*bias, dz.dtype()));
    BALLAST_CHECK(add_column_sums(context, dz, place));
  }
  return dz;
}

Result<PlacePair> place_pair(Context& context, Tape& tape, const Param& first, bool wants_first, const Param& second,
                             bool wants_second, DType dtype) {
  PlacePair pair;
  GradientPlace a, b;
  if (wants_first) {
    BALLAST_TRY(a, tape.place(first, dtype));
  }
  if (wants_second) {
    BALLAST_TRY(b, tape.place(second, dtype));
  }
  pair.first = a.gradient;
  pair.second = b.gradient;
  pair.add = a.add || b.add;
  if (pair.add && pair.first != nullptr && !a.add) BALLAST_CHECK(fill_zero(context, *pair.first));
  if (pair.add && pair.second != nullptr && !b.add) BALLAST_CHECK(fill_zero(context, *pair.second));
  return pair;
}

}  // namespace ballast::ops
