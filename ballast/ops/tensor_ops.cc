#include "ballast/ops/tensor_ops.h"

#include <fmt/format.h>

#include <array>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/kernel_access.h"

namespace ballast::ops {

namespace {

constexpr std::array<std::string_view, 6> kBinaryNames = {"add", "sub", "mul", "div", "max", "min"};
constexpr std::array<std::string_view, 20> kUnaryNames = {
    "neg", "abs",      "relu",         "relu6",      "gelu_erf", "gelu_tanh", "silu", "sigmoid", "tanh",  "leaky_relu",
    "elu", "softplus", "hard_sigmoid", "hard_swish", "exp",      "log",       "sqrt", "square",  "scale", "shift"};

bool supports_add_bias(const Context& context, const AddBiasArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.add_bias; });
}

template <typename T>
Status add_rows(Context& context, const AddBiasArgs& args, Tensor& y) {
  const Param* param = args.bias.param();
  BALLAST_TRY(const auto values, ParamValues<T>::take(context, param));
  const T* bias = param != nullptr ? values.data() : args.bias.tensor()->data<T>();
  kernels<T>(context).add_bias(args.x.data<T>(), bias, y.writable<T>(), y.dims().leading(), y.dims().back(),
                               context.threads());
  return {};
}

Result<Tensor> run_add_bias(Context& context, const AddBiasArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return add_rows<T>(context, args, y); }));
  return y;
}

bool supports_binary(const Context& context, const BinaryArgs& args) {
  return has_kernel(context, args.a.dtype(), [](const auto& table) { return table.binary; });
}

Result<Tensor> run_binary(Context& context, const BinaryArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.a.dims(), args.a.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    kernels<T>(context).binary(args.op, args.a.data<T>(), args.b.data<T>(), y.writable<T>(), y.count(),
                               context.threads());
  });
  return y;
}

bool supports_unary(const Context& context, const UnaryArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.unary; });
}

Result<Tensor> run_unary(Context& context, const UnaryArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    kernels<T>(context).unary(args.op, static_cast<T>(args.parameter), args.x.data<T>(), y.writable<T>(), y.count(),
                              context.threads());
  });
  return y;
}

// No backend has a kernel for this: no model that we run uses it.
Result<Tensor> run_clamp(Context& context, const ClampArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* x = args.x.data<T>();
    T* out = y.writable<T>();
    const T low = args.low;
    const T high = args.high;
    context.threads().for_ranges(y.count(), 1 << 14, [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) out[i] = x[i] < low ? low : (x[i] > high ? high : x[i]);  // keeps NaN
    });
  });
  return y;
}

}  // namespace

Status AddBiasArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  if (bias.param() != nullptr) return check_vector("bias", *bias.param(), "x", x);
  const Tensor& values = *bias.tensor();
  BALLAST_CHECK(check_activation("bias", values, 1));
  if (x.dims().rank() != 0 && values.dims()[0] == x.dims().back() && values.dtype() == x.dtype()) return {};
  return does_not_fit("x " + typed(x), "bias " + typed(values),
                      fmt::format("the last dimension of x must be {}, and both of one type", values.dims()[0]));
}
std::string AddBiasArgs::text() const { return fmt::format("{} + {}", typed(x), typed(bias)); }

Status BinaryArgs::check() const { return check_same("a", a, "b", b); }
std::string BinaryArgs::text() const { return fmt::format("{} {}", kBinaryNames[static_cast<size_t>(op)], typed(a)); }

Status UnaryArgs::check() const { return check_activation("x", x); }
std::string UnaryArgs::text() const { return fmt::format("{} {}", kUnaryNames[static_cast<size_t>(op)], typed(x)); }

Status ClampArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  if (low <= high) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("the range from {} to {} is empty", low, high));
}
std::string ClampArgs::text() const { return typed(x); }

Result<Tensor> add_bias(Context& context, const Tensor& x, const Operand& bias) {
  return context.registry().call(context, AddBiasArgs{x, bias});
}
Result<Tensor> binary(Context& context, BinaryOp op, const Tensor& a, const Tensor& b) {
  return context.registry().call(context, BinaryArgs{op, a, b});
}
Result<Tensor> unary(Context& context, UnaryOp op, const Tensor& x, double parameter) {
  return context.registry().call(context, UnaryArgs{op, x, parameter});
}
Result<Tensor> clamp(Context& context, const Tensor& x, float low, float high) {
  return context.registry().call(context, ClampArgs{x, low, high});
}

void add_tensor_ops(Registry& registry) {
  add_builtin(registry, supports_add_bias, run_add_bias);
  add_builtin(registry, supports_binary, run_binary);
  add_builtin(registry, supports_unary, run_unary);
  add_builtin<ClampArgs>(registry, nullptr, run_clamp);
}

}  // namespace ballast::ops
