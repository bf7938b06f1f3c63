#include "ballast/ops/embedding.h"

#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/weight_access.h"

namespace ballast::opencl {

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
  BALLAST_TRY(const Tensor ids, context.workspace().from_bytes(std::as_bytes(std::span(args.indices)),
                                                               {args.indices.size()}, DType::kU32));
  const Grid grid{.x = args.indices.size()};
  BALLAST_CHECK(launch(context, {"rows", "lookup_f32"}, grid, table.buffer, table.offset,
                       static_cast<uint32_t>(*weight_type_of(table.dtype)), table.row_bytes, device_buffer(ids),
                       device_buffer(y), features));
  return y;
}

}  // namespace

void add_embedding(Registry& registry) { add_functional<EmbeddingLookupArgs, run_lookup, supports_lookup>(registry); }

}  // namespace ballast::opencl
