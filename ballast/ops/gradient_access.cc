#include "ballast/ops/gradient_access.h"

#include <fmt/format.h>

#include <cstring>

namespace ballast::ops {

Error no_gradient_kernel(const Context& context, std::string_view kernel) {
  return make_error(ErrorCode::kUnsupported, fmt::format("the backend \"{}\" cannot train: it has no kernel for {}",
                                                         context.backend().name, kernel));
}

Result<Tensor> unary_gradient(Context& context, UnaryOp op, double parameter, const Tensor& x, const Tensor& dy) {
  BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
  BALLAST_CHECK(with_type(dy.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::unary, "gradients of activations"));
    table->unary(op, static_cast<T>(parameter), x.data<T>(), dy.data<T>(), dx.writable<T>(), dx.count(),
                 context.threads());
    return {};
  }));
  return dx;
}

Status add_column_sums(Context& context, const Tensor& x, const GradientPlace& place) {
  const uint64_t features = place.gradient->count();
  if (features == 0) return {};
  return with_type(x.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::column_sums, "sums of columns"));
    table->column_sums(x.data<T>(), place.gradient->writable<T>(), x.count() / features, features, place.add,
                       context.threads());
    return {};
  });
}

void fill_zero(Tensor& tensor) { std::memset(tensor.writable<std::byte>(), 0, tensor.bytes().size()); }

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

Result<PlacePair> place_pair(Tape& tape, const Param& first, bool wants_first, const Param& second, bool wants_second,
                             DType dtype) {
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
  if (pair.add && pair.first != nullptr && !a.add) fill_zero(*pair.first);
  if (pair.add && pair.second != nullptr && !b.add) fill_zero(*pair.second);
  return pair;
}

}  // namespace ballast::ops
