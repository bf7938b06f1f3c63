// What several gradient rules compute on their way.
#pragma once

#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/tape.h"

namespace ballast::ops {

// dy * f'(x).
Result<Tensor> unary_gradient(Context& context, UnaryOp op, double parameter, const Tensor& x, const Tensor& dy);
// The sum of the rows of x, of as many features as the place has.
Status add_column_sums(Context& context, const Tensor& x, const GradientPlace& place);
// Back through relu(z + bias): gives dz, and the bias its gradient. `y` is empty where there is no ReLU, `bias` null
// where there is none to train.
Result<Tensor> gradient_before_epilogue(Context& context, Tape& tape, const Tensor& dy, const Tensor& y,
                                        const Param* bias);

// Where two gradients of one routine go, of which it takes one `add`: one that is the first is made zero.
struct PlacePair {
  Tensor* first = nullptr;  // null: not wanted
  Tensor* second = nullptr;
  bool add = false;
};
Result<PlacePair> place_pair(Context& context, Tape& tape, const Param& first, bool wants_first, const Param& second,
                             bool wants_second, DType dtype);

Status fill_zero(Context& context, Tensor& tensor);

// A tensor for a gradient that a routine writes; empty where it is not wanted.
Result<Tensor> make_wanted(Context& context, bool is_wanted, const Dims& dims, DType dtype);
// What the routine is given for it.
inline Tensor* wanted(Tensor& tensor) { return tensor.empty() ? nullptr : &tensor; }

}  // namespace ballast::ops
