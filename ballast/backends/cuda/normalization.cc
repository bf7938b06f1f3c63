#include "ballast/ops/normalization.h"

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/kernels/arguments.h"
#include "ballast/backends/cuda/weight_access.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

Grid block_a_row(const Tensor& y) {
  return {.grid = {blocks_for(y.dims().leading(), 1)}, .block = {threads_for_row(y.dims().back())}};
}

bool supports_layer_norm(const Context&, const LayerNormArgs& args) {
  return is_f32(args.x) && is_readable(args.gamma) && is_readable(args.beta);
}

Result<Tensor> run_layer_norm(Context& context, const LayerNormArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const VectorWeight gamma, vector_weight(context, &args.gamma));
  BALLAST_TRY(const VectorWeight beta, vector_weight(context, &args.beta));
  BALLAST_CHECK(launch(context, Kernel::layer_norm_f32, block_a_row(y), device_address(args.x), gamma.address,
                       gamma.type, beta.address, beta.type, device_address(y), args.eps, y.dims().back()));
  return y;
}

bool supports_rms_norm(const Context&, const RmsNormArgs& args) { return is_f32(args.x) && is_readable(args.gamma); }

Result<Tensor> run_rms_norm(Context& context, const RmsNormArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const VectorWeight gamma, vector_weight(context, &args.gamma));
  BALLAST_CHECK(launch(context, Kernel::rms_norm_f32, block_a_row(y), device_address(args.x), gamma.address, gamma.type,
                       device_address(y), args.eps, args.shift, y.dims().back()));
  return y;
}

// ---------------------------------------------------------------- of channels

Result<ChannelValues> channel_values(Context& context, const Param& param) {
  BALLAST_TRY(const VectorWeight vector, vector_weight(context, &param));
  return ChannelValues{.values = address_of(vector.address), .type = vector.type};
}

bool supports_batch_norm(const Context&, const BatchNormArgs& args) {
  return is_f32(args.x) && is_readable(args.mean) && is_readable(args.variance) && is_readable(args.gamma) &&
         is_readable(args.beta);
}

Result<Tensor> run_batch_norm(Context& context, const BatchNormArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  ChannelNorm norm{.eps = args.eps};
  BALLAST_TRY(norm.mean, channel_values(context, args.mean));
  BALLAST_TRY(norm.variance, channel_values(context, args.variance));
  BALLAST_TRY(norm.gamma, channel_values(context, args.gamma));
  BALLAST_TRY(norm.beta, channel_values(context, args.beta));
  BALLAST_CHECK(launch(context, Kernel::batch_norm_f32, grid_over(y.count()), device_address(args.x), norm,
                       device_address(y), y.dims().back(), y.count()));
  return y;
}

bool supports_group_norm(const Context&, const GroupNormArgs& args) {
  return is_f32(args.x) && fit_kernels({args.x.dims()[0] * args.groups}) && is_readable(args.gamma) &&
         is_readable(args.beta);
}

Result<Tensor> run_group_norm(Context& context, const GroupNormArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  ChannelNorm norm{.eps = args.eps};
  BALLAST_TRY(norm.gamma, channel_values(context, args.gamma));
  BALLAST_TRY(norm.beta, channel_values(context, args.beta));
  const Dims& x = args.x.dims();
  const Grid grid{.grid = {blocks_for(x[0] * args.groups, 1)}, .block = {256}};
  BALLAST_CHECK(launch(context, Kernel::group_norm_f32, grid, device_address(args.x), norm, device_address(y),
                       x[1] * x[2], x[3], static_cast<uint32_t>(args.groups)));
  return y;
}

}  // namespace

void add_normalization(Registry& registry) {
  add_functional<LayerNormArgs, run_layer_norm, supports_layer_norm>(registry);
  add_functional<RmsNormArgs, run_rms_norm, supports_rms_norm>(registry);
  add_functional<BatchNormArgs, run_batch_norm, supports_batch_norm>(registry);
  add_functional<GroupNormArgs, run_group_norm, supports_group_norm>(registry);
}

}  // namespace ballast::cuda
