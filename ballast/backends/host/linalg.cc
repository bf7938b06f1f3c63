#include "ballast/ops/linalg.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "ballast/backends/host/batch_count.h"
#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/backends/host/product.h"
#include "ballast/backends/host/rounding.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

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
      kernels<float>(context).widen(blocks, host_data<float>(plain), count * tile.n);
      Tensor rounded;
      BALLAST_TRY(tile.w, product_weight(context, {host_bytes(plain).data(), DType::kF32}, count * tile.n, rounded));
      set_rows(tile, rows.count, lease.first_row() - rows.first + row, count);
      kernels<T>(context).gemm(tile, context.threads());
    }
    return {};
  });
}

// ---------------------------------------------------------------- packed weights
constexpr uint64_t kPackedRows = 16;  // KernelTable::gemm_packed_bytes
constexpr std::string_view kPackedForm = "gemm_blocks_16";

// Null where there is no room for it: rows do as well.
template <typename T>
Result<std::optional<Lease>> take_packed(Context& context, const Param& weight, GemmTile<T> tile, uint64_t bytes) {
  const auto pack = kernels<T>(context).gemm_pack;
  const auto make = [&](const Param& source, MutableByteSpan out) {
    return for_each_tile(source, [&](const Lease& lease) -> Status {
      tile.w.data = lease.bytes().data();
      set_rows(tile, source.rows(), lease.first_row(), lease.row_count());
      pack(tile, out.data(), context.threads());
      return {};
    });
  };
  Result<std::optional<Lease>> packed = weight.store().derived(weight, DerivedForm{kPackedForm, bytes, make});
  if (!packed && packed.error().code == ErrorCode::kOutOfMemory) return std::optional<Lease>();
  return packed;
}

// The weight in the form that products of several rows like, where batches go on: a prompt and its one answer shall not
// pay for it.
template <typename T>
Result<std::optional<Lease>> packed_blocks(Context& context, const Param& weight, const RowRange& rows,
                                           GemmTile<T> tile) {
  const auto bytes_of = kernels<T>(context).gemm_packed_bytes;
  BALLAST_TRY(const bool rounds, rounds_products(context));
  if (bytes_of == nullptr || rounds || !is_block(weight.dtype()) || rows.first % kPackedRows != 0) {
    return std::optional<Lease>();
  }
  tile.n = weight.rows();
  const uint64_t bytes = bytes_of(tile);
  if (bytes == 0) return std::optional<Lease>();
  // A pass may go through parts of a weight, experts for instance; the first of them stands for all.
  BatchCount batches(weight.store().derived_uses(weight));
  const bool is_worth_it = rows.first == 0 ? batches.add(tile.m) : batches.is_enough();
  if (!is_worth_it) return std::optional<Lease>();
  return take_packed(context, weight, tile, bytes);
}

template <typename T>
Status multiply_packed(Context& context, const Lease& packed, const RowRange& rows, GemmTile<T> tile) {
  GemmTile<T> before = tile;
  before.n = rows.first;
  tile.w.data = packed.bytes().data() + kernels<T>(context).gemm_packed_bytes(before);
  set_rows(tile, rows.count, 0, rows.count);
  kernels<T>(context).gemm(tile, context.threads());
  return {};
}

// ---------------------------------------------------------------- products
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
  BALLAST_TRY(const std::optional<Lease> packed, packed_blocks(context, weight, wanted, tile));
  tile.w.packed = packed.has_value();
  BALLAST_TRY(const bool rounds, rounds_products(context));
  if (rounds) tile.w.dtype = DType::kBF16;  // what product_weight makes of it
  const auto scratch_bytes = kernels<T>(context).gemm_scratch;
  BALLAST_TRY(Tensor scratch,
              context.workspace().make({scratch_bytes != nullptr ? scratch_bytes(tile) : 0}, DType::kU8));
  tile.scratch = host_data<std::byte>(scratch);
  if (packed) return multiply_packed(context, *packed, wanted, tile);
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
  tile.a = host_data<const T>(x);
  tile.c = host_data<T>(y);
  tile.m = x.dims().leading();
  tile.n = n;
  tile.k = k;
  tile.a_stride = k;
  tile.c_stride = n;
  tile.layout = options.layout;
  tile.bias = bias.data();
  tile.activation = options.activation;
  tile.residual = options.residual != nullptr ? host_data<const T>(*options.residual) : nullptr;
  return multiply(context, weight, options.rows, tile);
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
    kernels<T>(context).batched_matmul(BatchedMatmul<T>{host_data<const T>(a), host_data<const T>(b), host_data<T>(c),
                                                        batch, a.dims().back(1), b.dims().back(), a.dims().back()},
                                       context.threads());
  });
  return c;
}

bool supports_linear(const Context& context, const LinearArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.gemm; });
}

Result<Tensor> run_linear(Context& context, const LinearArgs& args) {
  return product(context, args.x, args.weight, args.options);
}

Status run_transposed_product(Context& context, const TransposedProductArgs& args) {
  BALLAST_TRY(const Tensor a, product_operand(context, args.a));
  BALLAST_TRY(const Tensor b, product_operand(context, args.b));
  return with_type(a.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table,
                gradients_with<T>(context, &GradientKernels<T>::transposed_product, "transposed products"));
    const TransposedProduct<T> problem{host_data<const T>(a),
                                       host_data<const T>(b),
                                       host_data<T>(args.c),
                                       a.dims().leading(),
                                       a.dims().back(),
                                       b.dims().back(),
                                       args.add};
    const auto scratch_size = kernels<T>(context).gradients.transposed_product_scratch;
    BALLAST_TRY(Tensor scratch,
                context.workspace().make({scratch_size != nullptr ? scratch_size(problem) : 0}, kDTypeOf<T>));
    table->transposed_product(problem, host_data<T>(scratch), context.threads());
    return {};
  });
}

}  // namespace

Result<Tensor> product(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options) {
  BALLAST_TRY(Tensor y, context.workspace().make(product_dims(x, weight, options.layout, options.rows), x.dtype()));
  BALLAST_TRY(const Tensor operand, product_operand(context, x));
  BALLAST_CHECK(with_type(x.dtype(), [&]<typename T>() { return run_gemm<T>(context, operand, weight, options, y); }));
  return y;
}

void add_linalg(Registry& registry) {
  registry.add_builtin(supports_matmul, run_matmul);
  registry.add_builtin(supports_linear, run_linear);
  registry.add_builtin<LinearPartsArgs>(nullptr, run_by_parts<LinearPartsArgs>);
  registry.add_routine(run_transposed_product);
}

}  // namespace ballast::host
