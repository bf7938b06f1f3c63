#include "ballast/ops/linalg.h"

#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/weight_access.h"

namespace ballast::opencl {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

// Rows of x that a group takes at once (kernels/products.cl); which of the two kernels it is changes no bit.
constexpr uint64_t kRowsOfGroup = 8;

// ---------------------------------------------------------------- weights as the kernels read them: [n, k]

// Blocks are not turned: in the other order each would have elements of many rows.
bool supports_product(const Context& context, const Param& weight, const LinearOptions& options) {
  const bool is_turned = options.layout == WeightLayout::kInOut && !is_plain(weight.dtype());
  return context.product_dtype == DType::kF32 && is_readable(weight) && !is_turned &&
         is_readable_or_absent(options.bias);
}

Result<WeightSpan> transposed(Context& context, const Param& weight) {
  const uint64_t k = weight.shape()[0], n = weight.shape()[1], element = dtype_info(weight.dtype()).bits / 8;
  const auto make = [=](Context& on, const WeightSpan& stored, Buffer out) -> Status {
    const Kernel kernel{"matrices", element == 4 ? "transpose_4" : "transpose_2"};
    return launch(on, kernel, grid_over(k * n), stored.buffer, out, k, n);
  };
  BALLAST_TRY(const Buffer buffer,
              weight_form(context, weight, {.name = "product.out_in.1", .bytes = n * k * element, .make = make}));
  return WeightSpan{buffer, 0, weight.dtype(), n, k * element};
}

Result<WeightSpan> rows_of_weight(Context& context, const Param& weight, const LinearOptions& options, uint64_t k) {
  if (k == 0) return WeightSpan{{}, 0, weight.dtype()};
  if (options.layout == WeightLayout::kInOut) return transposed(context, weight);
  return weights(context, weight, options.rows);
}

Result<Tensor> product(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options) {
  BALLAST_TRY(Tensor y, context.workspace().make(product_dims(x, weight, options.layout, options.rows), x.dtype()));
  if (y.count() == 0) return y;
  const auto [k, n] = size_of(weight, options.layout, options.rows);
  const uint64_t m = y.count() / n;
  BALLAST_TRY(const WeightSpan span, rows_of_weight(context, weight, options, k));
  BALLAST_TRY(const VectorWeight bias, vector_weight(context, options.bias));
  const Kernel kernel{"products", m == 1 ? "product_row" : "product_rows",
                      static_cast<int>(*weight_type_of(span.dtype))};
  const Grid grid{.x = n, .y = m == 1 ? 1 : (m + kRowsOfGroup - 1) / kRowsOfGroup};
  BALLAST_CHECK(launch(context, kernel, grid, device_buffer(x), span.buffer, span.offset, span.row_bytes, bias.buffer,
                       bias.type, device_buffer_or_null(options.residual), device_buffer(y), m, n, k,
                       static_cast<uint32_t>(options.activation)));
  return y;
}

// ---------------------------------------------------------------- functionals

bool supports_linear(const Context& context, const LinearArgs& args) {
  return is_f32(args.x) && supports_product(context, args.weight, args.options);
}
Result<Tensor> run_linear(Context& context, const LinearArgs& args) {
  return product(context, args.x, args.weight, args.options);
}

bool supports_matmul(const Context& context, const MatmulArgs& args) {
  if (!is_f32(args.a) || context.product_dtype != DType::kF32) return false;
  return args.b.param() == nullptr || supports_product(context, *args.b.param(), {.layout = args.layout});
}

Result<Tensor> run_matmul(Context& context, const MatmulArgs& args) {
  if (args.b.param() != nullptr) return product(context, args.a, *args.b.param(), {.layout = args.layout});
  const Tensor& b = *args.b.tensor();
  Dims dims = args.a.dims();
  dims[dims.rank() - 1] = b.dims().back();
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.a.dtype()));
  if (y.count() == 0) return y;
  const uint64_t m = args.a.dims().back(1), k = args.a.dims().back(), n = b.dims().back();
  BALLAST_CHECK(launch(context, {"matrices", "multiply_f32"}, grid_over(y.count()), device_buffer(args.a),
                       device_buffer(b), device_buffer(y), m, n, k, y.count()));
  return y;
}

}  // namespace

void add_linalg(Registry& registry) {
  add_functional<LinearArgs, run_linear, supports_linear>(registry);
  add_functional<LinearPartsArgs, run_by_parts<LinearPartsArgs>>(registry);
  add_functional<MatmulArgs, run_matmul, supports_matmul>(registry);
}

}  // namespace ballast::opencl
