#include "ballast/ops/tensor_ops.h"

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/weight_access.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

bool supports_binary(const Context&, const BinaryArgs& args) { return is_f32(args.a); }

Result<Tensor> run_binary(Context& context, const BinaryArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.a.dims(), args.a.dtype()));
  BALLAST_CHECK(launch(context, Kernel::binary_f32, grid_over(y.count()), device_address(args.a),
                       device_address(args.b), device_address(y), static_cast<uint32_t>(args.op), y.count()));
  return y;
}

bool supports_add_bias(const Context&, const AddBiasArgs& args) {
  return is_f32(args.x) && is_readable_or_absent(args.bias.param());
}

Result<Tensor> run_add_bias(Context& context, const AddBiasArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(VectorWeight bias, vector_weight(context, args.bias.param()));
  if (const Tensor* tensor = args.bias.tensor()) {
    bias = {device_address(*tensor), static_cast<uint32_t>(WeightType::kF32)};
  }
  BALLAST_CHECK(launch(context, Kernel::add_bias_f32, grid_over(y.count()), device_address(args.x), bias.address,
                       bias.type, device_address(y), y.dims().back(), y.count()));
  return y;
}

bool supports_clamp(const Context&, const ClampArgs& args) { return is_f32(args.x); }

Result<Tensor> run_clamp(Context& context, const ClampArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  BALLAST_CHECK(launch(context, Kernel::clamp_f32, grid_over(y.count()), device_address(args.x), device_address(y),
                       args.low, args.high, y.count()));
  return y;
}

}  // namespace

void add_tensor_ops(Registry& registry) {
  add_functional<BinaryArgs, run_binary, supports_binary>(registry);
  add_functional<AddBiasArgs, run_add_bias, supports_add_bias>(registry);
  add_functional<ClampArgs, run_clamp, supports_clamp>(registry);
}

}  // namespace ballast::cuda
