#include "ballast/ops/activation.h"

#include <fmt/format.h>

#include "ballast/ops/check.h"

namespace ballast::ops {

Status ActivationArgs::check() const { return check_activation("x", x); }
std::string ActivationArgs::text() const { return typed(x); }

Status GeluArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  if (variant == Activation::kGeluErf || variant == Activation::kGeluTanh) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is no variant of GELU", to_text(variant)));
}
std::string GeluArgs::text() const { return fmt::format("{} {}", typed(x), to_text(variant)); }

Status SwigluArgs::check() const { return check_same("gate", gate, "up", up); }
std::string SwigluArgs::text() const { return typed(gate); }

Status PreluArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  return check_vector("slopes", slopes, "x", x);
}
std::string PreluArgs::text() const { return fmt::format("{} slopes {}", typed(x), typed(slopes)); }

std::string_view to_text(Activation activation) {
  switch (activation) {
    case Activation::kNone: return "none";
    case Activation::kRelu: return "relu";
    case Activation::kRelu6: return "relu6";
    case Activation::kGeluErf: return "gelu_erf";
    case Activation::kGeluTanh: return "gelu_tanh";
    case Activation::kSilu: return "silu";
  }
  return "unknown";
}

std::string_view functional_of(Activation activation) {
  switch (activation) {
    case Activation::kNone: return {};
    case Activation::kRelu: return ReluArgs::kFunctional;
    case Activation::kRelu6: return Relu6Args::kFunctional;
    case Activation::kGeluErf:
    case Activation::kGeluTanh: return GeluArgs::kFunctional;
    case Activation::kSilu: return SiluArgs::kFunctional;
  }
  return {};
}

Result<Tensor> activate(Context& context, Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kRelu: return relu(context, x);
    case Activation::kRelu6: return relu6(context, x);
    case Activation::kGeluErf:
    case Activation::kGeluTanh: return gelu(context, x, activation);
    case Activation::kSilu: return silu(context, x);
  }
  return x;
}

Result<Tensor> relu(Context& context, const Tensor& x) { return context.registry().call(context, ReluArgs{{x}}); }
Result<Tensor> relu6(Context& context, const Tensor& x) { return context.registry().call(context, Relu6Args{{x}}); }
Result<Tensor> silu(Context& context, const Tensor& x) { return context.registry().call(context, SiluArgs{{x}}); }
Result<Tensor> softmax_last_dim(Context& context, const Tensor& x) {
  return context.registry().call(context, SoftmaxLastDimArgs{{x}});
}
Result<Tensor> gelu(Context& context, const Tensor& x, Activation variant) {
  return context.registry().call(context, GeluArgs{x, variant});
}
Result<Tensor> swiglu(Context& context, const Tensor& gate, const Tensor& up) {
  return context.registry().call(context, SwigluArgs{gate, up});
}
Result<Tensor> prelu(Context& context, const Tensor& x, const Param& slopes) {
  return context.registry().call(context, PreluArgs{x, slopes});
}

}  // namespace ballast::ops
