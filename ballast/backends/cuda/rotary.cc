#include "ballast/ops/rotary.h"

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/weight_access.h"
#include "ballast/ops/rotary_order.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

// Rows [rows, stride] of x, whose first `heads` heads are turned.
struct Turned {
  uint64_t stride, heads, head_dim, length;
};

Result<Tensor> turn(Context& context, const Tensor& x, const RopeTables& tables, const Turned& turned) {
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(launch(context, Kernel::rope_f32, grid_over(y.count()), device_address(x),
                       device_address(tables.cosines), device_address(tables.sines), device_address(y), turned.stride,
                       turned.heads, turned.head_dim, tables.cosines.dims()[1], turned.length,
                       static_cast<uint32_t>(tables.layout == RopeLayout::kPairs), y.count()));
  return y;
}

bool supports_rope(const Context&, const ApplyRopeArgs& args) { return is_f32(args.x); }

Result<Tensor> run_rope(Context& context, const ApplyRopeArgs& args) {
  const Dims& dims = args.x.dims();
  return turn(context, args.x, args.tables, {dims[1] * dims[2], dims[1], dims[2], dims[0]});
}

bool supports_rope_packed(const Context&, const ApplyRopeQkvPackedArgs& args) { return is_f32(args.qkv); }

Result<Tensor> run_rope_packed(Context& context, const ApplyRopeQkvPackedArgs& args) {
  const Dims& dims = args.qkv.dims();
  const AttentionConfig& config = args.config;
  return turn(context, args.qkv, args.tables,
              {dims[1], config.q_heads + config.kv_heads, config.head_dim, dims[0] / config.sequences});
}

bool supports_order(const Context&, const PairsToHalvesArgs& args) { return is_f32(args.qkv); }

Result<Tensor> run_pairs_to_halves(Context& context, const PairsToHalvesArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.qkv.dims(), args.qkv.dtype()));
  BALLAST_CHECK(launch(context, Kernel::pairs_to_halves_f32, grid_over(y.count()), device_address(args.qkv),
                       device_address(y), y.dims()[1], args.config.q_width() + args.config.kv_width(),
                       args.config.head_dim, y.count()));
  return y;
}

}  // namespace

void add_rotary(Registry& registry) {
  add_functional<ApplyRopeArgs, run_rope, supports_rope>(registry);
  add_functional<ApplyRopeQkvPackedArgs, run_rope_packed, supports_rope_packed>(registry);
  add_functional<PairsToHalvesArgs, run_pairs_to_halves, supports_order>(registry);
  offload::add_rope_tables(registry);
}

}  // namespace ballast::cuda
