#include "ballast/ops/embedding.h"

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/weight_access.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

bool supports_lookup(const Context&, const EmbeddingLookupArgs& args) {
  return args.dtype == DType::kF32 && is_readable(args.weight);
}

Result<Tensor> run_lookup(Context& context, const EmbeddingLookupArgs& args) {
  const uint64_t features = args.weight.shape()[1];
  BALLAST_TRY(Tensor y, context.workspace().make({args.indices.size(), features}, args.dtype));
  if (y.count() == 0) return y;
  BALLAST_TRY(const WeightSpan table, weights(context, args.weight));
  BALLAST_TRY(const Tensor ids, upload(context, args.indices));
  const Grid grid{.grid = {blocks_for(args.indices.size(), 1)}, .block = {256}};
  BALLAST_CHECK(launch(context, Kernel::lookup_f32, grid, table.address,
                       static_cast<uint32_t>(*weight_type_of(table.dtype)), table.row_bytes, device_address(ids),
                       device_address(y), features));
  return y;
}

}  // namespace

void add_embedding(Registry& registry) { add_functional<EmbeddingLookupArgs, run_lookup, supports_lookup>(registry); }

}  // namespace ballast::cuda
