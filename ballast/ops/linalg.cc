#include "ballast/ops/linalg.h"

#include <fmt/format.h>

#include "ballast/base/checked.h"
#include "ballast/ops/activation.h"
#include "ballast/ops/check.h"

namespace ballast::ops {

namespace {

std::string rows_text(const RowRange& rows) {
  return rows.count == 0 ? "" : fmt::format(" rows {} to {}", rows.first, rows.first + rows.count - 1);
}

std::string_view layout_text(WeightLayout layout) { return layout == WeightLayout::kInOut ? "" : " transposed"; }

Status check_weight_rows(std::string_view role, const Param& weight, WeightLayout layout, const RowRange& rows) {
  const bool is_stack = rows.count != 0 && weight.valid() && weight.shape().rank() == 3;
  BALLAST_CHECK(check_weight(role, weight, is_stack ? 3 : 2));
  if (rows.count == 0) return {};
  if (layout == WeightLayout::kOutIn && range_fits(rows.first, rows.count, weight.rows())) return {};
  return refused(named(role, weight) + rows_text(rows),
                 fmt::format("rows are outputs (out-in), and there are {}", weight.rows()));
}

// x times a weight, whatever else is asked.
Status check_product(std::string_view x_role, const Tensor& x, std::string_view w_role, const Param& weight,
                     WeightLayout layout, const RowRange& rows = {}) {
  BALLAST_CHECK(check_activation(x_role, x));
  BALLAST_CHECK(check_weight_rows(w_role, weight, layout, rows));
  if (x.dims().rank() == 0) return refused(named(x_role, x), "it must have a dimension");
  const uint64_t k = size_of(weight, layout).k;
  if (x.dims().back() == k) return {};
  return does_not_fit(named(x_role, x), named(w_role, weight),
                      fmt::format("the last dimension of {} must be {}", x_role, k));
}

Status check_tensors(const Tensor& a, const Tensor& b) {
  BALLAST_CHECK(check_activation("a", a));
  BALLAST_CHECK(check_activation("b", b));
  if (a.dtype() != b.dtype()) {
    return does_not_fit("a " + typed(a), "b " + typed(b), "both must have the same type");
  }
  const size_t rank = a.dims().rank();
  if (rank != b.dims().rank() || rank < 2 || rank > 3) {
    return does_not_fit(named("a", a), named("b", b), "both must be matrices or both batches of matrices");
  }
  if (rank == 3 && a.dims()[0] != b.dims()[0]) {
    return does_not_fit(named("a", a), named("b", b), "both batches must have the same size");
  }
  if (a.dims().back() == b.dims().back(1)) return {};
  return does_not_fit(named("a", a), named("b", b),
                      fmt::format("the last dimension of a must be {}", b.dims().back(1)));
}

Result<Tensor> recorded_in_steps(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options) {
  LinearOptions plain{.bias = options.bias, .layout = options.layout, .rows = options.rows};
  const bool is_relu = options.activation == Activation::kRelu;
  if (is_relu) plain.activation = options.activation;
  BALLAST_TRY(Tensor y, linear(context, x, weight, plain));
  if (!is_relu) {
    BALLAST_TRY(y, activate(context, options.activation, y));
  }
  if (options.residual == nullptr) return y;
  return add(context, y, *options.residual);
}

}  // namespace

bool is_recorded_in_steps(const LinearOptions& options) {
  return options.residual != nullptr ||
         (options.activation != Activation::kNone && options.activation != Activation::kRelu);
}

MatrixSize size_of(const Param& weight, WeightLayout layout, const RowRange& rows) {
  const Shape& shape = weight.shape();
  if (layout == WeightLayout::kInOut) return MatrixSize{shape[0], shape[1]};
  return MatrixSize{shape[shape.rank() - 1], rows.count != 0 ? rows.count : shape[0]};
}

Dims product_dims(const Tensor& x, const Param& weight, WeightLayout layout, const RowRange& rows) {
  Dims dims = x.dims();
  dims[dims.rank() - 1] = size_of(weight, layout, rows).n;
  return dims;
}

bool LinearArgs::is_taken_apart(const Context& context) const {
  if (options.rows.count != 0) return false;  // matmul takes parameters whole
  const Registry& registry = context.registry();
  return registry.is_overridden("matmul") || (options.bias != nullptr && registry.is_overridden("add_bias")) ||
         (options.activation != Activation::kNone && registry.is_overridden(functional_of(options.activation))) ||
         (options.residual != nullptr && registry.is_overridden("binary"));
}

// Each step may be given to another implementation.
Result<Tensor> LinearArgs::run_in_steps(Context& context) const {
  const Tensor rows = x.reshaped({x.dims().leading(), x.dims().back()});
  BALLAST_TRY(Tensor y, context.registry().call(context, MatmulArgs{rows, Operand(weight), options.layout}));
  y = y.reshaped(product_dims(x, weight, options.layout));
  if (options.bias != nullptr) {
    BALLAST_TRY(y, add_bias(context, y, *options.bias));
  }
  BALLAST_TRY(y, activate(context, options.activation, y));
  if (options.residual != nullptr) {
    BALLAST_TRY(y, add(context, y, *options.residual));
  }
  return y;
}

Status MatmulArgs::check() const {
  if (b.tensor() != nullptr) return check_tensors(a, *b.tensor());
  BALLAST_CHECK(check_activation("a", a, 2));
  return check_product("a", a, "b", *b.param(), layout);
}
std::string MatmulArgs::text() const { return fmt::format("{} x {}{}", typed(a), typed(b), layout_text(layout)); }

Status LinearArgs::check() const {
  BALLAST_CHECK(check_product("x", x, "weight", weight, options.layout, options.rows));
  const uint64_t n = size_of(weight, options.layout, options.rows).n;
  if (options.bias != nullptr) {
    BALLAST_CHECK(check_weight("bias", *options.bias, 1));
    if (options.bias->shape()[0] != n) {
      return does_not_fit(named("bias", *options.bias), named("weight", weight),
                          fmt::format("it must have {} values", n));
    }
  }
  if (options.residual == nullptr) return {};
  BALLAST_CHECK(check_activation("residual", *options.residual));
  const Dims expected = product_dims(x, weight, options.layout, options.rows);
  if (options.residual->dims() == expected && options.residual->dtype() == x.dtype()) return {};
  return does_not_fit("residual " + typed(*options.residual),
                      fmt::format("{} {}", named("x", x), named("weight", weight)),
                      fmt::format("the output is {} {}", dtype_name(x.dtype()), expected.to_string()));
}
std::string LinearArgs::text() const {
  return fmt::format("{} x {}{}{}{} {}{}", typed(x), typed(weight), layout_text(options.layout),
                     rows_text(options.rows), options.bias != nullptr ? " + bias" : "", to_text(options.activation),
                     options.residual != nullptr ? " + residual" : "");
}

Result<Tensor> matmul(Context& context, const Tensor& a, const Operand& b) {
  return context.registry().call(context, MatmulArgs{a, b});
}
Result<Tensor> linear(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options) {
  if (context.tape != nullptr && is_recorded_in_steps(options)) return recorded_in_steps(context, x, weight, options);
  return context.registry().call(context, LinearArgs{x, weight, options});
}

}  // namespace ballast::ops
