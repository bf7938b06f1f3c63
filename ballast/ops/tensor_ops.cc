#include "ballast/ops/tensor_ops.h"

#include <fmt/format.h>

#include <array>

#include "ballast/ops/check.h"

namespace ballast::ops {

namespace {

constexpr std::array<std::string_view, 6> kBinaryNames = {"add", "sub", "mul", "div", "max", "min"};
constexpr std::array<std::string_view, 20> kUnaryNames = {
    "neg", "abs",      "relu",         "relu6",      "gelu_erf", "gelu_tanh", "silu", "sigmoid", "tanh",  "leaky_relu",
    "elu", "softplus", "hard_sigmoid", "hard_swish", "exp",      "log",       "sqrt", "square",  "scale", "shift"};

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

}  // namespace ballast::ops
