#include "ballast/ops/reduction.h"

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/weight_access.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

template <typename Args>
bool has_f32(const Context&, const Args& args) {
  return is_f32(args.x);
}

Result<Tensor> reduce_all(Context& context, const Tensor& x, double divisor) {
  BALLAST_TRY(Tensor y, context.workspace().make({1}, x.dtype()));
  BALLAST_CHECK(launch(context, Kernel::reduce_all_f32, {.grid = {1}, .block = {1024}}, device_address(x),
                       device_address(y), divisor, x.count()));
  return y;
}

Result<Tensor> run_sum_all(Context& context, const SumAllArgs& args) { return reduce_all(context, args.x, 1); }

Result<Tensor> run_mean_all(Context& context, const MeanAllArgs& args) {
  return reduce_all(context, args.x, static_cast<double>(args.x.count()));
}

Result<Tensor> run_sum_last_dim(Context& context, const SumLastDimArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(row_dims(args.x.dims()), args.x.dtype()));
  const uint64_t features = args.x.dims().back();
  const Grid grid{.grid = {blocks_for(y.count(), 1)}, .block = {threads_for_row(features)}};
  BALLAST_CHECK(launch(context, Kernel::sum_rows_f32, grid, device_address(args.x), device_address(y), features));
  return y;
}

Result<Tensor> run_scale_rows(Context& context, const ScaleRowsArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(launch(context, Kernel::scale_rows_f32, grid_over(y.count()), device_address(args.x),
                       device_address(args.factors), device_address(y), args.x.dims().back(), y.count()));
  return y;
}

}  // namespace

void add_reduction(Registry& registry) {
  add_functional<SumAllArgs, run_sum_all, has_f32<SumAllArgs>>(registry);
  add_functional<MeanAllArgs, run_mean_all, has_f32<MeanAllArgs>>(registry);
  add_functional<SumLastDimArgs, run_sum_last_dim, has_f32<SumLastDimArgs>>(registry);
  add_functional<ScaleRowsArgs, run_scale_rows, has_f32<ScaleRowsArgs>>(registry);
}

}  // namespace ballast::cuda
