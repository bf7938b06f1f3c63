#include "ballast/ops/embedding.h"

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

bool supports_lookup(const Context& context, const EmbeddingLookupArgs& args) {
  return has_kernel(context, args.dtype, [](const auto& table) { return table.widen; });
}

template <typename T>
Status read_rows(Context& context, const EmbeddingLookupArgs& args, Tensor& y) {
  const Param& weight = args.weight;
  const uint64_t features = weight.shape()[1];
  const size_t row_bytes = weight.row_bytes();
  const bool as_it_is = weight.dtype() == kDTypeOf<T>;
  Tensor row;
  if (!as_it_is) {
    BALLAST_TRY(row, context.workspace().make({row_bytes}, DType::kU8));
  }
  for (size_t i = 0; i < args.indices.size(); ++i) {
    T* out = host_data<T>(y) + i * features;
    auto* bytes = as_it_is ? reinterpret_cast<std::byte*>(out) : host_data<std::byte>(row);
    BALLAST_CHECK(weight.store().read_row(weight, args.indices[i], {bytes, row_bytes}));
    if (!as_it_is) kernels<T>(context).widen(WeightView{bytes, weight.dtype()}, out, features);
  }
  return {};
}

Result<Tensor> run_lookup(Context& context, const EmbeddingLookupArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make({args.indices.size(), args.weight.shape()[1]}, args.dtype));
  if (y.count() == 0) return y;
  BALLAST_CHECK(with_type(args.dtype, [&]<typename T>() { return read_rows<T>(context, args, y); }));
  return y;
}

Status run_scatter_rows(Context& context, const ScatterRowsArgs& args) {
  return with_type(args.rows.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::scatter_rows, "sums of rows"));
    table->scatter_rows(args.indices.data(), host_data<const T>(args.rows), host_data<T>(args.table),
                        args.indices.size(), args.table.dims().back(), context.threads());
    return {};
  });
}

}  // namespace

void add_embedding(Registry& registry) {
  registry.add_builtin(supports_lookup, run_lookup);
  registry.add_routine(run_scatter_rows);
}

}  // namespace ballast::host
