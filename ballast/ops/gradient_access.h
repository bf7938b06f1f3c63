// How gradient rules reach kernels, and what several of them compute on their way.
#pragma once

#include <string_view>

#include "ballast/ops/kernel_access.h"
#include "ballast/ops/tape.h"

namespace ballast::ops {

Error no_gradient_kernel(const Context& context, std::string_view kernel);

// The backend's table, of which the rule needs one slot; kUnsupported names what is missing.
template <typename T, typename Kernel>
Result<const GradientKernels<T>*> gradients_with(const Context& context, Kernel GradientKernels<T>::*slot,
                                                 std::string_view name) {
  const GradientKernels<T>* table = &kernels<T>(context).gradients;
  if (table->*slot == nullptr) return no_gradient_kernel(context, name);
  return table;
}

// dy * f'(x).
Result<Tensor> unary_gradient(Context& context, UnaryOp op, double parameter, const Tensor& x, const Tensor& dy);
// The sum of the rows of x, of as many features as the place has.
Status add_column_sums(Context& context, const Tensor& x, const GradientPlace& place);
// Back through relu(z + bias): gives dz, and the bias its gradient. `y` is empty where there is no ReLU, `bias` null
// where there is none to train.
Result<Tensor> gradient_before_epilogue(Context& context, Tape& tape, const Tensor& dy, const Tensor& y,
                                        const Param* bias);

// Where two gradients of one kernel go, of which it takes one `add`: one that is the first is made zero.
struct PlacePair {
  Tensor* first = nullptr;  // null: not wanted
  Tensor* second = nullptr;
  bool add = false;
};
Result<PlacePair> place_pair(Tape& tape, const Param& first, bool wants_first, const Param& second, bool wants_second,
                             DType dtype);

void fill_zero(Tensor& tensor);

template <typename T>
T* data_or_null(Tensor* tensor) {
  return tensor != nullptr ? tensor->writable<T>() : nullptr;
}

// Elements of one loop over all of them that one thread takes at once.
inline constexpr size_t kElementGrain = 1 << 14;
// The same for rows of `features` elements.
inline size_t row_grain(uint64_t features) {
  return features >= kElementGrain ? 1 : kElementGrain / (features == 0 ? 1 : features);
}

}  // namespace ballast::ops
