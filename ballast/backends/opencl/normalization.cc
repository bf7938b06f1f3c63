#include "ballast/ops/normalization.h"

#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/weight_access.h"

namespace ballast::opencl {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

Grid group_a_row(const Tensor& y) { return {.x = y.dims().leading()}; }

bool supports_layer_norm(const Context&, const LayerNormArgs& args) {
  return is_f32(args.x) && is_readable(args.gamma) && is_readable(args.beta);
}

Result<Tensor> run_layer_norm(Context& context, const LayerNormArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const VectorWeight gamma, vector_weight(context, &args.gamma));
  BALLAST_TRY(const VectorWeight beta, vector_weight(context, &args.beta));
  BALLAST_CHECK(launch(context, {"rows", "layer_norm_f32"}, group_a_row(y), device_buffer(args.x), gamma.buffer,
                       gamma.type, beta.buffer, beta.type, device_buffer(y), args.eps, y.dims().back()));
  return y;
}

bool supports_rms_norm(const Context&, const RmsNormArgs& args) { return is_f32(args.x) && is_readable(args.gamma); }

Result<Tensor> run_rms_norm(Context& context, const RmsNormArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const VectorWeight gamma, vector_weight(context, &args.gamma));
  BALLAST_CHECK(launch(context, {"rows", "rms_norm_f32"}, group_a_row(y), device_buffer(args.x), gamma.buffer,
                       gamma.type, device_buffer(y), args.eps, args.shift, y.dims().back()));
  return y;
}

// ---------------------------------------------------------------- of channels

bool supports_batch_norm(const Context&, const BatchNormArgs& args) {
  return is_f32(args.x) && is_readable(args.mean) && is_readable(args.variance) && is_readable(args.gamma) &&
         is_readable(args.beta);
}

Result<Tensor> run_batch_norm(Context& context, const BatchNormArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const VectorWeight mean, vector_weight(context, &args.mean));
  BALLAST_TRY(const VectorWeight variance, vector_weight(context, &args.variance));
  BALLAST_TRY(const VectorWeight gamma, vector_weight(context, &args.gamma));
  BALLAST_TRY(const VectorWeight beta, vector_weight(context, &args.beta));
  BALLAST_CHECK(launch(context, {"images", "batch_norm_f32"}, grid_over(y.count()), device_buffer(args.x), mean.buffer,
                       mean.type, variance.buffer, variance.type, gamma.buffer, gamma.type, beta.buffer, beta.type,
                       device_buffer(y), args.eps, y.dims().back(), y.count()));
  return y;
}

}  // namespace

void add_normalization(Registry& registry) {
  add_functional<LayerNormArgs, run_layer_norm, supports_layer_norm>(registry);
  add_functional<RmsNormArgs, run_rms_norm, supports_rms_norm>(registry);
  add_functional<BatchNormArgs, run_batch_norm, supports_batch_norm>(registry);
}

}  // namespace ballast::opencl
