#include "ballast/ops/activation.h"

#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/weight_access.h"
#include "ballast/ops/tensor_ops.h"

namespace ballast::opencl {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

template <typename Args>
bool takes_f32(const Context&, const Args& args) {
  return is_f32(args.x);
}

Result<Tensor> apply_unary(Context& context, UnaryOp op, double parameter, const Tensor& x) {
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  BALLAST_CHECK(launch(context, {"elementwise", "unary_f32"}, grid_over(y.count()), device_buffer(x), device_buffer(y),
                       static_cast<uint32_t>(op), static_cast<float>(parameter), y.count()));
  return y;
}

template <typename Args, UnaryOp kOp>
Result<Tensor> run_fixed(Context& context, const Args& args) {
  return apply_unary(context, kOp, 0, args.x);
}

Result<Tensor> run_unary(Context& context, const UnaryArgs& args) {
  return apply_unary(context, args.op, args.parameter, args.x);
}

Result<Tensor> run_gelu(Context& context, const GeluArgs& args) {
  return apply_unary(context, args.variant == Activation::kGeluTanh ? UnaryOp::kGeluTanh : UnaryOp::kGeluErf, 0,
                     args.x);
}

bool supports_swiglu(const Context&, const SwigluArgs& args) { return is_f32(args.gate); }

Result<Tensor> run_swiglu(Context& context, const SwigluArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.gate.dims(), args.gate.dtype()));
  BALLAST_CHECK(launch(context, {"elementwise", "swiglu_f32"}, grid_over(y.count()), device_buffer(args.gate),
                       device_buffer(args.up), device_buffer(y), y.count()));
  return y;
}

Result<Tensor> run_softmax(Context& context, const SoftmaxLastDimArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  const uint64_t features = y.dims().rank() == 0 ? 1 : y.dims().back();
  const Grid grid{.x = y.count() / features};
  BALLAST_CHECK(launch(context, {"rows", "softmax_f32"}, grid, device_buffer(args.x), device_buffer(y), features));
  return y;
}

bool supports_prelu(const Context&, const PreluArgs& args) { return is_f32(args.x) && is_readable(args.slopes); }

Result<Tensor> run_prelu(Context& context, const PreluArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const VectorWeight slopes, vector_weight(context, &args.slopes));
  BALLAST_CHECK(launch(context, {"elementwise", "prelu_f32"}, grid_over(y.count()), device_buffer(args.x),
                       slopes.buffer, slopes.type, device_buffer(y), y.dims().back(), y.count()));
  return y;
}

}  // namespace

void add_activation(Registry& registry) {
  add_functional<ReluArgs, run_fixed<ReluArgs, UnaryOp::kRelu>, takes_f32<ReluArgs>>(registry);
  add_functional<Relu6Args, run_fixed<Relu6Args, UnaryOp::kRelu6>, takes_f32<Relu6Args>>(registry);
  add_functional<SiluArgs, run_fixed<SiluArgs, UnaryOp::kSilu>, takes_f32<SiluArgs>>(registry);
  add_functional<UnaryArgs, run_unary, takes_f32<UnaryArgs>>(registry);
  add_functional<GeluArgs, run_gelu, takes_f32<GeluArgs>>(registry);
  add_functional<SwigluArgs, run_swiglu, supports_swiglu>(registry);
  add_functional<SoftmaxLastDimArgs, run_softmax, takes_f32<SoftmaxLastDimArgs>>(registry);
  add_functional<PreluArgs, run_prelu, supports_prelu>(registry);
}

}  // namespace ballast::opencl
