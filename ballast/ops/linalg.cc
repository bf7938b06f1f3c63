#include "ballast/ops/linalg.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/ops/activation.h"
#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/kernel_access.h"
#include "ballast/ops/rounding.h"

namespace ballast::ops {

namespace {

struct MatrixSize {
  uint64_t k, n;
};
MatrixSize size_of(const Param& weight, WeightLayout layout, const RowRange& rows = {}) {
  const Shape& shape = weight.shape();
  if (layout == WeightLayout::kInOut) return MatrixSize{shape[0], shape[1]};
  return MatrixSize{shape[shape.rank() - 1], rows.count != 0 ? rows.count : shape[0]};
}

std::string rows_text(const RowRange& rows) {
  return rows.count == 0 ? "" : fmt::format(" rows {} to {}", rows.first, rows.first + rows.count - 1);
}

std::string_view layout_text(WeightLayout layout) { return layout == WeightLayout::kInOut ? "" : " transposed"; }

template <typename T>
uint64_t tile_width(const GemmTile<T>& tile) {
  return tile.layout == WeightLayout::kOutIn ? tile.k : tile.n;
}

// Rows [begin, begin + count) of the `total` that the product goes over.
template <typename T>
void set_rows(GemmTile<T>& tile, uint64_t total, uint64_t begin, uint64_t count) {
  const bool of_outputs = tile.layout == WeightLayout::kOutIn;
  tile.begin = begin;
  tile.count = count;
  tile.first = of_outputs || begin == 0;
  tile.last = of_outputs || begin + count == total;
}

// A weight [k, n] in blocks, which run along the outputs: a few rows at a time become plain numbers.
template <typename T>
Status multiply_plain_rows(Context& context, const Param& weight, const RowRange& rows, GemmTile<T> tile) {
  constexpr uint64_t kElements = 1 << 18;
  const uint64_t most = std::max<uint64_t>(1, kElements / tile.n);
  BALLAST_TRY(Tensor plain, context.workspace().make({std::min(most, tile.k) * tile.n}, DType::kF32));
  return for_each_tile(weight, rows.first, rows.count, [&](const Lease& lease, uint64_t row_count) -> Status {
    for (uint64_t row = 0; row < row_count; row += most) {
      const uint64_t count = std::min(most, row_count - row);
      const WeightView blocks{lease.bytes().data() + row * weight.row_bytes(), weight.dtype()};
      kernels<float>(context).widen(blocks, plain.writable<float>(), count * tile.n);
      Tensor rounded;
      BALLAST_TRY(tile.w, product_weight(context, {plain.bytes().data(), DType::kF32}, count * tile.n, rounded));
      set_rows(tile, rows.count, lease.first_row() - rows.first + row, count);
      kernels<T>(context).gemm(tile, context.threads());
    }
    return {};
  });
}

// The kernel, tile of rows by tile of rows. `tile` has everything but the weight.
template <typename T>
Status multiply(Context& context, const Param& weight, const RowRange& rows, GemmTile<T> tile) {
  if (tile.m == 0 || tile.n == 0) return {};
  const auto gemm = kernels<T>(context).gemm;
  const bool of_outputs = tile.layout == WeightLayout::kOutIn;
  if (tile.k == 0) {  // nothing to read, but bias and the rest must be there
    tile.count = of_outputs ? tile.n : 0;
    gemm(tile, context.threads());
    return {};
  }
  const RowRange wanted{rows.first, rows.count != 0 ? rows.count : weight.rows()};
  if (is_block(weight.dtype()) && !of_outputs) return multiply_plain_rows(context, weight, wanted, tile);
  tile.w.dtype = weight.dtype();
  tile.numerics = context.numerics;
  const auto scratch_bytes = kernels<T>(context).gemm_scratch;
  BALLAST_TRY(Tensor scratch,
              context.workspace().make({scratch_bytes != nullptr ? scratch_bytes(tile) : 0}, DType::kU8));
  tile.scratch = scratch.writable<std::byte>();
  return for_each_tile(weight, wanted.first, wanted.count, [&](const Lease& lease, uint64_t count) -> Status {
    Tensor rounded;
    const WeightView view{lease.bytes().data(), weight.dtype()};
    BALLAST_TRY(tile.w, product_weight(context, view, count * tile_width(tile), rounded));
    set_rows(tile, wanted.count, lease.first_row() - wanted.first, count);
    gemm(tile, context.threads());
    tile.is_prepared = true;
    return {};
  });
}

template <typename T>
Status run_gemm(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options, Tensor& y) {
  const auto [k, n] = size_of(weight, options.layout, options.rows);
  BALLAST_TRY(const auto bias, ParamValues<T>::take(context, options.bias));
  GemmTile<T> tile;
  tile.a = x.data<T>();
  tile.c = y.writable<T>();
  tile.m = x.dims().leading();
  tile.n = n;
  tile.k = k;
  tile.a_stride = k;
  tile.c_stride = n;
  tile.layout = options.layout;
  tile.bias = bias.data();
  tile.activation = options.activation;
  tile.residual = options.residual != nullptr ? options.residual->data<T>() : nullptr;
  return multiply(context, weight, options.rows, tile);
}

Dims output_dims(const Tensor& x, const Param& weight, WeightLayout layout, const RowRange& rows = {}) {
  Dims dims = x.dims();
  dims[dims.rank() - 1] = size_of(weight, layout, rows).n;
  return dims;
}

// The same in steps, each of which the registry may give to another implementation.
Result<Tensor> run_linear_in_steps(Context& context, const LinearArgs& args) {
  const LinearOptions& options = args.options;
  const Tensor rows = args.x.reshaped({args.x.dims().leading(), args.x.dims().back()});
  BALLAST_TRY(Tensor y, context.registry().call(context, MatmulArgs{rows, Operand(args.weight), options.layout}));
  y = y.reshaped(output_dims(args.x, args.weight, options.layout));
  if (options.bias != nullptr) {
    BALLAST_TRY(y, add_bias(context, y, *options.bias));
  }
  BALLAST_TRY(y, activate(context, options.activation, y));
  if (options.residual != nullptr) {
    BALLAST_TRY(y, add(context, y, *options.residual));
  }
  return y;
}

bool is_linear_taken_apart(const Context& context, const LinearOptions& options) {
  if (options.rows.count != 0) return false;  // matmul takes parameters whole
  const Registry& registry = context.registry();
  return registry.is_overridden("matmul") || (options.bias != nullptr && registry.is_overridden("add_bias")) ||
         (options.activation != Activation::kNone && registry.is_overridden(functional_of(options.activation))) ||
         (options.residual != nullptr && registry.is_overridden("binary"));
}

bool supports_linear(const Context& context, const LinearArgs& args) {
  return is_linear_taken_apart(context, args.options) ||
         has_kernel(context, args.x.dtype(), [](const auto& table) { return table.gemm; });
}

Result<Tensor> run_linear(Context& context, const LinearArgs& args) {
  if (is_linear_taken_apart(context, args.options)) return run_linear_in_steps(context, args);
  return product(context, args.x, args.weight, args.options);
}

bool supports_matmul(const Context& context, const MatmulArgs& args) {
  if (args.b.param() != nullptr) {
    return has_kernel(context, args.a.dtype(), [](const auto& table) { return table.gemm; });
  }
  return has_kernel(context, args.a.dtype(), [](const auto& table) { return table.batched_matmul; });
}

Result<Tensor> run_matmul(Context& context, const MatmulArgs& args) {
  if (args.b.param() != nullptr) {
    return product(context, args.a, *args.b.param(), LinearOptions{.layout = args.layout});
  }
  BALLAST_TRY(const Tensor a, product_operand(context, args.a));
  BALLAST_TRY(const Tensor b, product_operand(context, *args.b.tensor()));
  Dims dims = a.dims();
  dims[dims.rank() - 1] = b.dims().back();
  BALLAST_TRY(Tensor c, context.workspace().make(dims, a.dtype()));
  if (c.count() == 0) return c;
  const uint64_t batch = dims.rank() == 3 ? dims[0] : 1;
  with_type(a.dtype(), [&]<typename T>() {
    kernels<T>(context).batched_matmul(BatchedMatmul<T>{a.data<T>(), b.data<T>(), c.writable<T>(), batch,
                                                        a.dims().back(1), b.dims().back(), a.dims().back()},
                                       context.threads());
  });
  return c;
}

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

Result<Tensor> product(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options) {
  BALLAST_TRY(Tensor y, context.workspace().make(output_dims(x, weight, options.layout, options.rows), x.dtype()));
  BALLAST_TRY(const Tensor operand, product_operand(context, x));
  BALLAST_CHECK(with_type(x.dtype(), [&]<typename T>() { return run_gemm<T>(context, operand, weight, options, y); }));
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
  const Dims expected = output_dims(x, weight, options.layout, options.rows);
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

void add_linalg(Registry& registry) {
  add_builtin(registry, supports_matmul, run_matmul);
  add_builtin(registry, supports_linear, run_linear);
}

}  // namespace ballast::ops
