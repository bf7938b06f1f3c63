#include "ballast/ops/linalg.h"

#include <algorithm>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::reference {

namespace {

// activation(x * weight + bias) + residual, each sum in the order of its terms.
template <typename T>
Status multiply(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options, Tensor& y) {
  const auto [k, n] = size_of(weight, options.layout, options.rows);
  const uint64_t rows = options.rows.count != 0 ? options.rows.count : weight.rows();
  BALLAST_TRY(const auto w, Values<T>::operand_of(context, weight, options.rows.first, rows));
  BALLAST_TRY(const auto bias, Values<T>::of(context, options.bias));
  const T* residual = options.residual != nullptr ? host_data<const T>(*options.residual) : nullptr;
  const bool of_outputs = options.layout == WeightLayout::kOutIn;
  each(context, n == 0 ? 0 : y.count() / n, [&, k = k, n = n](size_t row) {
    const T* a = host_data<const T>(x) + row * k;
    T* c = host_data<T>(y) + row * n;
    std::fill_n(c, n, T{0});
    for (uint64_t i = 0; i < k; ++i) {
      for (uint64_t j = 0; j < n; ++j) c[j] += a[i] * (of_outputs ? w[j * k + i] : w[i * n + j]);
    }
    for (uint64_t j = 0; j < n; ++j) {
      if (bias.is_there()) c[j] += bias[j];
      c[j] = activated(options.activation, c[j]);
      if (residual != nullptr) c[j] += residual[row * n + j];
    }
  });
  return {};
}

Result<Tensor> run_linear(Context& context, const LinearArgs& args) {
  return weighted_product(context, args.x, args.weight, args.options);
}

template <typename T>
void multiply_batch(Context& context, const Tensor& a, const Tensor& b, Tensor& c) {
  const uint64_t m = a.dims().back(1), k = a.dims().back(), n = b.dims().back();
  each(context, c.count() / n, [&](size_t row) {
    const T* from = host_data<const T>(a) + row * k;
    const T* matrix = host_data<const T>(b) + row / m * k * n;
    T* to = host_data<T>(c) + row * n;
    for (uint64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (uint64_t i = 0; i < k; ++i) sum += from[i] * matrix[i * n + j];
      to[j] = sum;
    }
  });
}

Result<Tensor> run_matmul(Context& context, const MatmulArgs& args) {
  if (args.b.param() != nullptr) return weighted_product(context, args.a, *args.b.param(), {.layout = args.layout});
  BALLAST_TRY(const Tensor a, operand(context, args.a));
  BALLAST_TRY(const Tensor b, operand(context, *args.b.tensor()));
  Dims dims = a.dims();
  dims[dims.rank() - 1] = b.dims().back();
  BALLAST_TRY(Tensor c, context.workspace().make(dims, a.dtype()));
  if (c.count() == 0) return c;
  with_type(c.dtype(), [&]<typename T>() { multiply_batch<T>(context, a, b, c); });
  return c;
}

Status run_transposed_product(Context& context, const TransposedProductArgs& args) {
  BALLAST_TRY(const Tensor a, operand(context, args.a));
  BALLAST_TRY(const Tensor b, operand(context, args.b));
  const uint64_t m = a.dims().leading(), k = a.dims().back(), n = b.dims().back();
  with_type(a.dtype(), [&]<typename T>() {
    const T* left = host_data<const T>(a);
    const T* right = host_data<const T>(b);
    each(context, k, [&](size_t row) {
      T* c = host_data<T>(args.c) + row * n;
      for (uint64_t j = 0; j < n; ++j) {
        T sum = 0;
        for (uint64_t i = 0; i < m; ++i) sum += left[i * k + row] * right[i * n + j];
        c[j] = args.add ? c[j] + sum : sum;
      }
    });
  });
  return {};
}

}  // namespace

Result<Tensor> weighted_product(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options) {
  BALLAST_TRY(Tensor y, context.workspace().make(product_dims(x, weight, options.layout, options.rows), x.dtype()));
  BALLAST_TRY(const Tensor a, operand(context, x));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return multiply<T>(context, a, weight, options, y); }));
  return y;
}

void add_linalg(Registry& registry) {
  registry.add_builtin<LinearArgs>(nullptr, run_linear);
  registry.add_builtin<LinearPartsArgs>(nullptr, run_by_parts<LinearPartsArgs>);
  registry.add_builtin<MatmulArgs>(nullptr, run_matmul);
  registry.add_routine(run_transposed_product);
}

}  // namespace ballast::reference
