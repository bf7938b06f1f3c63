#include "ballast/ops/tensor_ops.h"

#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/weight_access.h"
#include "ballast/ops/reduction.h"
#include "ballast/ops/update_routines.h"

namespace ballast::opencl {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

bool supports_binary(const Context&, const BinaryArgs& args) { return is_f32(args.a); }

Result<Tensor> run_binary(Context& context, const BinaryArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.a.dims(), args.a.dtype()));
  BALLAST_CHECK(launch(context, {"elementwise", "binary_f32"}, grid_over(y.count()), device_buffer(args.a),
                       device_buffer(args.b), device_buffer(y), static_cast<uint32_t>(args.op), y.count()));
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
    bias = {device_buffer(*tensor), static_cast<uint32_t>(WeightType::kF32)};
  }
  BALLAST_CHECK(launch(context, {"elementwise", "add_bias_f32"}, grid_over(y.count()), device_buffer(args.x),
                       bias.buffer, bias.type, device_buffer(y), y.dims().back(), y.count()));
  return y;
}

bool supports_clamp(const Context&, const ClampArgs& args) { return is_f32(args.x); }

Result<Tensor> run_clamp(Context& context, const ClampArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  BALLAST_CHECK(launch(context, {"elementwise", "clamp_f32"}, grid_over(y.count()), device_buffer(args.x),
                       device_buffer(y), args.low, args.high, y.count()));
  return y;
}

Result<Tensor> run_scale_rows(Context& context, const ScaleRowsArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(launch(context, {"elementwise", "scale_rows_f32"}, grid_over(y.count()), device_buffer(args.x),
                       device_buffer(args.factors), device_buffer(y), args.x.dims().back(), y.count()));
  return y;
}

bool supports_scale_rows(const Context&, const ScaleRowsArgs& args) { return is_f32(args.x); }

bool fills_floats(const Context&, const FillArgs& args) { return is_f32(args.y); }

Status run_fill(Context& context, const FillArgs& args) {
  return launch(context, {"elementwise", "fill_f32"}, grid_over(args.y.count()), device_buffer(args.y),
                static_cast<float>(args.value), args.y.count());
}

}  // namespace

void add_tensor_ops(Registry& registry) {
  add_functional<BinaryArgs, run_binary, supports_binary>(registry);
  add_functional<AddBiasArgs, run_add_bias, supports_add_bias>(registry);
  add_functional<ScaleRowsArgs, run_scale_rows, supports_scale_rows>(registry);
  add_routine<FillArgs, run_fill, fills_floats>(registry);
  add_functional<ClampArgs, run_clamp, supports_clamp>(registry);
}

}  // namespace ballast::opencl
