#include "ballast/ops/embedding.h"

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::reference {

namespace {

Result<Tensor> run_lookup(Context& context, const EmbeddingLookupArgs& args) {
  const Param& weight = args.weight;
  const uint64_t features = weight.shape()[1];
  BALLAST_TRY(Tensor y, context.workspace().make({args.indices.size(), features}, args.dtype));
  if (y.count() == 0) return y;
  BALLAST_TRY(Tensor row, context.workspace().make({weight.row_bytes()}, DType::kU8));
  const MutableByteSpan bytes(host_data<std::byte>(row), weight.row_bytes());
  for (size_t i = 0; i < args.indices.size(); ++i) {
    BALLAST_CHECK(weight.store().read_row(weight, args.indices[i], bytes));
    with_type(args.dtype,
              [&]<typename T>() { widen(weight.dtype(), bytes, host_data<T>(y) + i * features, features); });
  }
  return y;
}

Status run_scatter_rows(Context&, const ScatterRowsArgs& args) {
  const uint64_t features = args.table.dims().back();
  with_type(args.rows.dtype(), [&]<typename T>() {
    for (size_t i = 0; i < args.indices.size(); ++i) {
      const T* row = host_data<const T>(args.rows) + i * features;
      T* to = host_data<T>(args.table) + args.indices[i] * features;
      for (uint64_t j = 0; j < features; ++j) to[j] += row[j];
    }
  });
  return {};
}

}  // namespace

void add_embedding(Registry& registry) {
  registry.add_builtin<EmbeddingLookupArgs>(nullptr, run_lookup);
  registry.add_routine(run_scatter_rows);
}

}  // namespace ballast::reference
