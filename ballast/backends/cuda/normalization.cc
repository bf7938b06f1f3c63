#include "ballast/ops/normalization.h"

#include "ballast/backends/cuda/families.h"
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

}  // namespace

void add_normalization(Registry& registry) {
  add_functional<LayerNormArgs, run_layer_norm, supports_layer_norm>(registry);
  add_functional<RmsNormArgs, run_rms_norm, supports_rms_norm>(registry);
}

}  // namespace ballast::cuda
