#include "ballast/ops/activation.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/kernel_access.h"

namespace ballast::ops {

namespace {

template <typename Args>
bool supports_activation(const Context& context, const Args& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.unary; });
}

Result<Tensor> run_activation(Context& context, const Tensor& x, UnaryOp op) {
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  with_type(x.dtype(), [&]<typename T>() {
    kernels<T>(context).unary(op, T{0}, x.data<T>(), y.writable<T>(), x.count(), context.threads());
  });
  return y;
}

template <typename Args, UnaryOp kOp>
void add_unary(Registry& registry) {
  add_builtin<Args>(registry, supports_activation<Args>,
                    [](Context& context, const Args& args) { return run_activation(context, args.x, kOp); });
}

bool supports_softmax(const Context& context, const SoftmaxLastDimArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.softmax; });
}

Result<Tensor> run_softmax(Context& context, const SoftmaxLastDimArgs& args) {
  const Tensor& x = args.x;
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  if (x.count() == 0) return y;
  with_type(x.dtype(), [&]<typename T>() {
    kernels<T>(context).softmax(x.data<T>(), y.writable<T>(), x.dims().leading(),
                                x.dims().rank() == 0 ? 1 : x.dims().back(), context.threads());
  });
  return y;
}

Result<Tensor> run_gelu(Context& context, const GeluArgs& args) {
  return run_activation(context, args.x,
                        args.variant == Activation::kGeluTanh ? UnaryOp::kGeluTanh : UnaryOp::kGeluErf);
}

bool supports_swiglu(const Context& context, const SwigluArgs& args) {
  return has_kernel(context, args.gate.dtype(), [](const auto& table) { return table.swiglu; });
}

Result<Tensor> run_swiglu(Context& context, const SwigluArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.gate.dims(), args.gate.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    kernels<T>(context).swiglu(args.gate.data<T>(), args.up.data<T>(), y.writable<T>(), y.count(), context.threads());
  });
  return y;
}

// No backend has a kernel for this: it is as fast as memory.
template <typename T>
Status prelu_rows(Context& context, const PreluArgs& args, Tensor& y) {
  BALLAST_TRY(const auto slopes, ParamValues<T>::take(context, args.slopes));
  const uint64_t channels = y.dims().back();
  const T* from = args.x.data<T>();
  T* to = y.writable<T>();
  const size_t grain = std::max<uint64_t>(1, (1 << 14) / channels);
  context.threads().for_ranges(y.dims().leading(), grain, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const T* x = from + row * channels;
      for (size_t c = 0; c < channels; ++c) to[row * channels + c] = x[c] > T{0} ? x[c] : slopes.data()[c] * x[c];
    }
  });
  return {};
}

Result<Tensor> run_prelu(Context& context, const PreluArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return prelu_rows<T>(context, args, y); }));
  return y;
}

bool supports_prelu(const Context& context, const PreluArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.widen; });
}

}  // namespace

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

void add_activation(Registry& registry) {
  add_unary<ReluArgs, UnaryOp::kRelu>(registry);
  add_unary<Relu6Args, UnaryOp::kRelu6>(registry);
  add_unary<SiluArgs, UnaryOp::kSilu>(registry);
  add_builtin(registry, supports_softmax, run_softmax);
  add_builtin(registry, supports_activation<GeluArgs>, run_gelu);
  add_builtin(registry, supports_swiglu, run_swiglu);
  add_builtin(registry, supports_prelu, run_prelu);
}

}  // namespace ballast::ops
